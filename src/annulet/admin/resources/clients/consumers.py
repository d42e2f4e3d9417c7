"""``/api/v1/consumers``: consumers of connections, their unsettled deliveries, since when; and ending one."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit
from annulet.admin.resources.clients.sessions import HELD_PARAMETERS, chosen_session, held
from annulet.admin.resources.clients.visibility import (
    OWN,
    OWN_CHANGES,
    REASON,
    connection_to_end,
    visible_connections,
)
from annulet.broker.operation.inventory import ConsumerFacts, describe_consumer, end_consumer, sessions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.connections.client_session import ClientSession
    from annulet.broker.connections.transport import AnyConnection
    from annulet.core.model.consumer import Consumer

CONSUMER: Final = "consumer"
"""The name of a path that has the tag of a consumer."""


class Row(NamedTuple):
    """One consumer with its session."""

    connection: AnyConnection
    number: int
    session: ClientSession
    consumer: Consumer


PLACE: Final = frozenset({"connection", "session", "user"})
FACTS: Final = frozenset(field.name for field in fields(ConsumerFacts)) - {"virtual_host"} | {"vhost"}


def _place(row: Row) -> dict[str, Any]:
    return {"connection": row.connection.name, "session": row.number, "user": row.connection.user_name}


def _facts(row: Row) -> dict[str, Any]:
    facts = asdict(describe_consumer(row.consumer, row.session.host))
    return {"vhost": facts.pop("virtual_host"), **facts}


def _key(row: Row) -> tuple[str, int, str]:
    return row.connection.name, row.number, row.consumer.tag


def _name_of(row: Row) -> str:
    return row.consumer.queue.name


LISTING: Final[Listing[Row]] = Listing((Part(PLACE, _place), Part(FACTS, _facts)), _key, (str, int, str), _name_of)


async def list_consumers(call: Call) -> Response:
    """A page of consumers; ``name`` is a part of the name of the queue."""
    return await LISTING.answer(call, _rows(call))


def _rows(call: Call) -> Iterator[Row]:
    wanted = call.parameters.get("queue")
    for connection in visible_connections(call):
        for number, session in sessions_of(connection):
            for consumer in list(session.consumers.values()):
                if wanted in {None, consumer.queue.name}:
                    yield Row(connection, number, session, consumer)


async def get_consumer(call: Call) -> Response:
    """One consumer, with its unsettled deliveries by tag. ``next`` is the tag behind which further ones are."""
    row = _chosen(call)
    return json_response({**LISTING.item(row), **await held(call, row.session, row.consumer)})


async def delete_consumer(call: Call) -> Response:
    """End a consumer. Its client is told; its unsettled deliveries stay with its session."""
    connection_to_end(call)
    row, reason = _chosen(call), call.parameters["reason"]
    end_consumer(row.consumer, reason, call.user.name, call.now)
    given = {"connection": row.connection.name, "queue": row.consumer.queue.name, "reason": reason}
    audit(row.session.host, call.user, "end-consumer", row.consumer.tag, given, call.now)
    return json_response({"tag": row.consumer.tag, "ended": True})


def _chosen(call: Call) -> Row:
    connection, number, session = chosen_session(call)
    tag = call.names[CONSUMER]
    consumer = session.consumers.get(tag)
    if consumer is None or consumer.cancelled:
        raise ResourceError(404, f"no consumer {tag!r} of session {number} of connection {connection.name!r}")
    return Row(connection, number, session, consumer)


CONSUMER_SCHEMA: Final = object_of(
    connection=TEXT_SCHEMA, session=COUNT, tag=TEXT_SCHEMA, queue=TEXT_SCHEMA, unacknowledged=COUNT
)

RESOURCES: Final = (
    Resource(
        "consumers",
        "clients",
        (
            Operation(
                "GET",
                "list_consumers",
                "Consumers of connections; `name` is a part of the name of the queue.",
                list_consumers,
                parameters=(*LIST_PARAMETERS, VHOST, Value("queue", "a queue, for its consumers only")),
                answers={200: Answer("A page of consumers.", page_of(CONSUMER_SCHEMA))},
                further=OWN,
            ),
        ),
    ),
    Resource(
        "consumers/{connection}/{session}/{consumer}",
        "clients",
        (
            Operation(
                "GET",
                "get_consumer",
                "One consumer with its unsettled deliveries.",
                get_consumer,
                parameters=HELD_PARAMETERS,
                answers={200: Answer("The consumer.", CONSUMER_SCHEMA)},
                further=OWN,
            ),
            Operation(
                "DELETE",
                "end_consumer",
                "End a consumer; its unsettled deliveries stay with its session.",
                delete_consumer,
                parameters=(REASON,),
                answers={200: Answer("The consumer is ended.", object_of(tag=TEXT_SCHEMA, ended=SWITCH_SCHEMA))},
                further=OWN_CHANGES,
            ),
        ),
    ),
)
