"""The core's session of one STOMP connection: deliveries, acknowledgements, receipts."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

from annulet.broker.connections.sending import SendingSession
from annulet.broker.connections.views import ConversionError
from annulet.broker.stomp.consumers import AUTO, CLIENT, StompConsumer
from annulet.broker.stomp.destinations import destination_of, leads_to
from annulet.wire.stomp.constants import VERSION_1_2
from annulet.wire.stomp.engine import header_line
from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.header_block import block_for, find_header
from annulet.wire.stomp.names import DESTINATION, EXTEND_DELIVERY
from annulet.wire.stomp.view import VIEW

if TYPE_CHECKING:
    from annulet.broker.stomp.connection import StompConnection
    from annulet.core.host.transaction import Transaction
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.sessions.delivery_deadlines import Overdue

DELIVERY_COUNT: Final = "x-delivery-count"
"""Header of a message that was delivered before: how often (RabbitMQ's quorum queues)."""

DESTINATIONS_MAX: Final = 1024
"""Destinations whose header line a connection remembers; then it starts afresh."""

REMEMBERED_BYTES_MAX: Final = 2048
"""Bytes of a destination that is remembered, both spellings; they may have 64 KiB, and 1024 of those are too many."""

_DESTINATION_LINE: Final = b"destination:"
_DIGITS_MAX: Final = 18


class StompSession(SendingSession):
    """A session of the core that speaks through its connection's engine."""

    def __init__(self, connection: StompConnection) -> None:
        super().__init__(connection.name, connection, VIEW)
        self.client = connection
        self.engine = connection.engine
        self.version = connection.engine.version
        self.holders: dict[int, StompConsumer] = {}  # the consumers of outstanding deliveries
        self.stored = False  # something it sent or settled was, or will be, written to the log
        self._prefix = f"{connection.session_id}-"  # of message ids
        self._encoded_prefix = header_line("message-id", self._prefix, self.version)[:-1]
        self._encoded_acknowledge = b"ack:" + self._encoded_prefix.partition(b":")[2]
        self._lines: dict[
            tuple[str, str, bytes], bytes
        ] = {}  # destination lines, by exchange, key and the sender's own
        self._receipts: dict[int, str] = {}  # by answer, in the order they were asked for
        self._true: set[int] = set()  # of these, those that can be answered once all before are
        self._answers = 0
        self._disconnecting = 0  # the answer that ends the connection

    # ------------------------------------------------------------------ deliveries

    @property
    def lines_remembered(self) -> int:
        """How many destination lines are remembered, at most :data:`DESTINATIONS_MAX`."""
        return len(self._lines)

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Write MESSAGE. Called by queues; stops being writable when the connection has enough to do."""
        message = self._as_stomp(entry)
        if message is None:
            del self.unacknowledged[tag]  # the client must not settle a withheld message
            self.keep_back(consumer, entry)
            return
        self._write(consumer, entry, message, tag)

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Write a MESSAGE that needs no acknowledgement, unless it cannot be converted."""
        message = self._as_stomp(entry)
        if message is None:
            self.keep_back(consumer, entry)
            return False
        self.last_tag += 1
        self._write(consumer, entry, message, self.last_tag)
        return True

    def _write(self, consumer: Consumer, entry: QueueEntry, message: Message, tag: int) -> None:
        assert isinstance(consumer, StompConsumer)
        number = b"%d\n" % tag
        parts = [consumer.head, self._encoded_prefix, number]
        if consumer.mode != AUTO:
            consumer.outstanding[tag] = None
            self.holders[tag] = consumer
            if self.version == VERSION_1_2:
                parts += (self._encoded_acknowledge, number)
        if entry.redelivered:
            parts.append(b"redelivered:true\n")
        if entry.delivery_count:
            parts.append(b"%b:%d\n" % (DELIVERY_COUNT.encode(), entry.delivery_count))
        queue = entry.queue
        if queue.settings.group_first_key and queue.is_group_first(entry):
            parts.append(header_line(queue.settings.group_first_key, "true", self.version))
        line, block = self._destination_line(consumer, message)
        parts.append(line)
        self.engine.send_message(b"".join(parts), block_for(block, self.version), message.body)
        self.connection.output_added(self.engine.output_size)

    def _as_stomp(self, entry: QueueEntry) -> Message | None:
        """Return the message as one of STOMP, ``None`` when it cannot be converted, which has been logged then."""
        message = entry.message
        if message.origin.view is VIEW:
            return message
        try:
            return self.converted(message, VIEW)
        except ConversionError:
            return None

    def _destination_line(self, consumer: StompConsumer, message: Message) -> tuple[bytes, bytes]:
        """Return the destination as a header line, and the message's block without its own.

        The sender's text, unless the message was forwarded elsewhere. A 1.0 client that gave no id knows its
        subscription by the destination it subscribed to (1.0 "SUBSCRIBE").
        """
        origin = message.origin
        block = message.header
        own = b""
        if block.startswith(_DESTINATION_LINE):
            own, _, block = block.partition(b"\n")
            own += b"\n"
        if not consumer.identifier:
            return header_line(DESTINATION, consumer.destination, self.version), block
        place = (origin.exchange, origin.routing_key, own)
        line = self._lines.get(place)
        if line is None:
            given = find_header(own, DESTINATION)
            if given is None or not leads_to(given, origin):
                given = destination_of(origin, self.host)
            line = header_line(DESTINATION, given, self.version)
            if len(own) + len(line) <= REMEMBERED_BYTES_MAX:
                if len(self._lines) >= DESTINATIONS_MAX:
                    self._lines.clear()
                self._lines[place] = line
        return line, block

    def send_browser_end(self, consumer: StompConsumer) -> None:
        """Tell a browser that it has seen everything: an empty MESSAGE with ``browser:end`` (ActiveMQ)."""
        head = consumer.head + header_line("message-id", f"{self._prefix}end", self.version)
        head += header_line(DESTINATION, consumer.destination, self.version)
        self.engine.send_message(head + b"browser:end\n", b"", b"")
        self.connection.mark_dirty()

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue below a subscription is gone, or a browser has seen all of it."""
        super().consumer_cancelled(consumer)
        assert isinstance(consumer, StompConsumer)
        self.connection.broker.loop.call_soon(self._tell_cancelled, consumer)  # not in the middle of the core's work

    def _tell_cancelled(self, consumer: StompConsumer) -> None:
        if self.closed:
            return
        if consumer.queue.deleted:
            self.client.fail(
                f"subscription {consumer.identifier or consumer.destination!r} is over: queue '{consumer.queue.name}' "
                "was deleted"
            )
            return
        self.send_browser_end(consumer)
        self.host.consumer_removed(consumer.queue, self.connection.now)

    # ------------------------------------------------------------------ settlement

    def take_named(self, identifier: str, subscription: str) -> tuple[StompConsumer, list[int]]:
        """Return the deliveries that an ACK or NACK is about: in mode ``client`` all of the subscription up to it.

        They are outstanding no more. Raises :class:`RemoteProtocolError` for others.
        """
        digits = identifier.removeprefix(self._prefix)
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX else 0
        consumer = self.holders.get(number) if identifier.startswith(self._prefix) else None
        if consumer is None:
            raise RemoteProtocolError(
                f"message {identifier[:80]!r} is not outstanding: it was settled, or delivered with ack:auto, or on "
                "another connection"
            )
        if subscription and subscription != consumer.identifier:
            raise RemoteProtocolError(
                f"header 'subscription' is {subscription[:80]!r}, but message {identifier!r} was delivered to "
                f"subscription {consumer.identifier!r}"
            )
        tags = [number]
        if consumer.mode == CLIENT:
            tags = list(itertools.takewhile(lambda tag: tag <= number, consumer.outstanding))
        for tag in tags:
            del consumer.outstanding[tag]
            del self.holders[tag]
        return consumer, [tag for tag in tags if tag in self.unacknowledged]

    def outstanding_again(self, deliveries: list[tuple[int, StompConsumer]]) -> None:
        """Take back deliveries that a transaction had settled and that was aborted."""
        for tag, consumer in deliveries:
            self.holders[tag] = consumer
            consumer.outstanding[tag] = None
        for consumer in {consumer: None for _, consumer in deliveries}:
            consumer.outstanding = dict.fromkeys(sorted(consumer.outstanding))

    def settle(self, tags: list[int], receipt: str, *, acknowledged: bool, requeue: bool) -> None:
        """Acknowledge, or reject, and answer: very many in slices, and then the receipt comes after the last."""
        entries = [self.unacknowledged.take(tag) for tag in tags]
        stored = (acknowledged or not requeue) and any(entry.message.record for entry in entries)
        now = self.connection.now
        if not acknowledged and requeue:
            self.reject_entries(entries, now, requeue=True)
        else:
            number = self._answers + 1
            done = partial(self._settled, number, stored)
            if self.settle_taken(entries, now, rejected=not acknowledged, done=done):
                self._answers = number
                self._receipts[number] = receipt
                self.stored = self.stored or stored
                return
        self.answer(receipt, stored=stored)

    def _settled(self, number: int, stored: bool) -> None:
        """All deliveries of a command are settled: its answer waits for the disk only."""
        if not self.closed:
            self.answer_when_durable(number, stored=stored)

    def extend_named(self, identifier: str) -> None:
        """Let the time of a delivery begin anew.

        Raises :class:`RemoteProtocolError` for a delivery that is not outstanding.
        """
        digits = identifier.removeprefix(self._prefix)
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX else 0
        if not identifier.startswith(self._prefix) or not self.extend_delivery(number):
            raise RemoteProtocolError(
                f"header '{EXTEND_DELIVERY}' names {identifier[:80]!r}, which is not outstanding: it was settled, or "
                "delivered with ack:auto, or on another connection"
            )

    def delivery_overdue(self, overdue: Overdue) -> None:
        """End the connection with ERROR: STOMP has nothing less that a client would hear."""
        self.client.fail(str(overdue))

    # ------------------------------------------------------------------ receipts

    def answer(self, receipt: str, *, stored: bool) -> None:
        """Send a receipt once its command is done, and after every receipt requested before.

        "Receipts": a receipt also says that all frames before were received, so they keep their order.
        """
        self.stored = self.stored or stored
        if receipt and not stored and not self._receipts:
            self.engine.send_receipt(receipt)
        elif receipt:
            self._answers += 1
            self._receipts[self._answers] = receipt
            self.answer_when_durable(self._answers, stored=stored)

    def answer_and_disconnect(self, receipt: str) -> None:
        """Answer DISCONNECT when everything before it is durable ("DISCONNECT"), and end the connection."""
        self._answers += 1
        self._receipts[self._answers] = receipt
        self._disconnecting = self._answers
        self.answer_when_durable(self._answers, stored=self.stored)

    def sends_accepted(self, answers: list[int]) -> None:
        """These are true now: send the receipts that nothing before holds back."""
        self._true.update(answers)
        while self._receipts:
            number = next(iter(self._receipts))
            if number not in self._true:
                return
            self._true.discard(number)
            receipt = self._receipts.pop(number)
            if number == self._disconnecting:
                self.engine.finish(receipt)
            elif receipt:
                self.engine.send_receipt(receipt)

    def sends_failed(self, answers: list[int], text: str) -> None:
        """The messages of these are not durable: the connection ends with the first of them."""
        receipt = self._receipts.get(answers[0], "")
        self._receipts.clear()
        self.engine.close_with_error(text, receipt=receipt)

    # ------------------------------------------------------------------ transactions

    def enlist(self, transaction: Transaction, tags: list[int], *, acknowledged: bool, requeue: bool) -> None:
        """Let deliveries be settled when a transaction commits."""
        transaction.settle_all(tags, acknowledged=acknowledged, requeue=requeue)
