"""``/api/channels``: channels of AMQP 0-9-1, sessions of AMQP 1.0, STOMP connections; each with its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from annulet.admin.rabbitmq.connections import chosen_connection, visible_connections
from annulet.admin.rabbitmq.consumers import describe as describe_consumer
from annulet.admin.rabbitmq.framework.errors import not_found
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.naming import node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.broker.operation.inventory import describe_session, sessions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.responses import Response

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.broker.connections.client_session import ClientSession
    from annulet.broker.connections.transport import AnyConnection

IDENTITY: Final = frozenset({"name", "number", "user", "vhost", "node", "connection_details", "state"})
FIGURES: Final = frozenset(
    {
        "confirm",
        "consumer_count",
        "global_prefetch_count",
        "messages_unacknowledged",
        "prefetch_count",
        "transactional",
    }
)


class Row(NamedTuple):
    """One session of a connection."""

    connection: AnyConnection
    number: int
    session: ClientSession


def name_of(row: Row) -> str:
    """Return a session's name: its connection's, and its number."""
    return f"{row.connection.name} ({row.number})"


def _identity(row: Row) -> dict[str, Any]:
    connection = row.connection
    return {
        "name": name_of(row),
        "number": row.number,
        "user": connection.user_name,
        "user_who_performed_action": connection.user_name,
        "vhost": row.session.host.name,
        "node": node_name(),
        "connection_details": {
            "name": connection.name,
            "peer_host": connection.peer.address,
            "peer_port": connection.peer.port,
        },
        "state": "flow" if row.session.held_by else "running",
    }


def _figures(row: Row) -> dict[str, Any]:
    facts = describe_session(row.number, row.session)
    return {
        "confirm": facts.confirms,
        "consumer_count": facts.consumers,
        "global_prefetch_count": facts.shared_prefetch,
        "messages_unacknowledged": facts.unacknowledged,
        "prefetch_count": facts.prefetch,
        "transactional": facts.transactional,
    }


LISTING: Final[Listing[Row]] = Listing(
    (Part(IDENTITY | {"user_who_performed_action"}, _identity), Part(FIGURES, _figures)), name_of
)


def _rows(connections: Iterable[AnyConnection]) -> Iterator[Row]:
    for connection in connections:
        for number, session in sessions_of(connection):
            yield Row(connection, number, session)


def _consumers(row: Row) -> Iterator[dict[str, Any]]:
    for consumer in list(row.session.consumers.values()):
        yield describe_consumer((row.session, row.number, consumer, row.session.host))


async def list_channels(call: Call) -> Response:
    """Channels of the connections that the user sees."""
    return await LISTING.answer(call, _rows(visible_connections(call)))


async def list_of_connection(call: Call) -> Response:
    """Channels of one connection."""
    return await LISTING.answer(call, _rows([chosen_connection(call)]))


async def get_channel(call: Call) -> Response:
    """One channel, with its consumers."""
    wanted = call.names["channel"]
    for connection in visible_connections(call):
        if not wanted.startswith(connection.name):
            continue
        for row in _rows([connection]):
            if name_of(row) == wanted:
                return await LISTING.one_with(call, row, "consumer_details", _consumers(row))
    raise not_found("channel", wanted)


ROUTES: Final = (
    Route("channels", {"GET": list_channels}),
    Route("channels/{channel}", {"GET": get_channel}),
    Route("vhosts/{vhost}/channels", {"GET": list_channels}),
    Route("connections/{connection}/channels", {"GET": list_of_connection}),
)
