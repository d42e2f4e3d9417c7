"""``/api/v1/sessions``: channels of AMQP 0-9-1, sessions of AMQP 1.0 and STOMP connections, with what each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.columns import Part
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.clients.visibility import OWN, chosen_connection, visible_connections
from annulet.broker.operation.inventory import describe_session, held_messages, sessions_of
from annulet.broker.turns.list_turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.connections.client_session import ClientSession
    from annulet.broker.connections.transport import AnyConnection
    from annulet.core.model.consumer import Consumer

SESSION: Final = "session"
"""The name of a path that has the number of a session in its connection."""

HELD_MAX: Final = 500
"""Unsettled deliveries of an answer at most, each 200 bytes."""

HELD: Final = 100

HELD_PARAMETERS: Final = (
    Value("limit", "the most deliveries of an answer", INTEGER, 1, HELD_MAX, HELD),
    Value("after", "a delivery tag, for the deliveries behind it", INTEGER, default=0),
)


class Row(NamedTuple):
    """One session of a connection."""

    connection: AnyConnection
    number: int
    session: ClientSession


IDENTITY: Final = frozenset({"connection", "number", "user", "vhost"})
FIGURES: Final = frozenset(
    {"consumers", "unacknowledged", "prefetch", "shared_prefetch", "confirms", "transactional", "held_back"}
)


def _identity(row: Row) -> dict[str, Any]:
    return {
        "connection": row.connection.name,
        "number": row.number,
        "user": row.connection.user_name,
        "vhost": row.session.host.name,
    }


def _figures(row: Row) -> dict[str, Any]:
    facts = describe_session(row.number, row.session)
    return {name: getattr(facts, name) for name in FIGURES}


def _key(row: Row) -> tuple[str, int]:
    return row.connection.name, row.number


def _name_of(row: Row) -> str:
    return row.connection.name


LISTING: Final[Listing[Row]] = Listing((Part(IDENTITY, _identity), Part(FIGURES, _figures)), _key, (str, int), _name_of)


def _rows(connections: Iterable[AnyConnection]) -> Iterator[Row]:
    for connection in connections:
        for number, session in sessions_of(connection):
            yield Row(connection, number, session)


async def list_sessions(call: Call) -> Response:
    """A page of sessions, by connection and number."""
    wanted = call.parameters.get("connection")
    found = [each for each in visible_connections(call) if wanted in {None, each.name}]
    return await LISTING.answer(call, _rows(found))


async def get_session(call: Call) -> Response:
    """One session, with its unsettled deliveries by tag. ``next`` is the tag behind which further ones are."""
    row = chosen_session(call)
    return json_response({**LISTING.item(row), **await held(call, row.session, None)})


def chosen_session(call: Call) -> Row:
    """Return the session that the path names; 404 when there is none, or the user does not see it."""
    connection, number = chosen_connection(call), call.names[SESSION]
    for row in _rows([connection]):
        if str(row.number) == number:
            return row
    raise ResourceError(404, f"no session {number!r} of connection {connection.name!r}")


async def held(call: Call, session: ClientSession, consumer: Consumer | None) -> dict[str, Any]:
    """Return the wanted deliveries of a session or of one of its consumers, and the tag of the last if there are more.

    Other tasks get turns in between.
    """
    limit, turns = call.parameters["limit"], Turns()
    found = []
    for delivery in held_messages(session, consumer, call.parameters["after"]):
        if delivery is not None:
            found.append(delivery)
        if len(found) > limit:
            return {"held": found[:limit], "next": found[limit - 1].delivery_tag}
        await turns.look()
    return {"held": found}


SESSION_SCHEMA: Final = object_of(connection=TEXT_SCHEMA, number=COUNT, consumers=COUNT, unacknowledged=COUNT)

RESOURCES: Final = (
    Resource(
        "sessions",
        "clients",
        (
            Operation(
                "GET",
                "list_sessions",
                "Channels and sessions of connections.",
                list_sessions,
                parameters=(
                    *LIST_PARAMETERS,
                    VHOST,
                    Value("connection", "the name of a connection, for its sessions only"),
                ),
                answers={200: Answer("A page of sessions.", page_of(SESSION_SCHEMA))},
                further=OWN,
            ),
        ),
    ),
    Resource(
        "sessions/{connection}/{session}",
        "clients",
        (
            Operation(
                "GET",
                "get_session",
                "One session with its unsettled deliveries.",
                get_session,
                parameters=HELD_PARAMETERS,
                answers={200: Answer("The session.", SESSION_SCHEMA)},
                further=OWN,
            ),
        ),
    ),
)
