"""``/api/connections``: the open connections of clients, and closing them with a reason.

Monitors see all of the virtual hosts they see; other users see their own connections (RabbitMQ).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.rabbitmq.framework.errors import not_authorised, not_found
from annulet.admin.rabbitmq.framework.levels import ADMINISTRATORS, MONITORS
from annulet.admin.rabbitmq.framework.listing import Listing
from annulet.admin.rabbitmq.framework.naming import node_name
from annulet.admin.rabbitmq.framework.routing import Route
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import json_response
from annulet.broker.operation.inventory import close_connection, describe_connection, open_connections, state_of

if TYPE_CHECKING:
    from annulet.admin.rabbitmq.framework.call import Call
    from annulet.broker.connections.transport import AnyConnection

REASON_HEADER: Final = "x-reason"
DEFAULT_REASON: Final = "Closed via management plugin"
"""RabbitMQ's text, for a request that gives none; clients look for it."""

PLAIN: Final = frozenset({"name", "user", "vhost", "protocol", "state", "node", "channels", "connected_at", "type"})

DETAILED: Final = frozenset(
    {
        "auth_mechanism",
        "channel_max",
        "client_properties",
        "frame_max",
        "host",
        "peer_cert_issuer",
        "peer_cert_subject",
        "peer_cert_validity",
        "peer_host",
        "peer_port",
        "port",
        "ssl",
        "ssl_cipher",
        "ssl_hash",
        "ssl_key_exchange",
        "ssl_protocol",
        "timeout",
        "user_provided_name",
        "user_who_performed_action",
    }
)

TRAFFIC: Final = frozenset({"recv_oct", "send_oct", "send_pend"})


def _plain(connection: AnyConnection) -> dict[str, Any]:
    return {
        "name": connection.name,
        "user": connection.user_name,
        "vhost": "" if connection.host is None else connection.host.name,
        "protocol": connection.protocol_name,
        "state": state_of(connection),
        "node": node_name(),
        "channels": len(connection.channels),
        "connected_at": connection.connected_at,
        "type": "network",
    }


def _detailed(connection: AnyConnection) -> dict[str, Any]:
    facts = describe_connection(connection)
    return {
        "auth_mechanism": facts.mechanism,
        "channel_max": facts.session_max,
        "client_properties": json_object(facts.client_properties),
        "frame_max": facts.frame_max,
        "host": facts.host,
        "peer_cert_issuer": None,
        "peer_cert_subject": connection.peer.certificate_name or None,
        "peer_cert_validity": None,
        "peer_host": facts.peer_host,
        "peer_port": facts.peer_port,
        "port": facts.port,
        "ssl": facts.tls,
        "ssl_cipher": facts.tls_cipher or None,
        "ssl_hash": None,
        "ssl_key_exchange": None,
        "ssl_protocol": facts.tls_version or None,
        "timeout": int(facts.heartbeat_seconds),
        "user_provided_name": facts.client_name,
        "user_who_performed_action": facts.user,
    }


def _traffic(connection: AnyConnection) -> dict[str, Any]:
    waiting = 0 if connection.transport is None else connection.transport.get_write_buffer_size()
    return {"recv_oct": connection.bytes_received, "send_oct": connection.bytes_sent, "send_pend": waiting}


def _name_of(connection: AnyConnection) -> str:
    return connection.name


LISTING: Final[Listing[AnyConnection]] = Listing(
    (Part(PLAIN, _plain), Part(DETAILED, _detailed), Part(TRAFFIC, _traffic, statistic=True)), _name_of
)


def visible_connections(call: Call) -> list[AnyConnection]:
    """Return the connections that the user sees, by name: his own, and as a monitor those of others."""
    found = open_connections(call.broker.connections, call.hosts())
    if call.user.tags & MONITORS:
        return found
    return [connection for connection in found if connection.user_name == call.user.name]


async def list_connections(call: Call) -> Response:
    """Connections of the virtual hosts that the user sees, or of one."""
    return await LISTING.answer(call, visible_connections(call))


async def list_of_user(call: Call) -> Response:
    """Connections of one user."""
    user = call.names["user"]
    found = [connection for connection in visible_connections(call) if connection.user_name == user]
    return await LISTING.answer(call, found)


async def get_connection(call: Call) -> Response:
    """One connection."""
    return json_response(LISTING.one(call, chosen_connection(call)))


async def delete_connection(call: Call) -> Response:
    """Close a connection; the header ``X-Reason`` is what its client is told. Users may close their own."""
    connection = chosen_connection(call)
    if not call.administrator and connection.user_name != call.user.name:
        raise not_authorised("Not administrator user")
    close_connection(connection, _reason(call), call.user.name)
    return Response(status_code=204)


async def delete_of_user(call: Call) -> Response:
    """Close all connections of one user."""
    user, reason = call.names["user"], _reason(call)
    for connection in open_connections(call.broker.connections, call.hosts()):
        if connection.user_name == user:
            close_connection(connection, reason, call.user.name)
    return Response(status_code=204)


def _reason(call: Call) -> str:
    return call.request.headers.get(REASON_HEADER) or DEFAULT_REASON


def chosen_connection(call: Call) -> AnyConnection:
    """Return the connection that the path names; 404 when there is none, or the user does not see it."""
    name = call.names["connection"]
    for connection in visible_connections(call):
        if connection.name == name:
            return connection
    raise not_found("connection", name)


ROUTES: Final = (
    Route("connections", {"GET": list_connections}),
    Route("vhosts/{vhost}/connections", {"GET": list_connections}),
    Route("connections/{connection}", {"GET": get_connection, "DELETE": delete_connection}),
    Route(
        "connections/username/{user}",
        {"GET": list_of_user, "DELETE": delete_of_user},
        levels={"DELETE": ADMINISTRATORS},
    ),
)
