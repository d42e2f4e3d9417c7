"""What was promised to the clients of deep queues of every kind (:mod:`tests.crash.kind_clients`), and is it kept.

Of each queue there is a model of what is in it. A death leaves the step under way done, not done, or done in part; of a
window that was torn any messages may be there, each in place of another one where the queue keeps a number of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from annulet.admin.resources.queues import describe_queue, unaccounted
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import drift_of
from tests.bulk.helpers import Bench
from tests.crash.counted import ACKNOWLEDGED, ADDED, REJECTED
from tests.crash.deep_clients import deep_settings
from tests.crash.kind_clients import KINDS, Kind, Taker, due_in, facts_of, settled_turns
from tests.crash.mortal_broker import number_of
from tests.crash.promises import Promises

TURNS_MAX = 2000
REASONS = {"ring": RemovalReason.REPLACED_RING, "key": RemovalReason.REPLACED_KEY}


class Kept:
    """One queue: sets of numbers by what is known of them, since the accounts were settled last."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.content: set[int] = set()  # pending
        self.held: set[int] = set()  # by a consumer that keeps them
        self.maybe: set[int] = set()  # there or not: of steps that were refused
        self.left: set[int] = set()  # done with
        self.evicted: set[int] = set()
        self.reason = (REASONS["ring"] if kind.ring else REASONS["key"]).value  # for which these left
        self.evicts = bool(kind.ring or kind.per_key)
        self.accepted: dict[int, list[int]] = {}  # by key, whatever became of them
        self.sequences: dict[int, int] = {}  # of what was sent since then
        self.counts: dict[int, set[int]] = {}  # deliveries that came back
        self.marks: dict[int, bool] = {}  # came back
        self.due: dict[int, int] = {}
        self.sending: list[int] = []  # of the step under way, as what follows
        self.going: set[int] = set()
        self.returning: dict[int, set[int]] = {}  # with the counts of before
        self.unsure = False  # something was refused: what was pushed out is not known

    def importance(self, number: int) -> tuple[int, int]:
        """What goes first has the least: the lowest level, then the oldest."""
        return (facts_of(number)["priority"] if self.kind.order == "levels" else 0, number)

    def place(self, number: int) -> tuple[int, int]:
        """Where it stands."""
        facts = facts_of(number)
        first = {"levels": -facts["priority"], "sorted": facts["rank"]}
        return (first.get(self.kind.order, 0), number)

    def newer(self, number: int, among: set[int]) -> int:
        """Count those of the same key that came later."""
        key = facts_of(number)["key"]
        return sum(other > number and facts_of(other)["key"] == key for other in among)

    # ------------------------------------------------------------------ what clients say

    def begin(self) -> None:
        """Another step begins; the one before was refused where it is still under way."""
        if self.sending or self.going or self.returning:
            self.unsure = True
            self.maybe.update(self.sending, self.going)
            self.content -= self.going
        self.sending, self.going, self.returning = [], set(), {}

    def end(self) -> None:
        self.sending, self.going, self.returning = [], set(), {}

    def send(self, number: int) -> None:
        """A message was accepted, and pushed out what it had to."""
        kind, full = self.kind, len(self.content) >= self.kind.ring > 0
        self.content.add(number)
        self.counts[number] = {0}
        of_key = self.accepted.setdefault(facts_of(number)["key"], [])
        of_key.append(number)
        if kind.per_key:
            self.evict(self.content.intersection(of_key[: -kind.per_key]))
        if full:
            self.evict({min(self.content, key=self.importance)})

    def evict(self, numbers: set[int]) -> None:
        self.content -= numbers
        self.evicted |= numbers

    def give_back(
        self, numbers: list[int], often: list[int], due: list[list[int]], before: dict[int, set[int]]
    ) -> None:
        """What was taken came back, but for what was tried too often."""
        for number in numbers:
            self.marks[number] = True
            self.counts[number] = {count + 1 for count in before[number]}
        self.left.update(often)
        self.content -= set(often)
        self.due.update({number: at for number, at in due if at})

    def come_home(self) -> None:
        """What was held is back as far as there is room, and is not superseded."""
        kind = self.kind
        superseded = set()
        for number in sorted(self.held, key=self.importance, reverse=True):
            of_key = self.accepted.get(facts_of(number)["key"], [])  # nothing of it where its sending was refused
            if number in self.left:
                continue
            if (kind.per_key and number in of_key[: -kind.per_key]) or len(self.content) >= kind.ring > 0:
                superseded.add(number)
            else:
                self.content.add(number)
        self.evict(superseded)
        self.held = set()

    # ------------------------------------------------------------------ what a start finds

    def verify(self, name: str, found: list[int], due: dict[int, int]) -> None:
        """Check numbers, pending ones in order, and the times of scheduled ones."""
        there = set(found) | set(due)
        assert len(found) + len(due) == len(there), f"{name}: twice"
        groups = [facts_of(number)["group"] for number in found] if self.kind.order == "groups" else [""] * len(found)
        for group in set(groups):
            mine = [number for number, of in zip(found, groups, strict=True) if of == group]
            assert mine == sorted(mine, key=self.place), f"{name}: out of order"
        assert not there & self.left, f"{name}: what was done with came back"
        known = self.content | self.held | self.maybe | set(self.sending)
        if not self.unsure:
            assert not there & self.evicted, f"{name}: what was pushed out came back"
        assert there <= known | self.evicted, f"{name}: messages nobody sent"
        assert self.unsure or due.items() >= {each for each in self.due.items() if each[0] not in self.going}, name
        must = self.content - self.going
        if self.kind.ring and not self.unsure:
            self._verify_ring(name, there, must)
        elif self.kind.ring or self.kind.per_key:
            self._verify_keys(name, there, must)
        else:
            lost = (must | (self.held - self.going)) - there
            assert not lost, f"{name}: confirmed messages are lost: {sorted(lost)[:5]}"

    def _verify_ring(self, name: str, there: set[int], must: set[int]) -> None:
        """Of those that were pending the least important ones went, as many as came to a full ring.

        What was torn pushes out at the start, when what was held stands among the others.
        """
        arrived = there & set(self.sending)
        pending = there & (self.content - self.held)
        size = len(must | pending)
        pool = must | pending | arrived
        expected = len(pool) - max(self.kind.ring, size) if len(pool) > max(self.kind.ring, size) else 0
        gone, gone_held = pool - there, self.held - self.going - there
        assert gone == set(sorted(pool, key=self.importance)[: len(gone)]), f"{name}: not the least important went"
        first = sorted(self.held - self.going, key=self.importance)[: len(gone_held)]
        assert gone_held == set(first), f"{name}: of what was held not the least important went"
        most = min(len(arrived), max(0, len(pool) + len(self.held) - self.kind.ring))
        assert expected <= len(gone) + len(gone_held) <= max(expected, most), (
            f"{name}: {len(gone)} went, {expected} came"
        )

    def _verify_keys(self, name: str, there: set[int], must: set[int]) -> None:
        """What is not there has gone for newer ones; what is there has none too many."""
        most = self.kind.per_key
        if not most:  # a ring, after refusals
            best = max(must, key=self.importance, default=-1)
            assert best < 0 or any(self.importance(each) >= self.importance(best) for each in there), name
            return
        came = {number for of_key in self.accepted.values() for number in of_key} | (there & set(self.sending))
        if self.unsure:
            came |= self.maybe | set(self.sending)
        for number in (must | (self.held - self.going)) - there:
            assert self.newer(number, came) >= most, f"{name}: a confirmed value is lost: {number}"
        for number in there:
            assert self.newer(number, there) < most, f"{name}: too many values of a key"

    def settle(self, found: dict[int, tuple[int, bool]], due: dict[int, int]) -> None:
        """From here on what was found is what is promised. ``found``: counts and marks by number."""
        self.left |= (self.content | self.held | self.evicted | self.maybe | set(self.sending)) - set(found)
        self.content, self.held, self.maybe, self.evicted = set(found), set(), set(), set()
        self.accepted, self.sequences, self.due, self.unsure = {}, {}, dict(due), False
        for number in sorted(found):
            self.accepted.setdefault(facts_of(number)["key"], []).append(number)
        self.counts = {number: {count} for number, (count, _) in found.items()}
        self.marks = {number: mark for number, (_, mark) in found.items()}
        self.end()


