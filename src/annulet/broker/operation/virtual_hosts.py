"""Virtual hosts at run time: made, described and deleted.

A deletion is durable from its first moment, and goes on after a restart. Its connections are closed with a reason, its
queues are deleted in portions, so that other virtual hosts are served between, and then the rest of it is forgotten.
Its messages are deleted because an operator asked for it: the audit trail has the operator's name and their number.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.security.access_directory import check_name
from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.store.database.definitions import VirtualHostRecord
from annulet.store.files.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.broker import Broker
    from annulet.broker.connections.transport import AnyConnection
    from annulet.core.host.virtual_host import VirtualHost

logger = structlog.get_logger(__name__)

DEFAULT_HOST: Final = "/"

TURN_SECONDS: Final = 0.004
"""Time of the loop for deleting queues, of each turn."""

DESCRIPTION_CHARACTERS_MAX: Final = 1000
"""Of the description of a virtual host: a paragraph."""


class VirtualHosts:
    """Makes and deletes the virtual hosts of one broker. Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.records: dict[str, VirtualHostRecord] = {}  # those whose deletion is under way as well
        self._deleting: dict[str, asyncio.Task[None]] = {}

    def restore(self) -> None:
        """Read the records, and go on with deletions that a restart interrupted. The broker listens soon."""
        self._read()
        for record in self.records.values():
            if record.deleting:
                self._begin(record.name)

    def adopt(self) -> None:
        """Open the virtual hosts that the catalogue knows and the broker does not: those the file names since then."""
        self._read()
        for name, record in self.records.items():
            if name not in self._broker.hosts and not record.deleting:
                self._broker.open_host(name)

    async def stop(self) -> None:
        """Leave the rest of deletions to the next start."""
        for task in list(self._deleting.values()):
            task.cancel()
        await asyncio.gather(*self._deleting.values(), return_exceptions=True)

    def _read(self) -> None:
        self.records = {record.name: record for record in self._broker.catalogue.access.virtual_hosts()}

    def record(self, name: str) -> VirtualHostRecord:
        """Return the record of a virtual host. Raises :class:`NotFound`."""
        known = self.records.get(name)
        if known is None or known.deleting:
            raise NotFound(f"no virtual host '{name}'")
        return known

    def put(self, name: str, description: str = "", tags: tuple[str, ...] = ()) -> bool:
        """Create a virtual host, or change its description and tags. Returns whether it is a new one.

        Raises :class:`InvalidArgument`, and :class:`PreconditionFailed` while one of this
        name is being deleted.
        """
        check_name("virtual host", name)
        for tag in tags:
            check_name("tag", tag)
        check_description(description)
        broker = self._broker
        if name in self._deleting:
            raise PreconditionFailed(f"virtual host '{name}' is being deleted; wait until it is gone")
        made = name not in broker.hosts
        with broker.catalogue.transaction():
            broker.catalogue.add_virtual_host(name)
            broker.catalogue.access.describe_virtual_host(name, description, tags)
        if made:
            broker.open_host(name)
            logger.info("virtual host created", vhost=name)
        self.records[name] = VirtualHostRecord(name, description, tags)
        return made

    def delete(self, name: str, done: Callable[[int], None] | None = None) -> asyncio.Task[None]:
        """Delete a virtual host. Returns the work, which goes on by itself and should not be cancelled.

        No client may enter it any more when this returns. ``done`` is called at the end with the number of messages
        that were pending. Raises :class:`NotFound`, :class:`PreconditionFailed`.
        """
        self.record(name)
        broker = self._broker
        if name == DEFAULT_HOST:
            raise PreconditionFailed("the default virtual host '/' stays: clients that name none open it")
        source = broker.configuration.definitions.source or "the configuration file"
        users = broker.access_directory.file_users_of(name)
        if users or name in broker.configuration.definitions.virtual_hosts():
            what = f"permissions of user '{users[0]}'" if users else "definitions"
            raise PreconditionFailed(f"{source} has {what} in virtual host '{name}'; take them out there first")
        broker.access_directory.host_goes(name)
        self.records[name] = VirtualHostRecord(name, deleting=True)
        return self._begin(name, done)

    def _begin(self, name: str, done: Callable[[int], None] | None = None) -> asyncio.Task[None]:
        task = self._broker.loop.create_task(self._delete(self._broker.hosts[name], done))
        self._deleting[name] = task
        task.add_done_callback(lambda _: self._deleting.pop(name, None))
        return task

    async def _delete(self, host: VirtualHost, done: Callable[[int], None] | None) -> None:
        broker = self._broker
        logger.info("virtual host is being deleted", vhost=host.name, queues=len(host.queues))
        try:
            pending = await self._empty(host)
            await broker.commit.durable()
            broker.catalogue.access.delete_virtual_host(host.name)
        except StoreError as error:
            logger.error("virtual host not deleted; the next start goes on", vhost=host.name, error=str(error))  # noqa: TRY400 - the text says it all
            return
        except Exception:
            logger.exception("virtual host not deleted; the next start goes on", vhost=host.name)
            return
        broker.remove_host(host)
        del self.records[host.name]
        logger.info("virtual host deleted", vhost=host.name, messages=pending)
        if done is not None:
            done(pending)

    async def _empty(self, host: VirtualHost) -> int:
        """Close the connections, delete addresses and queues. Returns how many messages were pending."""
        broker = self._broker
        broker.feeds_no_more(host)
        pending = 0
        while host.queues or host.addresses or host.departures.count or self._visitors(host):
            broker.revocation.close(self._visitors(host), f"vhost '{host.name}' is deleted")
            await broker.revocation.settled()
            until = time.thread_time() + TURN_SECONDS
            begun = broker.definitions.begin()
            try:
                pending += self._delete_some(host, until)
            finally:
                broker.definitions.end(begun, None)
            await asyncio.sleep(0)
        return pending

    def _visitors(self, host: VirtualHost) -> list[AnyConnection]:
        return [connection for connection in self._broker.connections if connection.host is host and connection.running]

    def _delete_some(self, host: VirtualHost, until: float) -> int:
        """Delete addresses, whose rings would be made anew, then queues, for as long as there is time."""
        now = self._broker.clock()
        for name in list(host.addresses):
            host.nodes.delete_address(name)
            if time.thread_time() >= until:
                return 0
        pending = 0
        for queue in list(host.queues.values()):
            pending += host.delete_queue(queue, now)
            if time.thread_time() >= until:
                break
        return pending


def check_description(text: str) -> None:
    """Raise :class:`InvalidArgument` for a description that is too long."""
    if len(text) > DESCRIPTION_CHARACTERS_MAX:
        raise InvalidArgument(f"'description' has {len(text)} characters, {DESCRIPTION_CHARACTERS_MAX} are allowed")
