"""``/api/v1/queues/{vhost}/{queue}/groups``: message groups with their owners."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.call import QUEUE
from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Need, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.requests.columns import Part
from annulet.broker.operation.queue_inspection import GroupFacts, groups_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


def _item(row: GroupFacts) -> dict[str, Any]:
    return asdict(row)


def _key(row: GroupFacts) -> tuple[str]:
    return (row.group,)


def _name_of(row: GroupFacts) -> str:
    return row.group


LISTING: Final[Listing[GroupFacts]] = Listing(
    (Part(frozenset(field.name for field in fields(GroupFacts)), _item),), _key, (str,), _name_of
)


async def list_groups(call: Call) -> Response:
    """A page of them; 409 for a queue that has none by its settings."""
    return await LISTING.answer(call, groups_of(call.queue_to_browse()))


RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/groups",
        "queues",
        (
            Operation(
                "GET",
                "list_groups",
                "Message groups of a queue with their owners.",
                list_groups,
                needs=(Need("browse", QUEUE),),
                parameters=LIST_PARAMETERS,
                answers={
                    200: Answer(
                        "A page of them.", page_of(object_of(group=TEXT_SCHEMA, owner=TEXT_SCHEMA, pending=COUNT))
                    )
                },
            ),
        ),
    ),
)
