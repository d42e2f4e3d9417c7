"""``/api/v1/connections``: open connections of clients, what each has, since when; and closing one with a reason."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.listing import LIST_PARAMETERS, Listing
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.columns import Part
from annulet.admin.requests.json_values import json_object
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.audit import audit
from annulet.admin.resources.clients.visibility import (
    OWN,
    OWN_CHANGES,
    REASON,
    chosen_connection,
    connection_to_end,
    visible_connections,
)
from annulet.broker.operation.inventory import close_connection, describe_connection, state_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.connections.transport import AnyConnection

PLAIN: Final = frozenset({"name", "user", "vhost", "protocol", "state", "sessions", "connected_at", "client_name"})
DETAILED: Final = frozenset(
    {
        "peer_host",
        "peer_port",
        "host",
        "port",
        "tls",
        "tls_version",
        "tls_cipher",
        "client_properties",
        "mechanism",
        "frame_max",
        "session_max",
        "heartbeat_seconds",
    }
)
HELD: Final = frozenset({"consumers", "unacknowledged"})
TRAFFIC: Final = frozenset({"bytes_received", "bytes_sent", "unsent_bytes"})


def _plain(connection: AnyConnection) -> dict[str, Any]:
    return {
        "name": connection.name,
        "user": connection.user_name,
        "vhost": "" if connection.host is None else connection.host.name,
        "protocol": connection.protocol_name,
        "state": state_of(connection),
        "sessions": len(connection.channels),
        "connected_at": connection.connected_at,
        "client_name": connection.client_name,
    }


def _detailed(connection: AnyConnection) -> dict[str, Any]:
    facts = asdict(describe_connection(connection))
    return {**{name: facts[name] for name in DETAILED}, "client_properties": json_object(facts["client_properties"])}


def _held(connection: AnyConnection) -> dict[str, Any]:
    sessions = list(connection.channels.values())
    return {
        "consumers": sum(len(session.consumers) for session in sessions),
        "unacknowledged": sum(len(session.unacknowledged) for session in sessions),
    }


def _traffic(connection: AnyConnection) -> dict[str, Any]:
    unsent = 0 if connection.transport is None else connection.transport.get_write_buffer_size()
    return {
        "bytes_received": connection.bytes_received,
        "bytes_sent": connection.bytes_sent,
        "unsent_bytes": unsent,
    }


def _key(connection: AnyConnection) -> tuple[str]:
    return (connection.name,)


def _name_of(connection: AnyConnection) -> str:
    return connection.name


LISTING: Final[Listing[AnyConnection]] = Listing(
    (Part(PLAIN, _plain), Part(DETAILED, _detailed), Part(HELD, _held), Part(TRAFFIC, _traffic)),
    _key,
    (str,),
    _name_of,
)


async def list_connections(call: Call) -> Response:
    """A page of the connections that the user sees."""
    user, found = call.parameters.get("user"), visible_connections(call)
    return await LISTING.answer(call, [each for each in found if user in {None, each.user_name}])


async def get_connection(call: Call) -> Response:
    """One connection."""
    return json_response(LISTING.item(chosen_connection(call)))


async def delete_connection(call: Call) -> Response:
    """Close a connection. Its client is told the reason; its unsettled deliveries go back to their queues."""
    connection, reason = connection_to_end(call), call.parameters["reason"]
    host = connection.require_host()
    close_connection(connection, reason, call.user.name)
    audit(host, call.user, "close-connection", connection.name, {"reason": reason}, call.now)
    return json_response({"name": connection.name, "closed": True})


CONNECTION_SCHEMA: Final = object_of(
    name=TEXT_SCHEMA, user=TEXT_SCHEMA, vhost=TEXT_SCHEMA, protocol=TEXT_SCHEMA, connected_at=COUNT
)

RESOURCES: Final = (
    Resource(
        "connections",
        "clients",
        (
            Operation(
                "GET",
                "list_connections",
                "Open connections by name.",
                list_connections,
                parameters=(*LIST_PARAMETERS, VHOST, Value("user", "a user, for its connections only")),
                answers={200: Answer("A page of connections.", page_of(CONNECTION_SCHEMA))},
                further=OWN,
            ),
        ),
    ),
    Resource(
        "connections/{connection}",
        "clients",
        (
            Operation(
                "GET",
                "get_connection",
                "One connection.",
                get_connection,
                answers={200: Answer("The connection.", CONNECTION_SCHEMA)},
                further=OWN,
            ),
            Operation(
                "DELETE",
                "close_connection",
                "Close a connection; its client is told the reason.",
                delete_connection,
                parameters=(REASON,),
                answers={200: Answer("The connection is closed.", object_of(name=TEXT_SCHEMA, closed=SWITCH_SCHEMA))},
                further=OWN_CHANGES,
            ),
        ),
    ),
)
