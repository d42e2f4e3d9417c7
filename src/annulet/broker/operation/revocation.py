"""Ends open connections of users whose rights have become fewer.

A user or token that is gone, and a virtual host that may not be entered any more, end the connection with a reason
(320 CONNECTION_FORCED, ``amqp:connection:forced``, ERROR). So does a consumer of a queue that may not be read any more.
Publishers are asked for their permission anew with their next message: all routes that sessions remember are forgotten.

The authenticator knows of the change when this is called, so nothing new is allowed meanwhile; connections are looked
at and closed in turns of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from annulet.broker.broker import Broker
    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.security.authentication import User

logger = structlog.get_logger(__name__)

TURN_SECONDS: Final = 0.004
"""Time of the loop for looking at connections and closing them, of each turn."""


class Revocation:
    """Ends connections after changes of access. Belongs to the event loop.

    ``listeners`` are told of each change, for other servers than the messaging protocols: they get a function that
    tells whether a user that has logged in is gone, and the reason for its peers.
    """

    def __init__(self, broker: Broker) -> None:
        self.listeners: list[Callable[[Callable[[User], bool], str], None]] = []
        self.closed = 0  # connections ended since the broker started
        self._broker = broker
        self._waiting: list[tuple[AnyConnection, str]] = []  # to be looked at; with a reason: to be closed
        self._work: asyncio.Task[None] | None = None

    def access_changed(self, users: frozenset[str], of_tokens: frozenset[str]) -> None:
        """These users may have fewer rights from now on; of the others some tokens have gone."""
        broker = self._broker
        for host in broker.hosts.values():
            host.graph_changed()  # sessions remember routes together with the permission to use them
        authenticator = broker.authenticator
        concerned = users | of_tokens

        def is_gone(user: User) -> bool:
            return user.name in concerned and authenticator.current(user) is None

        found: list[tuple[AnyConnection, str]] = []
        for connection in broker.connections:
            user = connection.user
            if user is not None and is_gone(user):
                found.append((connection, self._reason(user)))
            elif user is not None and user.name in users:
                found.append((connection, ""))
        self._add(found)
        for listener in self.listeners:
            listener(is_gone, "the user or token is gone")

    def close(self, connections: Iterable[AnyConnection], reason: str) -> None:
        """End connections with a reason, soon."""
        self._add([(connection, reason) for connection in connections])

    def login_ended(self, connection: AnyConnection) -> None:
        """The token that a connection logged in with has ended."""
        self._add([(connection, f"the token of user '{connection.user_name}' has ended; log in with another one")])

    def look_at(self, connection: AnyConnection) -> None:
        """A connection goes on with another token, which may give fewer rights."""
        if connection.host is not None:
            connection.host.graph_changed()
        self._add([(connection, "")])

    async def settled(self) -> None:
        """Wait until all that was to be closed is closed."""
        while self._work is not None:
            await asyncio.shield(self._work)

    @staticmethod
    def _reason(user: User) -> str:
        return f"token '{user.token}' of user '{user.name}' is gone" if user.token else f"user '{user.name}' is deleted"

    def _add(self, found: list[tuple[AnyConnection, str]]) -> None:
        self._waiting += found
        if self._waiting and self._work is None:
            self._work = self._broker.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            until = time.thread_time() + TURN_SECONDS
            while self._waiting:
                self._look(*self._waiting.pop())
                if time.thread_time() >= until:
                    await asyncio.sleep(0)
                    until = time.thread_time() + TURN_SECONDS
        finally:
            self._work = None

    def _look(self, connection: AnyConnection, reason: str) -> None:
        """Close a connection, if there is a reason."""
        if connection.lost:
            return
        try:
            reason = reason or self._loss_of(connection)
            if reason:
                self._end(connection, reason)
        except Exception as error:  # noqa: BLE001 - a defect in one connection must not leave the others open
            connection.note_defect(error, "defect while access was taken away")
            connection.abort()

    def _loss_of(self, connection: AnyConnection) -> str:
        """Return what a connection uses without the right to it, empty for nothing."""
        host, access = connection.host, connection.access
        if host is None or access is None:
            return ""
        if not self._broker.authenticator.admits(connection.user, host.name):
            return f"access to vhost '{host.name}' was withdrawn from user '{connection.user_name}'"
        if connection.transacted_bytes:
            return f"permissions of user '{connection.user_name}' changed during a transaction; begin it anew"
        for session in list(connection.channels.values()):
            for consumer in list(session.consumers.values()):
                queue = consumer.queue
                if not queue.deleted and not access.may_still_read(queue):
                    return (
                        f"read access to '{queue.name}' in vhost '{host.name}' was withdrawn from user "
                        f"'{connection.user_name}'"
                    )
        return ""

    def _end(self, connection: AnyConnection, reason: str) -> None:
        self.closed += 1
        logger.info(
            "connection closed: access taken away", peer=connection.name, user=connection.user_name, reason=reason
        )
        connection.now = self._broker.clock()
        begun = self._broker.definitions.begin()
        try:
            connection.force_close(reason)
        finally:
            self._broker.definitions.end(begun, None)
