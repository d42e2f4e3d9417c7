"""Which consumer may have which message, asked once per message and question.

Each distinct question (a selector, "not published by this connection", "not before") of a queue's consumers is a
matcher with one bit. An entry remembers in ``evaluated`` which matchers were asked about it and in ``blocked`` which
said no. A consumer that refused messages for itself (AMQP 1.0 ``undeliverable-here``) has its own bit, which is set
in ``blocked`` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.identifiers import lookup_for

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.entry import QueueEntry
    from annulet.selector.selector import Selector

RETIRED_MAX: Final = 16
"""Matchers without a consumer that are remembered, so that a consumer who comes back finds its answers. Beyond it the
queue forgets their answers, which costs one pass over its entries."""


class Matcher:
    """One question about messages: exactly one of selector, connection and since."""

    __slots__ = ("bit", "connection", "first_sequence", "selector", "since", "users")

    def __init__(self, bit: int, selector: Selector | None, connection: object | None) -> None:
        self.bit = bit  # a power of two
        self.selector = selector
        self.connection = connection  # no-local: messages published by it are not admitted
        self.since = 0  # replay period: messages accepted before this (milliseconds since 1970) are not admitted
        self.first_sequence = 0  # ... nor those below this sequence
        self.users = 0  # consumers that ask

    def admits(self, entry: QueueEntry) -> bool:
        """Answer for one entry."""
        if self.selector is not None:
            return self.selector.matches(lookup_for(entry.message))
        if self.connection is not None:
            return entry.message.origin.connection is not self.connection
        return entry.message.accepted_at >= self.since and entry.sequence >= self.first_sequence


class Matchers:
    """All matchers of one queue."""

    __slots__ = ("_by_bit", "_connections", "_free", "_highest", "_selectors", "evaluations")

    def __init__(self) -> None:
        self._selectors: dict[Selector, Matcher] = {}
        self._connections: dict[object, Matcher] = {}
        self._by_bit: dict[int, Matcher] = {}
        self._free: list[int] = []
        self._highest = 1
        self.evaluations = 0  # questions asked so far: what the cost tests count

    def __len__(self) -> int:
        return len(self._by_bit)

    def admit(self, consumer: Consumer, *, no_local: bool) -> None:
        """Give a consumer the bits of what it asks for."""
        consumer.required = 0
        if consumer.selector is not None:
            selected = self._selectors.get(consumer.selector)
            if selected is None:
                selected = self._new(consumer.selector, None)
                self._selectors[consumer.selector] = selected
            selected.users += 1
            consumer.required |= selected.bit
        connection = consumer.session.connection_identity
        if no_local and connection is not None:
            local = self._connections.get(connection)
            if local is None:
                local = self._new(None, connection)
                self._connections[connection] = local
            local.users += 1
            consumer.required |= local.bit

    def admit_since(self, consumer: Consumer, since: int, first_sequence: int) -> None:
        """Let a consumer have only what was accepted from a time and sequence on (Broker-J's replay period)."""
        matcher = self._new(None, None)
        matcher.since = since
        matcher.first_sequence = first_sequence
        matcher.users = 1
        consumer.required |= matcher.bit

    def dismiss(self, consumer: Consumer) -> int:
        """Take a consumer's bits back. Returns the bits whose answers the queue's entries must now forget, often 0."""
        for bit in self._bits_of(consumer.required):
            self._by_bit[bit].users -= 1
        consumer.required = 0
        forget = 0
        if consumer.refused:
            forget |= consumer.refused
            self._free.append(consumer.refused)
            consumer.refused = 0
        retired = [matcher for matcher in self._by_bit.values() if matcher.users == 0]
        if len(retired) > RETIRED_MAX:
            for matcher in retired:
                self._drop(matcher)
                forget |= matcher.bit
        return forget

    def refusal_bit(self, consumer: Consumer) -> int:
        """Return the bit that marks what ``consumer`` shall not get again."""
        if not consumer.refused:
            consumer.refused = self._bit()
        return consumer.refused

    def ask(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Say whether a consumer's conditions admit an entry, asking only what was never asked about it."""
        required = consumer.required
        if entry.blocked & (required | consumer.refused):
            return False
        missing = required & ~entry.evaluated
        if not missing:
            return True
        for bit in self._bits_of(missing):
            entry.evaluated |= bit
            self.evaluations += 1
            if not self._by_bit[bit].admits(entry):
                entry.blocked |= bit
        return not entry.blocked & required

    def objection(self, consumer: Consumer, entry: QueueEntry) -> Matcher | None:
        """Return the matcher of a consumer that does not admit an entry, ``None`` when all do.

        For questions people ask: unlike :meth:`ask` it remembers no answer and counts none.
        """
        for bit in self._bits_of(consumer.required):
            matcher = self._by_bit[bit]
            admitted = not entry.blocked & bit if entry.evaluated & bit else matcher.admits(entry)
            if not admitted:
                return matcher
        return None

    def _new(self, selector: Selector | None, connection: object | None) -> Matcher:
        matcher = Matcher(self._bit(), selector, connection)
        self._by_bit[matcher.bit] = matcher
        return matcher

    def _drop(self, matcher: Matcher) -> None:
        del self._by_bit[matcher.bit]
        self._free.append(matcher.bit)
        if matcher.selector is not None:
            del self._selectors[matcher.selector]
        elif matcher.connection is not None:
            del self._connections[matcher.connection]

    def _bit(self) -> int:
        if self._free:
            return self._free.pop()
        bit = self._highest
        self._highest <<= 1
        return bit

    def _bits_of(self, mask: int) -> list[int]:
        bits = []
        while mask:
            bit = mask & -mask
            bits.append(bit)
            mask ^= bit
        return bits
