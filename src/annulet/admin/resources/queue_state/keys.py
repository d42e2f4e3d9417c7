"""``/api/v1/queues/{vhost}/{queue}/keys``: keys of a queue that keeps the last messages of each."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.call import QUEUE
from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.requests.columns import Part
from annulet.broker.operation.queue_inspection import KeptKeyFacts, kept_keys_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


def _item(row: KeptKeyFacts) -> dict[str, Any]:
    return asdict(row)


def _key(row: KeptKeyFacts) -> tuple[str, str]:
    return row.key, row.type


def _name_of(row: KeptKeyFacts) -> str:
    return row.key


LISTING: Final[Listing[KeptKeyFacts]] = Listing(
    (Part(frozenset(field.name for field in fields(KeptKeyFacts)), _item),), _key, (str, str), _name_of
)


async def list_keys(call: Call) -> Response:
    """A page of them; 409 for a queue that has none by its settings."""
    return await LISTING.answer(call, kept_keys_of(call.queue_to_browse()))


RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/keys",
        "queues",
        (
            Operation(
                "GET",
                "list_keys",
                "Keys of a queue that keeps the last messages of each.",
                list_keys,
                needs=(Need("browse", QUEUE),),
                parameters=LIST_PARAMETERS,
                answers={
                    200: Answer("A page of them.", page_of(object_of(key=TEXT_SCHEMA, messages=COUNT, latest=COUNT)))
                },
            ),
        ),
    ),
)
