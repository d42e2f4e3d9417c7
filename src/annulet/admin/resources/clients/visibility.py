"""The connections that a user sees and may end.

Monitors and administrators see those of the virtual hosts they see; other users see their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.interface.values import Value
from annulet.admin.requests.access import ADMINISTRATOR, ALL_HOSTS_TAGS
from annulet.admin.requests.responses import ResourceError
from annulet.broker.operation.inventory import open_connections

if TYPE_CHECKING:
    from annulet.admin.interface.call import Call
    from annulet.broker.connections.transport import AnyConnection
    from annulet.core.host.virtual_host import VirtualHost

CONNECTION: Final = "connection"
"""The name of a path that names a connection."""

REASON: Final = Value("reason", "the reason, which the client is told", default="ended by an operator")

OWN: Final = "connections of other users are listed for the tags administrator and monitoring"
OWN_CHANGES: Final = "connections of other users are for the tag administrator"


def visible_connections(call: Call, hosts: list[VirtualHost] | None = None) -> list[AnyConnection]:
    """Return the connections that the user sees, by name."""
    found = open_connections(call.broker.connections, call.hosts() if hosts is None else hosts)
    if call.user.tags & ALL_HOSTS_TAGS:
        return found
    return [connection for connection in found if connection.user_name == call.user.name]


def chosen_connection(call: Call) -> AnyConnection:
    """Return the connection that the path names; 404 when there is none, or the user does not see it."""
    name = call.names[CONNECTION]
    for connection in visible_connections(call):
        if connection.name == name:
            return connection
    raise ResourceError(404, f"no connection {name!r}; GET /api/v1/connections lists them")


def connection_to_end(call: Call) -> AnyConnection:
    """As :func:`chosen_connection`, of a connection that the user may end: its own, or any for an administrator."""
    connection = chosen_connection(call)
    if ADMINISTRATOR not in call.user.tags and connection.user_name != call.user.name:
        raise ResourceError(403, f"connection {connection.name!r} is of another user; the tag administrator ends it")
    return connection
