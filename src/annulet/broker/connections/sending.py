"""A session of AMQP 1.0 or STOMP: publishing to names, answers after durability, and being held back.

Both protocols name an address where 0-9-1 names exchange and key, and both ask for an answer to each message (a
disposition, a receipt), where 0-9-1 confirms ranges. The core sees the same session in all three.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from annulet.broker.connections.client_session import ClientSession, SessionCommit
from annulet.core.base.errors import CoreError
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.routing.exchanges import Address
from annulet.store.files.errors import StoreError

if TYPE_CHECKING:
    from annulet.broker.connections.transport import AnyConnection
    from annulet.core.host.nodes import NodeReference
    from annulet.core.host.transaction import Transaction
    from annulet.core.model.queue_state import QueueState
    from annulet.core.routing.routes import Route

DESTINATIONS_MAX: Final = 1024
"""Destinations a session remembers: enough for a busy producer, about 300 KB at the bound; then it starts afresh."""

REMEMBERED_CHARACTERS_MAX: Final = 1024
"""Characters of a destination that is remembered: a path of names and a key, 255 each. Longer ones are looked up."""

TARGET_BYTES: Final = 16
"""Bytes of the log for each queue a message goes to: its id and the message's sequence number in it."""


class DiskFull(CoreError):
    """The message log takes no more persistent messages; nothing was done."""


class Destination:
    """Where messages to a name go. ``key_from_message``: an exchange was named without a key, each brings its own."""

    __slots__ = ("generation", "key_from_message", "origin", "room", "route", "wide")

    def __init__(
        self, origin: Origin, route: Route, generation: int, queues_max: int, *, key_from_message: bool
    ) -> None:
        self.origin = origin
        self.route = route
        self.generation = generation
        self.key_from_message = key_from_message
        self.room = queues_max * TARGET_BYTES  # bytes that naming its queues takes in the log
        self.wide = queues_max > COMMIT_AT_ONCE_MAX  # one turn of the loop may have no time for all its queues


