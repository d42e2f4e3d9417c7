"""Entries that came back: runs and a heap, and which of all is first."""

from __future__ import annotations

import random
from heapq import heapify

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.message import BodySource
from annulet.core.model.compact_messages import CompactDelivery, SharedFields
from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.ordering.returned_entries import RUN_LEAST, RUNS_MAX, UNFOLDED, Returned, first_of_heap
from tests.core.helpers import make_message, make_queue

QUEUE = make_queue()


def entries_of(*sequences: int) -> list[QueueEntry]:
    return [QueueEntry(QUEUE, make_message(), sequence) for sequence in sequences]


def run_of(first: int, step: int = 1, count: int = RUN_LEAST) -> list[QueueEntry]:
    return entries_of(*range(first, first + count * step, step))


def folded_of(entries: list[QueueEntry]) -> list[CompactDelivery]:
    kind = SharedFields(QUEUE, entries[0].message.origin, BodySource())
    return [CompactDelivery(kind, entry) for entry in entries]


def drained(returned: Returned) -> list[int]:
    found = []
    while returned.head is not None:
        head = returned.head
        assert returned.pop() is head
        found.append(head.sequence)
    assert returned.count == 0
    assert returned.entries() == []
    return found


class Pair:
    """What came back, as entries and folded, beside a list of its places."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.returned = Returned()
        self.model: list[int] = []
        self.removed: set[int] = set()
        self.slots: dict[int, QueueEntry | CompactDelivery] = {}
        self.places = list(range(0, 8000, 2))
        self.used: set[int] = set()
        self.most_folded = 0
        chance.shuffle(self.places)

    def step(self) -> None:
        steps = [self.push, self.add, self.add, self.fold, self.fold, self.pop, self.pop, self.far, self.remove]
        self.chance.choice([*steps, self.sweep, self.look, self.look_ahead])()
        self.model.sort()
        self.most_folded = max(self.most_folded, self.returned.folded)
        assert self.returned.count == len(self.model)
        head = self.returned.head
        assert (head and head.sequence) == (self.model[0] if self.model else None)

    def look(self) -> None:
        assert sorted([entry.sequence for entry in self.returned.entries()]) == self.model

    def look_ahead(self) -> None:
        most = self.chance.randint(1, 40)
        pending = [place for place in self.model if place not in self.removed]
        found = [entry.sequence for entry in self.returned.upcoming(most)]
        assert found == pending[: len(found)]
        assert len(found) == min(most, len(pending)) or len(self.model) - len(pending) >= most

    def far(self) -> None:
        taken = [entry.sequence for entry in self.returned.take_far(self.chance.randint(1, 40), 0)]
        assert len(set(taken)) == len(taken)
        assert set(taken) <= set(self.model)
        self.model = [place for place in self.model if place not in set(taken)]

    def push(self) -> None:
        (entry,) = self.come(entries_of(self.places.pop()))
        self.returned.push(entry)

    def add(self) -> None:
        if added := self.coming(self.chance.choice([1, RUN_LEAST - 1, RUN_LEAST, 3 * RUN_LEAST])):
            self.returned.add(self.come(added))

    def fold(self) -> None:
        if added := self.coming(self.chance.choice([1, 5, UNFOLDED, 2 * UNFOLDED])):
            messages = folded_of(self.come(added))
            self.slots.update({held.sequence: held for held in messages})
            self.returned.add_folded(messages)

    def coming(self, count: int) -> list[QueueEntry]:
        places = [self.places.pop() for _ in range(count)]
        way = self.chance.random()
        if way < 0.4:  # as a session's are: among some of others, and before those that came before
            least = min(self.model, default=10**6)
            places = [(least - count * 4 + 4 * number) | 1 for number in range(count)]
        elif way < 0.8:  # as slices that follow each other
            most = max(self.model, default=10**6)
            places = [(most + 2 + 2 * number) | 1 for number in range(count)]
        return entries_of(*sorted(place for place in places if place not in self.used))

    def come(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        there = {entry.sequence: entry for entry in entries}
        self.used.update(there)
        self.slots.update(there)
        self.model += there
        return entries

    def pop(self) -> None:
        for _ in range(self.chance.randint(1, 50)):
            if self.model:
                assert self.returned.pop().sequence == self.model.pop(0)

    def remove(self) -> None:
        """Only what is an entry is ever removed."""
        for place in self.model:
            slot = self.slots[place]
            entry = slot.link if isinstance(slot, CompactDelivery) else slot
            if isinstance(entry, QueueEntry) and self.chance.random() < 0.1:
                entry.state = REMOVED
                self.removed.add(place)

    def sweep(self) -> None:
        self.returned.sweep()
        self.model = [place for place in self.model if place not in self.removed]


@given(seed=st.integers(0, 1 << 32))
def test_it_is_a_sorted_list(seed: int):
    pair = Pair(random.Random(seed))
    for _ in range(15):
        pair.step()
    assert drained(pair.returned) == pair.model


def test_histories_have_folded_ones():
    pair = Pair(random.Random(7))
    for _ in range(40):
        pair.step()
    assert pair.most_folded > UNFOLDED


def test_slices_of_sessions_that_end_at_once_join_as_many_runs():
    returned, channels, slices = Returned(), 20, 30
    for number in reversed(range(slices)):
        for channel in range(channels):
            returned.add(run_of(channel + number * channels * RUN_LEAST, channels))
    assert returned.runs[0] == channels
    assert returned.single == 0
    assert drained(returned) == list(range(channels * slices * RUN_LEAST))


def test_slices_that_ascend_make_one_run():
    returned = Returned()
    for number in range(9):
        returned.add(run_of(number * RUN_LEAST))
    assert returned.runs[0] == 1
    assert drained(returned) == list(range(9 * RUN_LEAST))


def test_few_make_no_run():
    returned = Returned()
    returned.add(run_of(0, count=RUN_LEAST - 1))
    assert returned.runs[0] == 0
    returned.add(run_of(RUN_LEAST))
    assert returned.runs[0] == 1


def test_runs_have_a_bound():
    returned = Returned()
    for number in range(RUNS_MAX):
        returned.add(run_of(number, RUNS_MAX + 1))
    assert (returned.runs[0], returned.single) == (RUNS_MAX, 0)
    returned.add(run_of(RUNS_MAX, RUNS_MAX + 1))
    assert (returned.runs[0], returned.single) == (RUNS_MAX, RUN_LEAST)
    assert drained(returned) == list(range((RUNS_MAX + 1) * RUN_LEAST))


def test_removed_ones_hide_nothing_that_stands_before_a_run():
    returned = Returned()
    single = entries_of(*range(10))
    for entry in single:
        returned.push(entry)
    for entry in single[:8]:
        entry.state = REMOVED
    returned.add(run_of(10))
    assert [entry.sequence for entry in returned.upcoming(3)] == []
    assert [entry.sequence for entry in returned.upcoming(5)] == [8, 9]
    assert [entry.sequence for entry in returned.upcoming(6)] == [8, 9, 10, 11]


def test_what_is_forgotten_is_gone():
    returned = Returned()
    returned.add(run_of(0))
    returned.push(*entries_of(99))
    returned.clear()
    assert (returned.head, returned.count, returned.entries(), returned.upcoming(5)) == (None, 0, [], [])


@given(st.lists(st.integers(0, 30), unique=True, max_size=30), st.sets(st.integers(0, 30)), st.integers(1, 10))
def test_the_first_of_a_heap_are_found_without_changing_it(sequences, removed, count):
    heap = [QueueEntry(QUEUE, make_message(), sequence) for sequence in sequences]
    heapify(heap)
    before = list(heap)
    for entry in heap:
        if entry.sequence in removed:
            entry.state = REMOVED
    found = [entry.sequence for entry in first_of_heap(heap, count)]
    expected = sorted(set(sequences) - removed)[:count]
    assert found == expected[: len(found)]
    assert len(found) == len(expected) or len(removed & set(sequences)) > count, "removed ones shorten the walk"
    assert heap == before


@given(
    st.lists(st.lists(st.integers(1, 400), unique=True, max_size=90), max_size=4),
    st.integers(1, 100),
    st.integers(0, 400),
)
def test_what_is_taken_from_the_far_end_stood_behind_all_that_came_together(
    groups: list[list[int]], count: int, above: int
) -> None:
    returned, there = Returned(), set[QueueEntry]()
    singles = set[QueueEntry]()
    for number, group in enumerate(groups):
        entries = entries_of(*[1000 * place + number for place in sorted(group)])
        returned.add(entries)
        there.update(entries)
        if len(entries) < RUN_LEAST:
            singles.update(entries)
    above *= 1000
    behind = sorted([entry for entry in there - singles if entry.place > above], reverse=True)
    taken = returned.take_far(count, above)
    assert taken[: len(behind)] == behind[:count]
    assert set(taken[len(behind) :]) <= singles
    assert len(taken) == min(count, len(behind) + len(singles))
    left = sorted(there - set(taken))
    assert returned.count == len(left)
    assert sorted(returned.entries()) == left
    assert [returned.pop() for _ in left] == left
    assert returned.head is None


def test_rows_are_made_of_folded_ones_and_of_the_entries_among_them_without_a_gap():
    returned = Returned()
    among = set(range(3, 4000, 8))
    for first in range(0, 4000, 1000):
        returned.add(entries_of(*[place for place in range(first, first + 1000) if place in among]))
        returned.add_folded(
            folded_of(entries_of(*[place for place in range(first, first + 1000) if place not in among]))
        )
    taken: list[int] = []
    while found := returned.take_far(300, 200):
        assert len(found) == min(300, 4000 - 201 - len(taken))
        taken += [entry.sequence for entry in found]
    assert taken == list(range(3999, 200, -1))
    assert drained(returned) == list(range(201))


def test_what_is_folded_of_several_sessions_that_ended_one_by_one_goes_together():
    returned = Returned()
    returned.add_folded(folded_of(entries_of(*range(0, 4000, 2))))
    returned.add_folded(folded_of(entries_of(*range(1, 4000, 4))))
    returned.add_folded(folded_of(entries_of(*range(3, 4000, 4))))
    assert returned.runs[1] == 3
    taken: list[int] = []
    while found := returned.take_far(300, 200):
        taken += [entry.sequence for entry in found]
        assert taken == list(range(3999, 3999 - len(taken), -1))
    assert taken == list(range(3999, 200, -1))
    assert returned.runs[1] == 3, "what is not taken stays folded"
    assert drained(returned) == list(range(201))


def test_runs_of_folded_ones_have_a_bound():
    returned = Returned()
    for number in reversed(range(RUNS_MAX + 1)):  # each before all others
        returned.add_folded(folded_of(entries_of(*range(number * 99, number * 99 + 99))))
    assert returned.runs[1] <= RUNS_MAX
    assert drained(returned) == list(range((RUNS_MAX + 1) * 99))
