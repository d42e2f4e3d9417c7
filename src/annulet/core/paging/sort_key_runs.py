"""The sort keys of rows: which of the messages on disk only is next, and after it.

Sorted runs, as a log-structured merge tree has them: a key of 8 bytes and a sequence of 4 or 8 for each row. The next
one is at the head of a run, and the heads are a heap; so runs are merged only to keep them few. A run has keys of one
kind, so that they compare like the original values: an integer as one of 64 bits, a text as its bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, TypeAlias

from annulet.core.model.entry import Rank
from annulet.core.ordering.ranks import SORTED_BYTES, SORTED_MISSING, SORTED_NUMBER, SORTED_TEXT, SORTED_TRUTH

RUN_MAX: Final = 8192
"""Rows of a merged run: sorting as many takes about 4 ms, and ten million rows have 1,200 runs."""

KEY_BYTES: Final = 8
"""Longest text or bytes that are a row's key (design 2.9)."""

HEADS_MINIMUM: Final = 64
"""Heads of runs that are no more before they are swept out."""

MISSING: Final = 0
WHOLE: Final = 1
FRACTION: Final = 2
TEXT: Final = 3
OCTETS: Final = 4
TRUTH: Final = 5
"""Kinds of keys: those of :mod:`annulet.core.ordering.ranks`, but that numbers are whole or not."""

NO_KIND: Final = -1

_LEAST: Final = -(1 << 63)
_BEHIND_MOST: Final = 1 << 63
_NARROW_MAX: Final = 0xFFFFFFFF

Place: TypeAlias = "tuple[Rank, int]"
"""The position of a row: its rank, and its sequence among equal ones."""


def kind_of(rank: Rank) -> int:
    """Return the kind of a rank's key; ``NO_KIND`` for keys that do not fit into 8 bytes in the same order."""
    sort = rank[0]
    if sort == SORTED_MISSING:
        return MISSING
    if sort == SORTED_NUMBER:
        if isinstance(rank[1], float):
            return FRACTION
        return WHOLE if _LEAST <= rank[1] < _BEHIND_MOST else NO_KIND
    if sort == SORTED_TEXT:
        return TEXT if len(rank[1]) <= KEY_BYTES and _fits(_octets(rank[1])) else NO_KIND
    if sort == SORTED_BYTES:
        return OCTETS if _fits(rank[1]) else NO_KIND
    return TRUTH if sort == SORTED_TRUTH else NO_KIND


def fits(rank: Rank) -> bool:
    """Return whether a row may have this rank: its key fits, or it is a level of priorities."""
    return len(rank) == 1 or kind_of(rank) != NO_KIND


def _fits(octets: bytes) -> bool:
    return len(octets) <= KEY_BYTES and not octets.endswith(b"\0")  # which would not differ from the padding


def _octets(text: str) -> bytes:
    """Return bytes that compare as code points do, of any text a client may send."""
    return text.encode("utf-8", "surrogatepass")


def _number_of(rank: Rank, kind: int) -> int | float:
    if kind == MISSING:
        return 0
    if kind in (TEXT, OCTETS):
        octets: bytes = _octets(rank[1]) if kind == TEXT else rank[1]
        return int.from_bytes(octets.ljust(KEY_BYTES, b"\0"), "big")
    value: int | float = rank[1]
    return value


def _rank_of(number: int | float, kind: int) -> Rank:
    if kind == MISSING:
        return (SORTED_MISSING,)
    if kind in (WHOLE, FRACTION):
        return (SORTED_NUMBER, number)
    if kind == TRUTH:
        return (SORTED_TRUTH, bool(number))
    octets = int(number).to_bytes(KEY_BYTES, "big").rstrip(b"\0")
    return (SORTED_TEXT, octets.decode("utf-8", "surrogatepass")) if kind == TEXT else (SORTED_BYTES, octets)


