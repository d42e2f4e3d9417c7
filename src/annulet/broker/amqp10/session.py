"""One AMQP 1.0 session: its links, their output, and the answers to input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.amqp10.coordinator import Coordinator
from annulet.broker.amqp10.outcomes import Outcomes
from annulet.broker.amqp10.sources import SourceLink, attach_source
from annulet.broker.amqp10.targets import TargetLink, attach_target
from annulet.broker.connections.sending import SendingSession
from annulet.core.model.entry import DELIVERING
from annulet.core.sessions.session import end_together
from annulet.wire.amqp10.frames import terminus as standard
from annulet.wire.amqp10.frames.outcomes import Accepted, Error, Rejected
from annulet.wire.amqp10.messages.view import VIEW
from annulet.wire.amqp10.types import conditions

if TYPE_CHECKING:
    from annulet.broker.amqp10.connection import Amqp10Connection
    from annulet.broker.durability.blocked import BlockedTarget
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.sessions.delivery_deadlines import Overdue
    from annulet.wire.amqp10.connection.link import IncomingDelivery, Link
    from annulet.wire.amqp10.connection.session import EngineSession
    from annulet.wire.amqp10.frames.performatives import Attach

logger = structlog.get_logger(__name__)

ACCEPTED: Final = Accepted()


class Amqp10Session(SendingSession):
    """A session of the core that speaks through its connection's engine."""

    __deletable__ = ("outcomes", "transactions")

    def __init__(self, connection: Amqp10Connection, engine_session: EngineSession) -> None:
        super().__init__(f"{connection.name}#{engine_session.channel}", connection, VIEW)
        self.client = connection
        self.engine = connection.engine
        self.output = connection.engine.output
        self.transfers = connection.engine.transfers
        self.endpoints = connection.engine.endpoints
        self.credit = connection.engine.credit
        self.engine_session = engine_session
        self.outcomes = Outcomes(self)
        self.transactions = Coordinator(self)
        self.sources: dict[str, SourceLink] = {}  # by consumer tag
        self.targets: dict[Link, TargetLink] = {}
        self._suspended: dict[str, list[Consumer]] = {}  # the consumers of links that may be resumed, by link name
        self._consumers_started = 0
        self._too_large: list[tuple[Consumer, QueueEntry]] = []  # to be returned after this loop turn

    # ------------------------------------------------------------------ links

    def attach_link(self, link: Link, performative: Attach) -> None:
        """Find or make the node a link is for, and answer. Raises what the core refuses, LinkFault, SessionFault.

        Created nodes are deleted again when the attach is refused.
        """
        try:
            if not link.incoming:
                attach_source(self, link)
            elif isinstance(link.target, standard.Coordinator):
                self.transactions.attach(link)
            else:
                attach_target(self, link, performative)
        except BaseException:
            self.access.take_back(self.connection.now)
            raise
        self.access.keep()

    def next_tag(self) -> str:
        """Return a name for a consumer, unique in this session."""
        self._consumers_started += 1
        return str(self._consumers_started)

    def link_detached(self, link: Link, *, closed: bool, by_peer: bool) -> None:
        """A link that was accepted is gone."""
        owner = link.owner
        if not link.session.mapped:
            self._serve_no_more()
        if isinstance(owner, SourceLink):
            owner.detached(closed=closed, by_peer=by_peer)
        elif isinstance(owner, TargetLink):
            owner.detached(closed=closed)
        elif isinstance(owner, Coordinator):
            owner.detached(link)

    def suspend(self, source: SourceLink) -> None:
        """End the consumer of a link that may be resumed; the link's deliveries stay with the session (§2.6.13)."""
        self.detach(source.consumer.tag, self.connection.now)
        self._suspended[source.link.name] = self._suspended.get(source.link.name, []) + source.holders()

    def resumed(self, name: str, queue: Queue) -> list[Consumer]:
        """Return the consumer with messages of a queue for a suspended link of this name; those of other queues are
        returned."""
        holders = self._suspended.pop(name, [])
        self._return(self._taken_from([holder for holder in holders if holder.queue is not queue]), self.connection.now)
        return [holder for holder in holders if holder.queue is queue]

    def close_source(self, source: SourceLink) -> None:
        """End the consumer of a link, and return what the link holds, since before it was resumed as well."""
        now = self.connection.now
        self.detach(source.consumer.tag, now, serve=False)
        returned = self._taken_from(source.holders())
        self._return(returned, now)
        self.wake_after(returned, now)
        if not source.queue.deleted:
            source.queue.wake(now)

    def _taken_from(self, holders: list[Consumer]) -> list[Slot]:
        return self.unacknowledged.take_of(holders) if holders else []

    def source_of(self, consumer: Consumer | None) -> SourceLink | None:
        """Return the link that a consumer's deliveries belong to, also those from before it was resumed."""
        if consumer is None:
            return None
        source = self.sources.get(consumer.tag)
        if source is None:
            source = next((found for found in self.sources.values() if consumer in found.former), None)
        return source

    def credit_changed(self, link: Link) -> None:
        """The peer granted other credit to an outgoing link, or wants it drained."""
        owner = link.owner
        if isinstance(owner, SourceLink):
            owner.credit_changed()

    def delivery_received(self, link: Link, delivery: IncomingDelivery) -> None:
        """A message came over an incoming link."""
        owner = link.owner
        if isinstance(owner, TargetLink):
            owner.receive(delivery)
        elif isinstance(owner, Coordinator):
            owner.receive(link, delivery)

    # ------------------------------------------------------------------ deliveries

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Write a transfer that the peer has to settle. Called by queues."""
        source = self.sources[consumer.tag]
        payload = source.payload_of(entry)
        if payload is None:
            del self.unacknowledged[tag]  # the peer must not settle a withheld message
            self.withhold(consumer, entry)
            return
        number = source.send(tag, payload, settled=False)
        self.outcomes.note(number, tag)
        self.after_transfer()

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Write a transfer that is settled already; False when this link cannot carry the message."""
        source = self.sources[consumer.tag]
        payload = source.payload_of(entry)
        if payload is None:
            self.withhold(consumer, entry)
            return False
        consumer.window.take(entry.message.size)
        self.last_tag += 1
        source.send(self.last_tag, payload, settled=True)
        self.after_transfer()
        return True

    def after_transfer(self) -> None:
        """Stop when the peer's window or the connection's buffer is full."""
        if not self.engine_session.writable:
            self.writable = False
        self.connection.output_added(self.output.size)

    def withhold(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Keep a message from a consumer that cannot take it; it goes back once the core has done its work."""
        broker = self.connection.broker
        broker.deliveries_too_large += 1
        if not self._too_large:
            broker.loop.call_soon(self._return_too_large)
        self._too_large.append((consumer, entry))

    def _return_too_large(self) -> None:
        withheld, self._too_large = self._too_large, []
        now = self.connection.broker.clock()
        for consumer, entry in withheld:
            if entry.state == DELIVERING and entry.consumer is consumer:
                source = self.source_of(consumer)
                exclude = None if source is None or source.consumer.cancelled else source.consumer
                if source is not None:
                    source.renew_window()  # nothing was sent, so no credit was used
                entry.queue.return_entries([entry], now, counted=False, exclude=exclude)
        self.connection.mark_dirty()

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue below a link is gone, or a browser has seen all of it: the link is detached."""
        super().consumer_cancelled(consumer)
        source = self.sources.pop(consumer.tag, None)
        if source is not None:
            broker = self.connection.broker
            broker.loop.call_soon(source.node_gone)  # not in the middle of the core's work

    def connection_writable(self, writable: bool) -> None:
        """The connection has room for output again, or none; the peer's window counts as well."""
        self.writable = writable and self.engine_session.writable

    def window_opened(self, now: int) -> None:
        """The peer takes transfers again."""
        if self.connection.writable and not self.closed:
            self.writable = True
            self.wake(now)
            self.finish_drains()

    def wake(self, now: int) -> None:
        """Serve this session's links, then give back the credit of those that are drained."""
        if self.writable:
            for source in list(self.sources.values()):
                source.go_on_resuming()
        super().wake(now)
        self.finish_drains()

    def finish_drains(self) -> None:
        """Give back credit that found no message, once output is no reason for that."""
        if self.writable:
            for source in list(self.sources.values()):
                source.finish_drain()

    def nothing_more(self, consumer: Consumer) -> None:
        """A queue has handed out all there is for a link that is drained."""
        source = self.sources.get(consumer.tag)
        if source is not None and source.consumer is consumer:
            source.give_credit_back()

    # ------------------------------------------------------------------ answers to input

    def sends_accepted(self, answers: list[int]) -> None:
        """Accept deliveries by their ids; the engine joins neighbours into one disposition."""
        settle = self.transfers.settle_incoming
        session = self.engine_session
        for number in answers:
            settle(session, number, number, ACCEPTED)

    def sends_failed(self, answers: list[int], text: str) -> None:
        """Refuse deliveries whose message could not be written."""
        state = Rejected(Error(conditions.INTERNAL_ERROR, text))
        for number in answers:
            self.transfers.settle_incoming(self.engine_session, number, number, state)

    def released(self, target: BlockedTarget) -> None:
        """A queue or address has room again: the links that lead there get credit, whatever else is full."""
        super().released(target)
        for link in self.targets.values():
            link.grant()
        self.connection.mark_dirty()

    # ------------------------------------------------------------------ end

    def delivery_overdue(self, overdue: Overdue) -> None:
        """Detach the link, so that its deliveries are returned; end the session where the link is suspended."""
        source = self.source_of(overdue.consumer)
        condition, text = conditions.LINK_DETACH_FORCED, str(overdue)
        if source is not None and source.link.attached:
            self.endpoints.detach(source.link, closed=True, condition=condition, description=text)
        else:
            self.endpoints.end_session(self.engine_session, conditions.PRECONDITION_FAILED, text)
        self.connection.mark_dirty()

    def _serve_no_more(self) -> None:
        """Returned messages are not for the links of this session, nor of others that end with the connection."""
        if not self.ending:
            others = [other for other in self.client.channels.values() if other is not self]
            end_together([self, *[other for other in others if not other.engine_session.mapped]])

    def end(self, now: int) -> None:
        """End with the session: transactions are rolled back, everything unsettled goes back."""
        if self.closed:
            return
        self._serve_no_more()
        self.transactions.rollback_all()
        self.outcomes.return_unsent(now)
        self.close(now)
        for source in self.sources.values():
            source.forget()
        for target in self.targets.values():
            target.forget()
        self.sources.clear()
        self.targets.clear()
        del self.outcomes, self.transactions  # both hold the session
