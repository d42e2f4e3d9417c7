"""Where each message may be that leaves one queue for another (:mod:`tests.crash.letter_clients`), and whether it is.

A message is somewhere at any time: in its queue, or in all targets of its death, or where an operator put it. What is
moved in one commit is in one place. A death that was not promised yet may leave copies beside the message.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from annulet.admin.resources.queues import unaccounted
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.dead_letters import ACTUAL_EXPIRY, ORIGINAL_ADDRESS, ORIGINAL_MESSAGE_ID, ORIGINAL_QUEUE
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from annulet.residency.bodies.budget import drift_of
from tests.bulk.helpers import Bench
from tests.crash.counted import ACKNOWLEDGED, ADDED, EXPIRED
from tests.crash.deep_clients import LIFE, deep_settings
from tests.crash.letter_clients import LETTER_QUEUES, Change
from tests.crash.mortal_broker import number_of
from tests.crash.promises import Promises

Places = tuple[str, ...]
"""Names of the queues a message is in, sorted; twice where there are two copies."""

DEATHS: dict[str, tuple[Places, str]] = {
    "refused": (("dead",), "rejected"),
    "tries": (("dead",), "delivery_limit"),
    "brief": (("expired",), "expired"),
    "narrow": (("dead", "dropped"), "maxlen"),
    "circle": (("dropped",), "replaced-ring"),
    "newest": (("dropped",), "replaced-key"),
}
"""By queue: where what dies in it is sent, and the reason its copies name."""

LOSSES = {
    "brief": RemovalReason.EXPIRED,
    "narrow": RemovalReason.OVERFLOW,
    "circle": RemovalReason.REPLACED_RING,
    "newest": RemovalReason.REPLACED_KEY,
}
"""Deaths that stand in the ledger, although a copy was sent."""

REASONS = {"leave": ACKNOWLEDGED, "move": RemovalReason.MOVED.value}


def after(places: Places, change: Change) -> Places:
    """Return where a message is that was at these places, after a change."""
    if change.verb == "send":
        return (*places, change.queue)
    if change.queue not in places or change.verb == "return":
        return places
    if change.verb == "copy":
        return tuple(sorted([*places, change.to]))
    targets: dict[str, Places] = {"leave": (), "move": (change.to,)}
    left = list(places)
    left.remove(change.queue)
    return tuple(sorted([*left, *targets.get(change.verb, DEATHS.get(change.queue, ((), ""))[0])]))


class LetterPromises(Promises):
    """As :class:`Promises`, and of each message the places it may be at."""

    clients = "letters"

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[int, set[Places]] = {}
        self.unsure: set[int] = set()  # a copy may be at one of its places beside, or twice
        self.died: set[int] = set()  # or may have: what could not be sent comes back at the next start
        self.source: dict[int, str] = {}
        self.sequences: dict[int, set[int]] = {}  # it had in its source
        self.accepted: dict[int, int] = {}  # what lives briefly; milliseconds since 1970
        self.counts: dict[int, set[int]] = {}  # deliveries a message may have had
        self.retries: Counter[int] = Counter()
        self.fresh: set[int] = set()  # sent since the accounts were settled
        self.together: tuple[list[int], bool] = ([], False)  # what last died in one transaction, promised or not
        self.operated: Counter[str] = Counter()
        self.before: dict[int, tuple[set[Places], bool, set[int]]] = {}  # the step under way
        self.figures = [0, 0, 0, 0]  # of the last broker: rows made, bodies spilled, rows selected, reads refused
        self.refused: list[list[str]] = []  # steps, and why; of all rounds
        self.may_be_over: set[int] = set()  # what lives briefly and may have expired, which was counted so
        self.over: set[int] = set()  # and what has
        self.promised = Counter[str]()  # changes, by verb and queue

    def settings(self) -> dict[str, Any]:
        """Those of a broker that goes on here."""
        return deep_settings(self.next_number)

    def hear(self, line: list[Any]) -> None:
        """Take in one line."""
        if line[0] == "figures":
            self.figures = line[1]
        elif line[0] == "operated":
            self.operated[line[1]] += 1
        elif line[0] == "clock":
            self._time_is(line[1])
        else:
            if line[0] == "refused":
                self.unsure.update(self.before)
                self.refused.append(line[1:])
            super().hear(line)

    def _time_is(self, now: int) -> None:
        """What has expired by now goes at any time from now on."""
        for number, at in self.accepted.items():
            if at + LIFE <= now and any("brief" in places for places in self.places[number]):
                death = Change("die", "brief", [])
                self.places[number] |= {after(places, death) for places in self.places[number]}
                self.unsure.add(number)
                self.died.add(number)
                self._count_expired(number, promised=False)

    def _change(self, facts: list[Any], *, promised: bool) -> None:
        now, changes = facts[0], [Change(*change) for change in facts[1]]
        if promised:
            for number, (places, unsure, counts) in self.before.items():
                self.places[number], self.counts[number] = places, counts
                if not unsure:
                    self.unsure.discard(number)
        self.before = {}
        for change in changes:
            if change.verb == "expire":
                numbers = [number for number, at in self.accepted.items() if at + LIFE <= now]
                messages = [(number, 0) for number in numbers]
                change = Change("die", "brief", messages)  # noqa: PLW2901 - what it means
                if promised:
                    self.unsure.difference_update(numbers)
            self._count(change, promised=promised)
            if change.verb == "die together":
                self.together = ([number for number, _ in change.messages], promised)
            for number, sequence in change.messages:
                self._change_one(change, number, sequence, now, promised=promised)
            self.promised[f"{change.verb} {change.queue}"] += promised * len(change.messages)

    def _count(self, change: Change, *, promised: bool) -> None:
        """Count what a change brings to queues from which messages die, and takes from them."""
        number = len(change.messages)
        if change.verb == "send" or change.to in DEATHS:
            self.tally.count(change.to or change.queue, ADDED, number, promised=promised)
        if change.to in DEATHS:  # and goes as it came where the log refuses the move
            self.tally.count(change.to, REASONS["move"], number, promised=promised, number=0)
        if change.queue == "brief" and change.verb == "die":
            for each, _ in change.messages:
                self._count_expired(each, promised=promised)
        elif change.queue in DEATHS and change.verb in REASONS:
            self.tally.count(change.queue, REASONS[change.verb], number, promised=promised)
        elif change.queue in DEATHS and change.verb.startswith("die"):
            reason = LOSSES.get(change.queue, RemovalReason.DEAD_LETTERED).value
            self.tally.count(change.queue, reason, number, promised=promised)

    def _count_expired(self, number: int, *, promised: bool) -> None:
        """Count each once, whoever had it expire."""
        counted = self.over if promised else self.may_be_over
        if number not in counted:
            counted.add(number)
            self.tally.count("brief", EXPIRED, 1, promised=promised)

    def _change_one(self, change: Change, number: int, sequence: int, now: int, *, promised: bool) -> None:
        if change.verb == "send" and not promised:
            self._new(change.queue, number, sequence, now)
        assert number in self.source, f"{change.verb} in {change.queue}: nobody sent {number}"
        if sequence and change.queue == self.source[number]:
            self.sequences[number].add(sequence)
        places, counts = self.places[number], self.counts[number]
        if not promised:
            self.before.setdefault(number, (set(places), number in self.unsure, set(counts)))
            if change.verb == "die":
                self.unsure.add(number)
            if change.verb.startswith("die"):
                self.died.add(number)
        changed = {after(each, change) for each in places}
        returned = {count + 1 for count in counts} if change.verb == "return" else counts
        if change.to == self.source[number]:
            returned = {0}
            self.retries[number] += not promised
        if any(each.count(self.source[number]) > 1 for each in changed):
            returned = counts | returned  # of one of two, and the other stays as it was
        self.places[number] = changed if promised else places | changed
        self.counts[number] = returned if promised else counts | returned

    def _new(self, queue: str, number: int, sequence: int, now: int) -> None:
        self.places[number] = {()}
        self.counts[number] = {0}
        self.source[number] = queue
        self.sequences[number] = {sequence}
        self.fresh.add(number)
        if queue == "brief":
            self.accepted[number] = now
        self.next_number = max(self.next_number, number + 1)

    # ------------------------------------------------------------------ what a start finds

    async def verify(self, here: Bench, *, refused: bool) -> None:
        """Check all queues, and what the copies say of themselves."""
        now = here.broker.clock()
        self._time_is(now)
        await super().verify(here, refused=refused)
        here.host.queues["brief"].tick(now)
        here.host.queues["brief"].finish_slices(now)
        here.broker.worker.finish()
        if refused:
            self.unsure.update(self.places)
        found = self._found(here)
        for number, names in found.items():
            assert number in self.places, f"{number} in {names}: nobody sent it"
        for number, possible in self.places.items():
            self._verify_places(number, tuple(sorted(found.get(number, []))), possible)
        self._verify_together(found)
        for name in LETTER_QUEUES:
            queue = here.host.queues[name]
            if queue.limits is None or not queue.limits.exceeded(queue):  # a restart evicts nothing
                check_invariants(queue)
            assert unaccounted(queue.statistics()) == 0, name
            assert drift_of(queue) == 0, name
        self._verify_losses(here)
        if not refused:
            self._verify_ledger(here, found)
            trail = Counter(entry.operation for entry in here.broker.audit.query())
            assert all(trail[name] >= count for name, count in self.operated.items()), "an operation is not audited"

    def _found(self, here: Bench) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for name in LETTER_QUEUES:
            entries = here.host.queues[name].order.entries()
            for entry in entries:
                number = number_of(entry.message.body)
                found.setdefault(number, []).append(name)
                self._verify_entry(name, number, entry)
            numbers = [number_of(entry.message.body) for entry in entries]
            if name in DEATHS and not any(self.retries[number] for number in numbers):
                assert numbers == sorted(numbers), f"{name}: out of order"
            assert not here.host.queues[name].delivering
        return found

    def _verify_entry(self, name: str, number: int, entry: QueueEntry) -> None:
        """Check what a message says of its deaths."""
        message, source = entry.message, self.source[number]
        view = message.origin.view
        deaths = view.deaths(message)
        named = [view.application_property(message, each) for each in (ORIGINAL_QUEUE, ORIGINAL_ADDRESS)]
        assert message.durable
        assert [death.queue for death in deaths] in ([], [source])
        assert sum(death.count for death in deaths) <= self.retries[number] + (name in DEATHS[source][0])
        if name not in DEATHS[source][0]:
            assert named == [None, None] or name == "aside", "what did not die there says so"
            assert deaths == [] or self.retries[number], "it never died"
            if name == source:
                self.sequences[number].add(entry.sequence)
                assert number in self.unsure or entry.delivery_count in self.counts[number], "deliveries are counted"
            return
        (death,) = deaths
        assert death.reason == DEATHS[source][1], (source, death.reason)
        assert (death.exchange, death.routing_keys) == ("", (source,))
        assert named == [source, source]
        assert view.application_property(message, ORIGINAL_MESSAGE_ID) in self.sequences[number]
        expired_at = view.application_property(message, ACTUAL_EXPIRY)
        assert (expired_at is not None) == (source == "brief")
        assert source != "brief" or isinstance(expired_at, int)
        assert source != "brief" or death.at // 1000 == expired_at // 1000, "both are the moment of its death"

    def _verify_places(self, number: int, places: Places, possible: set[Places]) -> None:
        source = self.source[number]
        if number not in self.unsure:
            assert places in possible, f"{number} of {source} is in {places}, not in one of {possible}"
            return
        there = Counter(places)
        kept = source in LOSSES and source in places and self.figures[3] > 0  # the disk did not give what was to go
        assert kept or any(Counter(each) <= there for each in possible), (
            f"{number} of {source}: {places}, not {possible}"
        )
        names = {name for each in possible for name in each}
        if number in self.died:
            names.add(source)
        assert set(places) <= names, f"{number} of {source} is in {places}"

    def _verify_together(self, found: dict[int, list[str]]) -> None:
        numbers, promised = self.together
        numbers = [number for number in numbers if number not in self.unsure]
        died = [number for number in numbers if "refused" not in found.get(number, [])]
        assert not died or promised or died == numbers, "half a transaction"

    @staticmethod
    def _verify_losses(here: Bench) -> None:
        """What the ledger calls lost is not there, and is lost once, whatever the disk refused."""
        for name, reason in LOSSES.items():
            losses = here.host.ledger.query(queue=name, reason=reason)
            lost = Counter((loss.sequence, loss.accepted_at) for loss in losses)  # one may be given out again later
            there = here.host.queues[name].order.entries()
            back = [entry.sequence for entry in there if (entry.sequence, entry.message.accepted_at) in lost]
            assert not back, f"{name}: what is lost is there: {back}"
            assert not [loss for loss, count in lost.items() if count > 1], f"{name}: a loss is counted twice"

    def _verify_ledger(self, here: Bench, found: dict[int, list[str]]) -> None:
        """Each death that counts as a loss is in the ledger, once, and nothing that is still there."""
        ledger = here.host.ledger
        assert not list(ledger.query(reason=RemovalReason.DEAD_LETTERED)), "a copy was lost"
        for name, reason in LOSSES.items():
            numbers = {sequence: number for number in self.fresh if self.source[number] == name
                       for sequence in self.sequences[number]}  # fmt: skip
            losses = [loss for loss in ledger.query(queue=name, reason=reason) if loss.sequence in numbers]
            sequences = [loss.sequence for loss in losses]
            lost = {numbers[sequence] for sequence in sequences}
            assert len(sequences) == len(set(sequences)), f"{name}: a loss is counted twice"
            assert not any(name in found.get(number, []) for number in lost), f"{name}: what is lost is there"
            gone = {number for number in numbers.values() if number not in self.unsure and self._died(number)}
            assert gone <= lost, f"{name}: losses are missing in the ledger"
            assert all(loss.forwarded_to for loss in losses)

    def _died(self, number: int) -> bool:
        """Say whether a message certainly died in its source."""
        return all(places and self.source[number] not in places for places in self.places[number])

    async def settle_accounts(self, here: Bench) -> None:
        """From here on what was found is what is promised."""
        await super().settle_accounts(here)
        found: dict[int, list[str]] = {}
        for name in LETTER_QUEUES:
            for entry in here.host.queues[name].browse():
                number = number_of(entry.message.body)
                found.setdefault(number, []).append(name)
                if name == self.source[number]:
                    self.counts[number] = {entry.delivery_count}
        self.places = {number: {tuple(sorted(names))} for number, names in found.items()}
        self.accepted = {number: at for number, at in self.accepted.items() if "brief" in found.get(number, [])}
        self.unsure, self.died, self.fresh, self.before = set(), set(), set(), {}
        self.may_be_over, self.over = set(), set()
        self.together = ([], False)


class DeepLetterPromises(LetterPromises):
    """Of deep queues."""

    clients = "deep letters"