class KeyRun:
    """Rows of one kind of key in order of dispatch; those before ``position`` were taken."""

    def __init__(self, kind: int, pairs: list[tuple[int | float, int]]) -> None:
        self.kind = kind
        self.position = 0
        last = max([sequence for _, sequence in pairs])
        self.sequences: array[int] = array("I" if last <= _NARROW_MAX else "Q", [sequence for _, sequence in pairs])
        self.whole: array[int] = array("Q" if kind in (TEXT, OCTETS) else "q")
        self.fractions: array[float] = array("d")
        if kind == FRACTION:
            self.fractions.extend([float(number) for number, _ in pairs])
        elif kind == WHOLE or kind in (TEXT, OCTETS):
            self.whole.extend([int(number) for number, _ in pairs])
        elif kind == TRUTH:
            self.whole = array("b", [int(number) for number, _ in pairs])

    def __len__(self) -> int:
        return len(self.sequences) - self.position

    def place(self) -> Place:
        """Return the position of the first row that was not taken."""
        return _rank_of(self._number(self.position), self.kind), self.sequences[self.position]

    def left(self) -> list[tuple[int | float, int]]:
        """Return the keys and sequences that were not taken."""
        return [(self._number(index), self.sequences[index]) for index in range(self.position, len(self.sequences))]

    def _number(self, index: int) -> int | float:
        if self.kind == FRACTION:
            return self.fractions[index]
        return 0 if self.kind == MISSING else self.whole[index]


class KeyRuns:
    """Rows by rank and sequence. Some may be outdated, which is detected when they are taken."""

    def __init__(self) -> None:
        self._runs: dict[int, KeyRun] = {}
        self._heads: list[tuple[Rank, int, int]] = []  # rank and sequence of a run's first, and its number
        self._recent: dict[int, list[int]] = {}  # by kind the numbers of runs that grow, none shorter than the next
        self._number = 0

    def __len__(self) -> int:
        return sum([len(run) for run in self._runs.values()])

    def runs(self) -> list[KeyRun]:
        """Return the runs, of which none is empty."""
        return list(self._runs.values())

    @property
    def run_count(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def add(self, places: list[Place]) -> None:
        """Add rows, whose ranks all fit."""
        by_kind: dict[int, list[tuple[int | float, int]]] = {}
        for rank, sequence in places:
            kind = kind_of(rank)
            by_kind.setdefault(kind, []).append((_number_of(rank, kind), sequence))
        for kind, added in by_kind.items():
            pairs = added
            recent = self._recent.setdefault(kind, [])
            while recent:
                last = self._runs.get(recent[-1])
                if last is not None and (len(last) > len(pairs) or len(last) + len(pairs) > RUN_MAX):
                    break
                number = recent.pop()
                if last is not None:
                    pairs += last.left()
                    del self._runs[number]  # its head is found to be outdated
            recent.append(self._add_run(kind, pairs))
        if len(self._heads) > 2 * len(self._runs) + HEADS_MINIMUM:
            self._heads = [head for head in self._heads if head[2] in self._runs]
            heapify(self._heads)

    def _add_run(self, kind: int, pairs: list[tuple[int | float, int]]) -> int:
        pairs.sort()
        self._number += 1
        run = self._runs[self._number] = KeyRun(kind, pairs)
        rank, sequence = run.place()
        heappush(self._heads, (rank, sequence, self._number))
        return self._number

    def first(self) -> Place | None:
        """Return the position of the next row, ``None`` if there is none."""
        heads = self._heads
        while heads:
            rank, sequence, number = heads[0]
            if number in self._runs:
                return rank, sequence
            heappop(heads)
        return None

    def take(self, count: int) -> list[Place]:
        """Take out the next ``count`` rows, in order."""
        found: list[Place] = []
        heads = self._heads
        while len(found) < count and self.first() is not None:
            rank, sequence, number = heads[0]
            found.append((rank, sequence))
            run = self._runs[number]
            run.position += 1
            if len(run):
                rank, sequence = run.place()
                heapreplace(heads, (rank, sequence, number))
            else:
                heappop(heads)
                del self._runs[number]
        return found

    def sweep(self, count: int, holds: Callable[[int], bool]) -> int:
        """Drop outdated rows, in whole runs, the least recently checked first.

        As many as have up to ``count`` rows together. Returns how many these had.
        """
        looked = 0
        for number in list(self._runs):
            run = self._runs[number]
            if looked + len(run) > count:
                break
            looked += len(run)
            pairs = [(key, sequence) for key, sequence in run.left() if holds(sequence)]
            del self._runs[number]
            if pairs:
                self._add_run(run.kind, pairs)
        return looked

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._heads.clear()
        self._recent.clear()
