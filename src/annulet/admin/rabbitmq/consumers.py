"""``/api/consumers``: the consumers of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.naming import node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.broker.operation.inventory import describe_consumer, open_connections, sessions_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.broker.connections.client_session import ClientSession
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.consumer import Consumer

NAMES: Final = frozenset(
    {
        "arguments",
        "ack_required",
        "active",
        "activity_status",
        "channel_details",
        "consumer_tag",
        "exclusive",
        "prefetch_count",
        "queue",
    }
)


Row: TypeAlias = "tuple[ClientSession, int, Consumer, VirtualHost]"


def describe(row: Row) -> dict[str, Any]:
    """Return a consumer's JSON. ``arguments`` has those that the broker follows."""
    session, number, consumer, host = row
    facts = describe_consumer(consumer, host)
    connection = session.connection
    arguments: dict[str, Any] = {}
    if facts.priority:
        arguments["x-priority"] = facts.priority
    if facts.selector:
        arguments["x-filter-jms-selector"] = facts.selector
    return {
        "arguments": arguments,
        "ack_required": facts.acknowledges,
        "active": not consumer.cancelled,
        "activity_status": "up",
        "channel_details": {
            "connection_name": connection.name,
            "name": f"{connection.name} ({number})",
            "node": node_name(),
            "number": number,
            "peer_host": connection.peer.address,
            "peer_port": connection.peer.port,
            "user": connection.user_name,
        },
        "consumer_tag": facts.tag,
        "exclusive": facts.exclusive,
        "prefetch_count": facts.credit,
        "queue": {"name": facts.queue, "vhost": facts.virtual_host},
    }


def _queue_of(row: Row) -> str:
    return row[2].queue.name


LISTING: Final[Listing[Row]] = Listing((Part(NAMES, describe),), _queue_of)


async def list_consumers(call: Call) -> Response:
    """Consumers of the virtual hosts that the user sees, or of one; ``name`` is that of the queue."""
    return await LISTING.answer(call, _rows(call))


def _rows(call: Call) -> Iterator[Row]:
    """Yield the consumers by connection and session; those that end in the meantime may be left out."""
    for connection in open_connections(call.broker.connections, call.hosts()):
        host = connection.host
        if host is None:
            continue
        for number, session in sessions_of(connection):
            for consumer in list(session.consumers.values()):
                yield session, number, consumer, host


ROUTES: Final = (
    Route("consumers", {"GET": list_consumers}),
    Route("consumers/{vhost}", {"GET": list_consumers}),
)
