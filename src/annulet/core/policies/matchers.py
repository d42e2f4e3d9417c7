"""Decides which consumer may have which message, with one evaluation per message and condition.

Each distinct condition (a selector, "not published by this connection", "not before", or several of these together) of
a queue's consumers is a match class with one bit. An entry records in ``evaluated`` which classes evaluated it and in
``blocked`` which refused it. A consumer that refused messages for itself (AMQP 1.0 ``undeliverable-here``) has its own
bit, which is set in ``blocked`` only. Messages on disk have no bits: the class's frontier replaces them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.selector_names import ANNOTATION_PREFIX, HEADER_IDENTIFIERS, lookup_for
from annulet.core.model.entry import level_of
from annulet.core.policies.demanded_values import Demands

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.selector.selector import Selector

RETIRED_MAX: Final = 64
"""Match classes without a consumer that are kept, so that a returning consumer finds its answers (design S6).

Beyond this, and beyond as many as have consumers, the queue forgets their answers, which costs one pass over its
entries: so a connection that closes with thousands of consumers causes few passes.
"""

RETIRED_MILLISECONDS: Final = 60_000
"""How long they are kept if messages are on disk (design S6): their matches stay in memory for that time."""

FOUND_MESSAGES: Final = 256
"""Matches of a class in a deep backlog that wait in memory before its walk pauses: those of one scan."""


class MatchClass:
    """One condition on messages: selector, connection and since together, if given.

    ``frontiers``: in the stock of a deep queue (:attr:`annulet.core.searching.deep_lanes.DeepLanes.stock`) no message
    with a lower sequence than that of its level (0 if missing) is for this class. With priorities all unevaluated
    messages that arrived below ``seen_upto`` are on levels whose bits are in ``open_levels``.
    """

    __slots__ = (
        "bit",
        "connection",
        "first_sequence",
        "frontiers",
        "left_at",
        "looked",
        "needles",
        "open_levels",
        "seen_upto",
        "selector",
        "since",
        "users",
    )

    def __init__(self, bit: int, selector: Selector | None, connection: object | None) -> None:
        self.bit = bit  # a power of two
        self.selector = selector
        self.connection = connection  # no-local: messages published by it are not admitted
        self.since = 0  # replay period: messages accepted before this (milliseconds since 1970) are not admitted
        self.first_sequence = 0  # ... nor those below this sequence
        self.users = 0  # its consumers
        self.left_at = 0  # when the last of them detached, milliseconds since 1970
        self.frontiers: dict[int, int] = {}
        self.open_levels = 0
        self.seen_upto = 0
        self.looked = 0  # which of the looks of the queue's walks was its last
        self.needles = needles_of(selector)

    def frontier_on(self, level: int) -> int:
        """Return the lowest unevaluated sequence on a level, which is 0 without priorities."""
        return self.frontiers.get(level, 0)

    def begin_at(self, frontiers: dict[int, int]) -> None:
        """Set these frontiers: messages behind the lanes have new places."""
        self.frontiers = frontiers
        self.open_levels = self.seen_upto = 0

    def admits(self, entry: QueueEntry) -> bool:
        """Answer for one entry."""
        message = entry.message
        if self.connection is not None and message.origin.connection is self.connection:
            return False
        if message.accepted_at < self.since or entry.sequence < self.first_sequence:
            return False
        return self.selector is None or self.selector.matches(lookup_for(message))


def needles_of(selector: Selector | None) -> list[bytes]:
    """Return octets that are all in the header of a matching message; none if there are none.

    Valid for messages whose view declares it: :attr:`annulet.core.message.message.ContentView.verbatim_texts` (design
    S3).
    """
    return [
        text.encode("utf-8", "surrogatepass")
        for name, text in ([] if selector is None else selector.required_texts)
        if text and name not in HEADER_IDENTIFIERS and not name.startswith(ANNOTATION_PREFIX)
    ]


class Matchers:
    """All match classes of one queue."""

    __slots__ = (
        "_by_bit",
        "_free",
        "_highest",
        "_retired",
        "_shared",
        "browsed",
        "continued",
        "cut",
        "demands",
        "evaluations",
        "found_messages",
        "lanes_max",
        "looks",
        "steps",
        "unselective",
    )

    def __init__(self) -> None:
        self._shared: dict[tuple[Selector | None, object | None], MatchClass] = {}
        self._by_bit: dict[int, MatchClass] = {}
        self._retired: dict[int, MatchClass] = {}  # of these, those without a consumer
        self._free: list[int] = []
        self._highest = 1
        self.demands = Demands()
        self.found_messages = FOUND_MESSAGES
        self.lanes_max = AT_ONCE_MAX  # entries of lanes beyond which others wait behind them to be evaluated in turns
        self.steps = 0  # of evaluations in this call, see :mod:`annulet.core.policies.evaluation_turns`
        self.cut = False  # they were too many, and dispatch has to go on later
        self.continued = False  # work that goes on is under way
        self.evaluations = 0  # evaluations so far, counted by the cost tests
        self.browsed = 0  # bits of classes whose answers to readers may be noted with any entry
        self.looks = 0  # scans of walks over messages on disk
        self.unselective = 0  # consumers whose classes require no property

    def __len__(self) -> int:
        return len(self._by_bit)

    def admit(self, consumer: Consumer, *, no_local: bool, since: int = 0, first_sequence: int = 0) -> None:
        """Give a consumer the bit of its condition, none without one.

        ``since`` and ``first_sequence``: it gets only messages accepted from then on (Broker-J's replay period).
        """
        consumer.required = 0
        connection = consumer.session.connection_identity if no_local else None
        if since or first_sequence:
            found = self._new(consumer.selector, connection)
            found.since = since
            found.first_sequence = first_sequence
        elif consumer.selector is None and connection is None:
            return
        else:
            place = (consumer.selector, connection)
            known = self._shared.get(place)
            found = self._new(consumer.selector, connection) if known is None else known
            self._shared[place] = found
        found.users += 1
        self._retired.pop(found.bit, None)
        self.unselective += found.selector is None
        consumer.required = found.bit

    def dismiss(self, consumer: Consumer, now: int) -> int:
        """Take a consumer's bits back. Returns the bits whose answers the queue's entries must now forget, often 0."""
        if consumer.required:
            match_class = self._by_bit[consumer.required]
            match_class.users -= 1
            self.unselective -= match_class.selector is None
            match_class.left_at = now
            consumer.required = 0
            if match_class.users == 0:
                self._retired[match_class.bit] = match_class
        forget = 0
        if consumer.refused:
            forget |= consumer.refused
            self._free.append(consumer.refused)
            consumer.refused = 0
        retired = self._retired
        if len(retired) <= max(RETIRED_MAX, len(self._by_bit) - len(retired)):
            return forget
        return forget | self._drop_all(list(retired.values()))

    def retire(self, now: int) -> int:
        """Drop the classes without recent consumers. Returns their bits, which the entries must now forget."""
        over = now - RETIRED_MILLISECONDS
        return self._drop_all([held for held in self._retired.values() if held.left_at <= over])

    def classes(self) -> list[MatchClass]:
        """Return all classes, those included that are only remembered."""
        return list(self._by_bit.values())

    def class_of(self, consumer: Consumer) -> MatchClass | None:
        """Return a consumer's class; ``None`` without a condition."""
        return self._by_bit[consumer.required] if consumer.required else None

    def class_with(self, bit: int) -> MatchClass:
        """Return the class that has a bit."""
        return self._by_bit[bit]

    def blocked_behind(self, entry: QueueEntry) -> int:
        """Return the bits of the classes whose frontier is above an entry of the stock: it is not for them."""
        bits = 0
        level, sequence = level_of(entry), entry.sequence
        for bit, match_class in self._by_bit.items():
            if match_class.frontier_on(level) > sequence:
                bits |= bit
        return bits

    def refusal_bit(self, consumer: Consumer) -> int:
        """Return the bit that marks what ``consumer`` shall not get again."""
        if not consumer.refused:
            consumer.refused = self._bit()
        return consumer.refused

    def ask(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Return whether a consumer's conditions admit an entry, evaluating only unevaluated ones."""
        required = consumer.required
        if entry.blocked & (required | consumer.refused):
            return False
        if not required & ~entry.evaluated:
            return True
        entry.evaluated |= required
        if self.evaluate(self._by_bit[required], entry):
            return True
        entry.blocked |= required
        return False

    def refuse(self, bits: int, entry: QueueEntry) -> None:
        """Note that the classes with these bits do not admit an entry, as is known without asking them."""
        entry.evaluated |= bits
        entry.blocked |= bits

    def ask_in_passing(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Like :meth:`ask` without recording the answer, for single evaluations: an entry with recorded answers cannot
        become a row."""
        required = consumer.required
        if required & ~entry.evaluated:
            return self.evaluate(self._by_bit[required], entry)
        return not entry.blocked & required

    def evaluate(self, match_class: MatchClass, entry: QueueEntry) -> bool:
        """Ask a class about an entry, count it, and return the answer."""
        self.evaluations += 1
        selector = match_class.selector
        self.steps += 1 if selector is None else selector.steps_for(len(entry.message.header))
        return match_class.admits(entry)

    def objection(self, consumer: Consumer, entry: QueueEntry) -> MatchClass | None:
        """Return the class of a consumer if it does not admit an entry, ``None`` when it does.

        For diagnostics: unlike :meth:`ask` it neither records nor counts the evaluation.
        """
        match_class = self.class_of(consumer)
        if match_class is None:
            return None
        bit = match_class.bit
        admitted = not entry.blocked & bit if entry.evaluated & bit else match_class.admits(entry)
        return None if admitted else match_class

    def _new(self, selector: Selector | None, connection: object | None) -> MatchClass:
        match_class = MatchClass(self._bit(), selector, connection)
        self._by_bit[match_class.bit] = match_class
        self.demands.add(selector, match_class.bit)
        return match_class

    def _drop_all(self, dropped: list[MatchClass]) -> int:
        bits = 0
        for match_class in dropped:
            bits |= match_class.bit
            del self._by_bit[match_class.bit]
            del self._retired[match_class.bit]
            self.demands.remove(match_class.selector, match_class.bit)
            self._free.append(match_class.bit)
            place = (match_class.selector, match_class.connection)
            if self._shared.get(place) is match_class:
                del self._shared[place]
        return bits

    def _bit(self) -> int:
        if self._free:
            return self._free.pop()
        bit = self._highest
        self._highest <<= 1
        return bit
