"""A client's session, whatever protocol it speaks: a channel, an AMQP 1.0 session, a STOMP connection.

What it is to its connection (room for output, answers at the end of a turn), and how its publishing is held back by
what is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from annulet.core.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.broker.blocked import BlockedTarget
    from annulet.broker.transport import AnyConnection


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientSession(Session):
    """A session of a :class:`~annulet.broker.transport.ClientConnection`.

    A subclass implements ``deliver`` (see :class:`~annulet.core.session.Session`) and the hooks at the end.
    """

    def __init__(self, name: str, connection: AnyConnection) -> None:
        super().__init__(name)
        self.connection = connection
        self.connection_identity = connection.identity
        self.host = connection.require_host()
        self.blocked = connection.broker.blocked[self.host.name]
        self.writable = connection.writable
        self.held_by: dict[BlockedTarget, None] = {}  # blocked queues and addresses it has published into

    # ------------------------------------------------------------------ being held back

    def hold(self, targets: Iterable[BlockedTarget]) -> None:
        """Publish no more until these targets have room again."""
        for target in targets:
            if target not in self.held_by:
                first = not self.held_by
                self.held_by[target] = None
                target.publishers[self] = None
                if first:
                    self.publishing_held()
                    self.connection.hold(self)

    def released(self, target: BlockedTarget) -> None:
        """A target has room again; when it was the last, publishing may go on."""
        self.held_by.pop(target, None)
        if not self.held_by and not self.closed:
            self.publishing_resumed()
            self.connection.release(self)

    def forget_holds(self) -> None:
        """The session ends: nobody has to tell it to go on."""
        for target in self.held_by:
            target.publishers.pop(self, None)
        if self.held_by:
            self.held_by.clear()
            self.connection.release(self)

    # ------------------------------------------------------------------ end

    def close(self, now: int) -> None:
        """End by either side or by a lost connection: everything unsettled goes back to its place.

        Open transactions have to be rolled back before.
        """
        if self.closed:
            return
        self.forget_holds()
        queues = [consumer.queue for consumer in self.consumers.values()]
        super().close(now)
        for queue in queues:
            self.host.consumer_removed(queue, now)

    # ------------------------------------------------------------------ what a protocol brings

    def connection_writable(self, writable: bool) -> None:
        """The connection has room for output again, or none."""
        self.writable = writable

    def flush_answers(self) -> None:
        """Give the answers of this turn. Called by the connection before it writes, once for ``answer_later``."""
        raise NotImplementedError

    def publishing_held(self) -> None:
        """What it published into is full. Nothing to do where the connection is not read."""

    def publishing_resumed(self) -> None:
        """There is room again."""