@mypyc_attr(allow_interpreted_subclasses=True)
class SendingCommit(SessionCommit):
    """The commit of such a session. A protocol implements :meth:`tell_done` and :meth:`refuse`."""

    def __init__(self, session: SendingSession) -> None:
        super().__init__(session)
        self.marks: dict[QueueState, int] = {}  # of blocked queues before it

    def answer(self, unroutable: list[Message]) -> None:
        """Count, hold the session back where it filled something, and tell the client."""
        self.note_done(unroutable)
        if not self.session.closed:
            self.tell_done()

    def note_done(self, unroutable: list[Message]) -> None:
        """Everything took effect."""
        session = self.session
        session.connection.broker.unroutable += len(unroutable)
        if session.blocked.any and not session.closed:
            session.hold(session.blocked.entered(self.marks))

    def tell_done(self) -> None:
        """Tell the client once it is durable."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class SendingSession(ClientSession):
    """The common part of sessions of AMQP 1.0 and STOMP.

    A subclass implements ``deliver`` (see :class:`~annulet.core.sessions.session.Session`) and the hooks at the end.
    ``answer`` numbers are the subclass's own: it gets them back when what they stand for is durable, or is not.
    """

    def __init__(self, name: str, connection: AnyConnection, view: ContentView) -> None:
        super().__init__(name, connection)
        self.view = view
        self.messages_published = 0
        self._destinations: dict[tuple[str, str, str], Destination] = {}
        self._accepted: list[int] = []  # answers that need no disk, given at the end of this turn
        self._waiting: deque[tuple[int, list[int]]] = deque()  # (window, answers) that wait for the disk

    # ------------------------------------------------------------------ names

    @property
    def names_remembered(self) -> int:
        """How many destinations of the peer are remembered, at most :data:`DESTINATIONS_MAX`."""
        return len(self._destinations)

    def resolve(self, name: str, routing_type: str = "", *, create: bool = True) -> NodeReference:
        """Return what a name leads to for a consumer, see :meth:`annulet.broker.connections.access.Access.source`."""
        return self.access.source(name, self.connection.now, routing_type, create=create)

    def destination(
        self, name: str, routing_type: str = "", routing_key: str = "", *, create: bool = True
    ) -> Destination:
        """Return where messages to a name go; an unknown name is created as the address settings allow.

        ``routing_type``: anycast or multicast, what the client asked for; ``routing_key``: the message's own (subject),
        to be given only where a first answer says ``key_from_message``. Raises what
        :meth:`annulet.broker.connections.access.Access.target` raises.
        """
        key = (name, routing_type, routing_key)
        known = self._destinations.get(key)
        if known is not None and known.generation == self.host.generation:
            return known
        connection = self.connection
        node = self.access.target(name, connection.now, routing_type, create=create)
        route_key = node.routing_key
        key_from_message = False
        if node.node is not None and not isinstance(node.node, Address) and route_key in {"", node.exchange}:
            key_from_message = True
            route_key = routing_key
        route = self.host.route(node.exchange, route_key, node.routing_type)
        origin = Origin(node.exchange, route_key, connection.publisher, self.view, connection.identity)
        queues_max = len(route.queues) if route.static else len(self.host.queues)
        found = Destination(origin, route, self.host.generation, queues_max, key_from_message=key_from_message)
        if len(name) + len(routing_key) <= REMEMBERED_CHARACTERS_MAX:
            if len(self._destinations) >= DESTINATIONS_MAX:
                self._destinations.clear()
            self._destinations[key] = found
        return found

    # ------------------------------------------------------------------ sending

    def send(
        self,
        message: Message,
        destination: Destination,
        *,
        duplicate_id: str = "",
        further_keys: tuple[str, ...] = (),
        transaction: Transaction | None = None,
        publication: SendingCommit | None = None,
    ) -> int:
        """Route a message, or collect it in a transaction. Returns to how many queues it went; 1 for a collected one.

        To very many queues it goes in slices where there is a ``publication`` that gets the result: -1 then.

        Raises :class:`DiskFull`, and :class:`~annulet.core.base.errors.LimitExceeded` when a full queue or address
        refuses: nothing has it then.
        """
        connection = self.connection
        now = connection.now
        self.messages_published += 1
        connection.publishes = True
        size = len(message.header) + message.size + destination.room
        if message.durable and not connection.broker.accepts_durable(size, now):
            connection.broker.refused_publishes += 1
            raise DiskFull(
                f"message of {size} bytes refused: the disk of the message log is full; free space, try again"
            )
        if transaction is not None:
            transaction.send(message, destination.route, duplicate_id=duplicate_id, further_keys=further_keys)
            return 1
        marks = self.blocked.marks() if self.blocked.any else {}
        try:
            if publication is not None and destination.wide:
                publication.marks = marks
                routed = self.publish_wide(
                    message, destination.route, publication, duplicate_id=duplicate_id, further_keys=further_keys
                )
                if routed < 0:
                    return -1
            else:
                routed = self.publisher.publish(
                    message, destination.route, now, duplicate_id=duplicate_id, further_keys=further_keys
                )
        except StoreError as error:  # the disk filled up, or failed, since it was asked
            connection.broker.refused_publishes += 1
            raise DiskFull(f"message of {size} bytes refused: {error}") from error
        if self.blocked.any:
            route = destination.route
            if route.static and not further_keys:
                self.hold(self.blocked.on_way(route))
            else:
                self.hold(self.blocked.entered(marks) + self.blocked.at([route.address]))
        if routed == 0:
            connection.broker.unroutable += 1
        return routed

    def commit(self, transaction: Transaction, commit: SendingCommit) -> bool:
        """Carry out a transaction; its stored messages are durable with the open window, see
        :meth:`answer_when_durable`. Returns whether it is done; else ``commit`` gets the result.

        Raises :class:`DiskFull`, and :class:`~annulet.core.base.errors.CoreError` when a send is refused: then nothing
        was done, and its deliveries are unsettled again.
        """
        connection = self.connection
        size = transaction.durable_bytes
        if size and not connection.broker.accepts_durable(size, connection.now):
            transaction.rollback()
            raise DiskFull(
                f"transaction of {size} bytes refused: the disk of the message log is full; free space, try again"
            )
        commit.marks = self.blocked.marks()
        try:
            unroutable = self.commit_bounded(transaction, commit)
        except StoreError as error:
            raise DiskFull(f"the transaction is not durable: {error}") from error
        if unroutable is None:
            return False
        commit.note_done(unroutable)
        return True

    # ------------------------------------------------------------------ answers

    def answer_when_durable(self, answer: int, *, stored: bool) -> None:
        """Have an answer given: with the window that is open now if something was ``stored``, else after this turn."""
        if not stored:
            if not self._accepted:
                self.connection.answer_later(self)
            self._accepted.append(answer)
            return
        pipeline = self.connection.broker.commit
        window = pipeline.window
        waiting = self._waiting
        if waiting and waiting[-1][0] == window:
            waiting[-1][1].append(answer)
        else:
            pipeline.wait(self)
            waiting.append((window, [answer]))

    def flush_answers(self) -> None:
        """Give the answers of this turn."""
        accepted, self._accepted = self._accepted, []
        if accepted and not self.closed:
            self.sends_accepted(accepted)

    def window_committed(self, window: int) -> None:
        """Give the answers that this window made true."""
        answers = self._take_waiting(window)
        if answers and not self.closed:
            self.sends_accepted(answers)
            self.connection.mark_dirty()

    def window_failed(self, window: int) -> None:
        """The disk failed: the messages waiting for it are refused."""
        answers = self._take_waiting(window)
        if answers and not self.closed:
            self.sends_failed(answers, "the message could not be written to disk; the broker has to be restarted")
            self.connection.mark_dirty()

    def _take_waiting(self, window: int) -> list[int]:
        answers: list[int] = []
        while self._waiting and self._waiting[0][0] <= window:
            answers += self._waiting.popleft()[1]
        return answers

    # ------------------------------------------------------------------ what a protocol brings

    def sends_accepted(self, answers: list[int]) -> None:
        """The messages of these were accepted, and are durable if required."""
        raise NotImplementedError

    def sends_failed(self, answers: list[int], text: str) -> None:
        """The messages of these could not be made durable."""
        raise NotImplementedError
