"""``/api/v1/queues/{vhost}/{queue}/fair-keys``: values of the fair key, and whose turn it is."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.call import QUEUE
from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, object_of, page_of
from annulet.admin.requests.columns import Part
from annulet.broker.operation.queue_inspection import FairKeyFacts, fair_keys_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


def _item(row: FairKeyFacts) -> dict[str, Any]:
    return asdict(row)


def _key(row: FairKeyFacts) -> tuple[str, str]:
    return (row.type, row.key or "")


def _name_of(row: FairKeyFacts) -> str:
    return row.key or ""


LISTING: Final[Listing[FairKeyFacts]] = Listing(
    (Part(frozenset(field.name for field in fields(FairKeyFacts)), _item),),
    _key,
    (
        str,
        str,
    ),
    _name_of,
)


async def list_fair_keys(call: Call) -> Response:
    """A page of them; 409 for a queue that has none by its settings."""
    return await LISTING.answer(call, fair_keys_of(call.queue_to_browse()))


RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/fair-keys",
        "queues",
        (
            Operation(
                "GET",
                "list_fair_keys",
                "Values of the fair key of a queue, with their turns.",
                list_fair_keys,
                needs=(Need("browse", QUEUE),),
                parameters=LIST_PARAMETERS,
                answers={
                    200: Answer("A page of them.", page_of(object_of(pending=COUNT, unacknowledged=COUNT, turn=COUNT)))
                },
            ),
        ),
    ),
)