class KindPromises(Promises):
    """As :class:`Promises`, and of queues of every composition."""

    clients = "kinds"

    def __init__(self) -> None:
        super().__init__()
        self.kept = {name: Kept(kind) for name, kind in KINDS.items()}
        self.paged: Counter[str] = Counter()  # most rows a start found, by queue
        self.did: Counter[str] = Counter()  # messages of promised steps, by verb and queue
        self.torn = 0  # bursts of which some were there
        self.counted: Counter[str] = Counter()  # messages whose count was held against what came back, by how
        self.figures = [0, 0, 0, 0]  # of the last broker: rows made, bodies spilled, rows selected, reads refused

    def hear(self, line: list[Any]) -> None:
        """Take in one line."""
        if line[0] == "figures":
            self.figures = line[1]
        elif line[0] in ("read", "hold"):
            self._had(*line)
        else:
            super().hear(line)

    def settings(self) -> dict[str, Any]:
        """Those of a broker that goes on here."""
        return deep_settings(self.next_number)

    def _had(self, verb: str, facts: list[Any]) -> None:
        """A consumer was given these: the first of what is there, all of it where messages stay."""
        name, got = facts
        kept = self.kept[name]
        kept.begin()
        self._in_order(name, got)
        self.did[f"{verb} {name}"] += len(got)
        if verb == "hold":
            kept.held.update(got)
            kept.content.difference_update(got)
            if kept.kind.per_key:  # a start takes what was superseded meanwhile
                self.tally.count(name, kept.reason, len(got), promised=False)

    def _in_order(self, name: str, got: list[int]) -> None:
        """What consumers get is the first of what is there; of groups whatever is not behind one of its own."""
        kept = self.kept[name]
        if kept.unsure:
            return
        waiting = sorted(kept.content - set(kept.due), key=kept.place)
        if kept.kind.order != "groups":
            assert got == waiting[: len(got)], f"{name}: {got} are not the first ones of {waiting[:9]}"
            return
        for group in {facts_of(number)["group"] for number in got}:
            mine = [number for number in got if facts_of(number)["group"] == group]
            assert mine == [each for each in waiting if facts_of(each)["group"] == group][: len(mine)], name

    def _send(self, facts: list[Any], *, promised: bool) -> None:
        name, numbers, first = facts
        kept, before = self.kept[name], len(self.kept[name].evicted)
        self.tally.count(name, ADDED, len(numbers), promised=promised)
        if not promised:
            self._count_evicted(kept, name, len(numbers), promised=False)
            kept.begin()
            kept.sending = numbers
            self.next_number = max(self.next_number, *numbers) + 1
            return
        for place, number in enumerate(numbers):
            kept.sequences[number] = first + place
            kept.send(number)
        self._count_evicted(kept, name, len(numbers), promised=True, number=len(kept.evicted) - before)
        kept.end()
        self.did[f"send {name}"] += len(numbers)

    def _take(self, facts: list[Any], *, promised: bool) -> None:
        name, got, done, back, often = facts[:5]
        kept = self.kept[name]
        self.tally.count(name, ACKNOWLEDGED, len(done), promised=promised)
        self.tally.count(name, REJECTED, len(often), promised=promised)
        if not promised:
            kept.begin()
            self._in_order(name, got)
            kept.going = {*done, *often}
            self._return(kept, back)
            return
        kept.content.difference_update(done)
        kept.left.update(done)
        kept.give_back(back, often, facts[5], kept.returning)
        kept.end()
        self.did[f"take {name}"] += len(got)

    def _leave(self, facts: list[Any], *, promised: bool) -> None:
        name, held, often = facts[:3]
        kept, before = self.kept[name], len(self.kept[name].evicted)
        self.tally.count(name, REJECTED, len(often), promised=promised)
        if not promised:
            self._count_evicted(kept, name, len(held), promised=False)
            kept.begin()
            kept.going = set(often) | (set(held) if kept.kind.ring or kept.kind.per_key else set())
            self._return(kept, held)
            return
        kept.give_back(held, often, facts[3], kept.returning)
        kept.come_home()
        self._count_evicted(kept, name, len(held), promised=True, number=len(kept.evicted) - before)
        kept.end()

    def _count_evicted(self, kept: Kept, name: str, most: int, *, promised: bool, number: int = -1) -> None:
        """Count what a step pushed out, or at most may push out."""
        if kept.evicts:
            self.tally.count(name, kept.reason, most, promised=promised, number=number)

    @staticmethod
    def _return(kept: Kept, numbers: list[int]) -> None:
        kept.returning = {number: set(kept.counts.get(number, {0})) for number in numbers}
        for number, counts in kept.returning.items():
            kept.counts[number] = counts | {count + 1 for count in counts}

    # ------------------------------------------------------------------ what a start finds

    async def verify(self, here: Bench, *, refused: bool) -> None:
        """Check all queues that anything was sent to."""
        await super().verify(here, refused=refused)
        for name, kept in self.kept.items():
            queue = here.host.queues.get(name)
            if queue is None or not (kept.content or kept.held or kept.sending or kept.maybe):
                continue
            kept.unsure |= refused
            before = queue.statistics()
            self.paged[name] = max(self.paged[name], before.messages_paged)
            seen = await self._drained(here, queue)
            found, due = list(seen), due_in(queue)
            self.torn += 0 < len(set(kept.sending) & set(found)) < len(kept.sending)
            if self.forgets:
                kept.due = {}
            assert self.crashed or refused or here.broker.log.clean, "a clean stop was none"
            kept.verify(name, found, due)
            assert before.pending_count == len(found), f"{name}: {before.pending_count} were counted, not {len(found)}"
            assert before.scheduled_count == len(due), f"{name}: {before.scheduled_count} were counted, not {len(due)}"
            entries = [*queue.order.entries(), *queue.schedule.entries()]
            assert {number_of(entry.message.body) for entry in entries} == {*found, *due}, f"{name}: gone by a look"
            assert before.pending_bytes == queue.pending_bytes, f"{name}: bytes"
            assert all(entry.message.durable for entry in entries)
            scheduled = {number_of(e.message.body): (e.delivery_count, e.redelivered) for e in queue.schedule.entries()}
            if not refused:
                self._verify_counts(name, {**seen, **scheduled}, clean=here.broker.log.clean)
                self._verify_losses(here, name, queue)
            after = describe_queue(here.broker.hosts["/"], queue)
            assert after["messages"] == before.message_count, f"{name}: {after['messages']} after it was looked at"
            assert after["unaccounted"] == 0, name
            check_invariants(queue)
            assert unaccounted(queue.statistics()) == 0, name
            assert drift_of(queue) == 0, name

    def _verify_counts(self, name: str, seen: dict[int, tuple[int, bool]], *, clean: bool) -> None:
        """A message came back as often as it was promised; who may have seen it is told so.

        Nobody knows after a crash, so all are marked; after a clean stop what came back, and nothing else.
        """
        kept = self.kept[name]
        for number, (count, redelivered) in seen.items():
            marked = kept.marks.get(number, False) or not clean
            if not kept.unsure or not clean:
                assert redelivered or not marked, f"{name}: {number} may have been seen"
                assert marked or not redelivered or self.crashed, f"{name}: nobody has seen {number}"
            counts = kept.counts.get(number, {0})
            may_be = range(max(counts) + 1) if self.forgets else counts
            assert count in may_be, f"{name}: {number} came back {count} times, not {counts}"
            self.counted["killed" if self.crashed else "clean"] += count > 0

    def _verify_losses(self, here: Bench, name: str, queue: Queue) -> None:
        """What was pushed out is in the ledger, once, and what is in the ledger is not there."""
        kept = self.kept[name]
        numbers = {sequence: number for number, sequence in kept.sequences.items()}
        losses = [
            numbers[loss.sequence]
            for reason in REASONS.values()
            for loss in here.host.ledger.query(queue=name, reason=reason)
            if loss.sequence in numbers
        ]
        assert len(losses) == len(set(losses)), f"{name}: a loss is counted twice"
        missing = (kept.evicted & set(kept.sequences)) - set(losses)
        assert not missing or self.forgets, f"{name}: losses are missing in the ledger"
        there = {number_of(entry.message.body) for entry in queue.order.entries()}
        assert not there & set(losses), f"{name}: what is lost is there"

    @staticmethod
    async def _drained(here: Bench, queue: Queue) -> dict[int, tuple[int, bool]]:
        """Return counts and marks by number, in order: what a consumer gets who takes all and gives it back.

        Where that would change what is there, what the order has.
        """
        kind, now = KINDS[queue.name], here.broker.clock()
        taker = Taker()
        if kind.reads or not (kind.ring or kind.per_key or kind.attempts or "x-redelivery-delay" in kind.arguments):
            count = queue.order.count
            taker.consume(queue, now, -1)
            for _ in range(TURNS_MAX):
                if len(taker.got) >= count:
                    break
                await settled_turns(here)
            taker.detach("c", now)
            taker.close(now)
            for _ in range(TURNS_MAX):  # very many come back in slices
                if not queue.delivering:
                    break
                await settled_turns(here)
            if not kind.reads:
                return taker.seen
        entries = queue.order.entries()
        found = {number_of(entry.message.body): (entry.delivery_count, entry.redelivered) for entry in entries}
        assert len(found) == len(entries), f"{queue.name}: twice"
        assert not kind.reads or list(taker.got) == list(found), f"{queue.name}: a reader gets something else"
        return found

    async def settle_accounts(self, here: Bench) -> None:
        """From here on what was found is what is promised."""
        await super().settle_accounts(here)
        for name, kept in self.kept.items():
            queue = here.host.queues.get(name)
            if queue is not None:
                entries = [*queue.order.entries(), *queue.schedule.entries()]
                found = {number_of(each.message.body): (each.delivery_count, each.redelivered) for each in entries}
                kept.settle(found, due_in(queue))
