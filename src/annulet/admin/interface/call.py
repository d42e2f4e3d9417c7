"""One call of the API: its user, and what the request gives, which the route table has read and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import VHOST_NAME
from annulet.admin.requests.access import access_of, chosen_hosts
from annulet.admin.requests.parameters import Page
from annulet.admin.requests.responses import ResourceError
from annulet.core.base.reply_names import is_reply_name

if TYPE_CHECKING:
    from starlette.requests import Request

    from annulet.broker.broker import Broker
    from annulet.broker.connections.access import Access
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

QUEUE: Final = "queue"
"""The name of a path that names a queue."""


@dataclass(slots=True)
class Call:
    """A request whose user may make it, as far as its path tells.

    ``names`` are the path's, decoded. ``parameters`` are the query's, with their defaults. ``fields`` are the body's;
    a field that was not given is not there.
    """

    request: Request
    broker: Broker
    user: User
    names: dict[str, str]
    parameters: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> int:
        """The broker's time, milliseconds since 1970."""
        return self.broker.clock()

    @property
    def page(self) -> Page:
        """The wanted page of a list."""
        return Page(self.parameters["page"], self.parameters["page_size"])

    def host(self) -> VirtualHost:
        """Return the virtual host that the path names; 404 when there is none, or the user does not see it."""
        return chosen_hosts(self.request, self.user, self.names[VHOST_NAME])[0]

    def hosts(self) -> list[VirtualHost]:
        """Return the virtual host that the parameter ``vhost`` names, else all that the user sees, by name."""
        return chosen_hosts(self.request, self.user, self.parameters.get("vhost"))

    def access(self, host: VirtualHost | None = None) -> Access:
        """Return the user's operations in a virtual host, by default the path's; each asks for its permissions."""
        return access_of(self.request, self.user, self.host() if host is None else host)

    def queue(self) -> Queue:
        """Return the queue that the path names; 404 when there is none. No user sees a reply queue."""
        host, name = self.host(), self.names[QUEUE]
        queue = host.queues.get(name)
        if queue is None or is_reply_name(name):
            raise ResourceError(404, f"no queue {name!r} in virtual host {host.name!r}")
        return queue

    def queue_to_read(self) -> Queue:
        """As :meth:`queue`, with permission to read it; 409 for the exclusive queue of a connection."""
        return self.access().queue_to_read(self.queue().name)

    def queue_to_browse(self) -> Queue:
        """As :meth:`queue`, with permission to look at its messages; 409 for the exclusive queue of a connection."""
        return self.access().queue_to_browse(self.queue().name)

    def queue_to_manage(self) -> Queue:
        """As :meth:`queue`, with permission for operations; 409 for the exclusive queue of a connection."""
        return self.access().queue_to_manage(self.queue().name)

    def queue_to_configure(self) -> Queue:
        """As :meth:`queue`, with permission to configure it; 409 for the exclusive queue of a connection."""
        return self.access().queue_to_configure(self.queue().name)
