"""One call of the API: its user, the names in its path, its query, and the virtual host that it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.admin.rabbitmq.framework.errors import not_authorised, not_found
from annulet.admin.requests.access import ADMINISTRATOR, access_of, sees_host, visible_hosts

if TYPE_CHECKING:
    from starlette.requests import Request

    from annulet.admin.rabbitmq.framework.query import Query
    from annulet.broker.broker import Broker
    from annulet.broker.connections.access import Access
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost

VHOST: Final = "vhost"
"""The name of the path's segment that names a virtual host."""

DEFAULT_EXCHANGE: Final = "amq.default"
"""The default exchange in paths, where its own name, which is empty, has no place (RabbitMQ)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request whose user is logged in and has the level of its route. ``names`` are the path's, decoded."""

    request: Request
    broker: Broker
    user: User
    names: dict[str, str]
    query: Query

    @property
    def administrator(self) -> bool:
        """Whether the user has all rights."""
        return ADMINISTRATOR in self.user.tags

    def name(self, segment: str) -> str:
        """Return the name of an exchange or queue in the path; ``amq.default`` is the default exchange."""
        name = self.names[segment]
        return "" if name == DEFAULT_EXCHANGE else name

    def hosts(self) -> list[VirtualHost]:
        """Return the virtual host that the path names, else all that the user may see, by name."""
        return [self.host()] if VHOST in self.names else visible_hosts(self.request, self.user)

    def host(self) -> VirtualHost:
        """Return the virtual host that the path names.

        401 when the user may not see it, whether it exists or not; 404 when an administrator names one that does not
        exist.
        """
        return self.host_named(self.names[VHOST])

    def host_named(self, name: str) -> VirtualHost:
        """As :meth:`host`, of a virtual host that a body or query names."""
        host = self.broker.hosts.get(name)
        if host is not None and sees_host(self.broker, self.user, name):
            return host
        if self.administrator:
            raise not_found("virtual host", name)
        raise not_authorised("User not authorised to access virtual host")

    def access(self, host: VirtualHost) -> Access:
        """Return the user's operations in a virtual host; each asks for its permissions."""
        return access_of(self.request, self.user, host)
