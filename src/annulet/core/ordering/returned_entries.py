"""The messages returned to an order of first in, first out: runs of entries that came together, and a heap of the
others.

A session's deliveries are returned in ascending slices. A slice joins a run it stands behind or before, so that a
million messages of twenty sessions make some twenty runs: a slice is put back by one copy of references, and the first
of all is found among the first ones of the runs. In one heap every message took up to twenty comparisons on its way in
and out.

Messages returned folded (:mod:`annulet.core.model.compact_messages`) stay so in separate runs, until they are
first or are read: behind those are only entries that stand before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from heapq import heappop, heappush, merge
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.model.compact_messages import entry_of
from annulet.core.model.entry import PENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from annulet.core.model.compact_messages import CompactDelivery
    from annulet.core.model.entry import QueueEntry

RUN_LEAST: Final = 32
"""Entries that make a run: fewer take less memory in the heap than a run of their own."""

UNFOLDED: Final = 64
"""Folded messages of a run of which entries are made at once when its first one is to be the first of all."""

RUNS_MAX: Final = 64
"""Runs that are kept: some channels of some connections that end at once. Their first ones are kept in order by moving
them in a list, which with very many would cost more than the heap, where all else goes."""


class Returned:
    """Entries by place, those included that were removed and not swept out yet. ``head`` is the first of all."""

    def __init__(self) -> None:
        self.head: QueueEntry | None = None
        self.count = 0
        self._single: list[QueueEntry] = []  # a heap
        self._runs: list[deque[QueueEntry]] = []  # each ascending, none empty; by their first entries
        self._places: list[int] = []  # of the first entries of the runs
        self._folded: list[
            deque[CompactDelivery]
        ] = []  # each ascending, none empty; before each all others are entries

    @property
    def runs(self) -> tuple[int, int]:
        """How many runs there are of entries and of folded messages, at most :data:`RUNS_MAX` each."""
        return len(self._runs), len(self._folded)

    @property
    def folded(self) -> int:
        """How many messages are folded."""
        return sum([len(run) for run in self._folded])

    @property
    def single(self) -> int:
        """How many entries are in no run."""
        return len(self._single)

    def push(self, entry: QueueEntry) -> None:
        """Add one. O(log n)."""
        heappush(self._single, entry)
        self.count += 1
        head = self.head
        if head is None or entry.place < head.place:
            self.head = entry

    def add(self, entries: list[QueueEntry]) -> None:
        """Add several, by ascending place."""
        self.count += len(entries)
        self._take_in(entries)
        self._find_head()

    def add_folded(self, messages: list[CompactDelivery]) -> None:
        """Add several that came back folded, by ascending sequence, which is their place."""
        first = messages[0].sequence
        for run in self._folded:
            if run[-1].sequence < first:
                run.extend(messages)
                break
        else:
            if len(self._folded) >= RUNS_MAX:
                self.add([entry_of(held) for held in messages])
                return
            self._folded.append(deque(messages))
        self.count += len(messages)
        self._find_head()

    def _take_in(self, entries: list[QueueEntry]) -> None:
        """Let entries that are counted stand in a run, or in the heap."""
        if len(entries) < RUN_LEAST:
            self._push_all(entries)
            return
        runs, places = self._runs, self._places
        first, last = entries[0].place, entries[-1].place
        for run in runs:
            if run[-1].place < first:
                run.extend(entries)
                return
        number = bisect_left(places, last)
        if number < len(runs):
            run = runs.pop(number)
            del places[number]
            run.extendleft(reversed(entries))
        elif len(runs) < RUNS_MAX:
            run = deque(entries)
        else:
            self._push_all(entries)
            return
        number = bisect_left(places, first)
        runs.insert(number, run)
        places.insert(number, first)

    def pop(self) -> QueueEntry:
        """Take out the first of all; there is one."""
        head = self.head
        assert head is not None
        runs, places = self._runs, self._places
        if runs and runs[0][0] is head:
            run = runs[0]
            run.popleft()
            if not run:
                del runs[0], places[0]
            elif len(runs) == 1 or run[0].place < places[1]:
                places[0] = run[0].place
            else:
                del runs[0], places[0]
                at = bisect_left(places, run[0].place)
                runs.insert(at, run)
                places.insert(at, run[0].place)
        else:
            heappop(self._single)
        self.count -= 1
        self._find_head()
        return head

    def take_far(self, count: int, above: int) -> list[QueueEntry]:
        """Take out up to ``count`` from the far end: the last ones of all runs whose place is above this one.

        Folded ones go with the entries they stand among: rows among which nothing is missing make full pages, and a
        full page takes in no more.

        And of the single ones, if that is not enough, those at the end of the heap's list: far ones as a rule, and the
        rest stays a heap.
        """
        places = [map(_place, reversed(run)) for run in self._runs]
        places += [map(_sequence, reversed(run)) for run in self._folded]
        far = list(islice(merge(*places, reverse=True), count))
        taken = self._cut(max(far[-1], above + 1)) if far else []
        single = self._single
        while single and len(taken) < count:
            taken.append(single.pop())
        self.count -= len(taken)
        self._find_head()
        return taken

    def _cut(self, place: int) -> list[QueueEntry]:
        """Take out of the runs the entries at this place or behind it, the last ones first."""
        taken: list[QueueEntry] = []
        for run in self._runs:
            while run and run[-1].place >= place:
                taken.append(run.pop())
        for folded in self._folded:
            while folded and folded[-1].sequence >= place:
                taken.append(entry_of(folded.pop()))
        self._runs = [run for run in self._runs if run]
        self._places = [run[0].place for run in self._runs]
        self._folded = [folded for folded in self._folded if folded]
        taken.sort(key=_place, reverse=True)
        return taken

    def entries(self) -> list[QueueEntry]:
        """Return all, in no order."""
        while self._folded:
            self._unfold(self._folded[-1], self.count)
        self._find_head()
        found = list(self._single)
        for run in self._runs:
            found += run
        return found

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the first pending ones in order: ``count``, or fewer where removed ones stand between them.

        O(count log count): of the entries in order so many are looked at twice.
        """
        found = self._upcoming(count)
        if self._folded and (len(found) < count or found[-1].place > self._first_folded()):
            for run in list(self._folded):
                self._unfold(run, count)
            self._find_head()
            found = self._upcoming(count)
        return found

    def _upcoming(self, count: int) -> list[QueueEntry]:
        if not self._runs:
            return first_of_heap(self._single, count)
        return _first_pending(merge(in_order(self._single), *self._runs), count)

    def sweep(self) -> None:
        """Release removed entries. O(n)."""
        self._single = sorted([entry for entry in self._single if entry.state == PENDING])
        pending = [deque([entry for entry in run if entry.state == PENDING]) for run in self._runs]
        self._runs = sorted([run for run in pending if run], key=_first_place)
        self._places = [run[0].place for run in self._runs]
        self.count = len(self._single) + sum([len(run) for run in self._runs]) + self.folded
        self._find_head()

    def clear(self) -> None:
        """Forget all."""
        self._single = []
        self._runs = []
        self._places = []
        self._folded = []
        self.count = 0
        self.head = None

    def _push_all(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            heappush(self._single, entry)

    def _unfold(self, run: deque[CompactDelivery], most: int) -> None:
        """Make entries of the first ones of a run of folded ones."""
        self._take_in([entry_of(run.popleft()) for _ in range(min(most, len(run)))])
        if not run:
            self._folded.remove(run)

    def _first_folded(self) -> int:
        """Return the lowest sequence of those that are folded; there are some."""
        return min([run[0].sequence for run in self._folded])

    def _find_head(self) -> None:
        """Note the first of all, which is an entry."""
        self.head = self._first_entry()
        while self._folded and (self.head is None or self.head.place > self._first_folded()):
            self._unfold(min(self._folded, key=_first_sequence), UNFOLDED)
            self.head = self._first_entry()

    def _first_entry(self) -> QueueEntry | None:
        head = self._single[0] if self._single else None
        if self._runs:
            first = self._runs[0][0]
            if head is None or first.place < head.place:
                head = first
        return head


def _place(entry: QueueEntry) -> int:
    return entry.place


def _sequence(held: CompactDelivery) -> int:
    return held.sequence


def _first_sequence(run: deque[CompactDelivery]) -> int:
    return run[0].sequence


def _first_place(run: deque[QueueEntry]) -> int:
    return run[0].place


def in_order(heap: list[QueueEntry]) -> Iterator[QueueEntry]:
    """Yield the entries of a heap in order, without changing it. O(log n) each."""
    reached: list[tuple[QueueEntry, int]] = [(heap[0], 0)] if heap else []
    while reached:
        entry, place = heappop(reached)
        yield entry
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(heap):
                heappush(reached, (heap[below], below))


def first_of_heap(heap: list[QueueEntry], count: int) -> list[QueueEntry]:
    """Return the first pending entries of a heap in order, without changing it: O(count log count).

    Removed ones on the way count too: they may be as many as the pending ones, and the walk is to stay short.
    """
    return _first_pending(in_order(heap), count)


def _first_pending(entries: Iterable[QueueEntry], count: int) -> list[QueueEntry]:
    found: list[QueueEntry] = []
    for entry in islice(entries, 2 * count):
        if entry.state == PENDING:
            found.append(entry)
            if len(found) == count:
                break
    return found
