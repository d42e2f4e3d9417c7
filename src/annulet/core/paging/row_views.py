"""Rows of a queue as one view, by sequence or in order of dispatch, where every level of strict priorities has its own.

A queue of first in, first out has one area of rows, and its view is that of the area.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.model.entry import LEVEL_SPAN, level_of, sequence_of
from annulet.core.model.queue_area import RowView, RowWalk

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.policies.queue_policies import QueuePolicies


def view_of(queue: QueuePolicies, pages: QueueArea, entries: list[QueueEntry]) -> RowView:
    """Return a view of all rows of a queue and of the stored messages of ``entries``; see :meth:`QueueArea.snapshot`.

    ``pages``: any of the queue, now or before: ``entries`` where it has no rows get their like.
    """
    parts = [part for part in queue.order.page_parts() if part.items]
    if not queue.ranker.ranks:
        return (parts[0] if parts else pages.renewed()).snapshot(entries)
    view = LevelsView({part.level: part.snapshot([]) for part in parts}, pages.renewed())
    view.note(entries)
    return view


class LevelsView(RowView):
    """The views of several levels, by their numbers.

    For others, empty pages of the same kind as ``pages`` are noted.
    """

    def __init__(self, views: dict[int, RowView], pages: QueueArea) -> None:
        self._views = views
        self._pages = pages

    def note(self, entries: list[QueueEntry]) -> None:
        """Show these as well, on their levels."""
        by_level: dict[int, list[QueueEntry]] = {}
        for entry in sorted(entries, key=sequence_of):
            by_level.setdefault(level_of(entry), []).append(entry)
        for level, noted in by_level.items():
            if level not in self._views:
                self._views[level] = self._pages.snapshot([])
            self._views[level].note(noted)

    def walk(self, first: int, last: int = -1, chosen: list[int] | None = None) -> RowWalk:
        """Return a walk over all levels by sequence."""
        return MergedWalk([view.walk(first, last, chosen) for view in self._views.values()])

    def walk_in_order(self, first: int, chosen: list[int] | None = None) -> RowWalk:
        """Return a walk over one level after the other."""
        levels = sorted(self._views, reverse=True)
        return LevelsWalk([(level, self._views[level].walk(first, -1, chosen)) for level in levels])


class LevelsWalk(RowWalk):
    """The walks of several levels, each with its number, one after the other."""

    def __init__(self, walks: list[tuple[int, RowWalk]]) -> None:
        super().__init__()
        self._walks = deque(walks)
        self._last: RowWalk | None = None  # the last read is from here
        self._passed_before = 0  # of levels that are done
        self._tell()

    def following(self) -> list[QueueEntry] | None:
        """Read of the first level that has some left."""
        level, walk = self._walks[0]
        found = walk.following()
        self._last = walk
        self.passed = self._passed_before + walk.passed
        if found is not None:
            self.damaged, self.settled = walk.damaged, walk.settled
            for entry in found:
                entry.rank = (-level,)
        self._tell()
        return found

    def holds(self, entry: QueueEntry) -> bool:
        """Ask the walk that was read last: all ask the same log."""
        return self._last is not None and self._last.holds(entry)

    def _tell(self) -> None:
        """Say which is the next."""
        walks = self._walks
        while walks and not walks[0][1].sequence:
            self._passed_before += walks.popleft()[1].passed
        self.sequence = self.base = 0
        if walks:
            level, walk = walks[0]
            self.sequence, self.base = walk.sequence, -level * LEVEL_SPAN


class MergedWalk(RowWalk):
    """Several walks as one, by ascending sequence."""

    def __init__(self, walks: list[RowWalk]) -> None:
        super().__init__()
        self._walks = walks
        self._settled: list[int] = []  # the rows the walks passed over behind the returned ones
        self._parts: list[tuple[RowWalk, deque[QueueEntry]]] = [(walk, deque()) for walk in walks]
        self._tell()

    def following(self) -> list[QueueEntry] | None:
        """Read of the walk that is behind the others, if need be, and return the entries before the next to be read."""
        self.damaged = []
        walk, read = min(self._parts, key=_next_of)
        if not read:
            rows = walk.following()
            if rows is None:
                self._tell()
                return None
            self.damaged = walk.damaged
            self._settled += walk.settled
            read.extend(rows)
        found: list[QueueEntry] = []
        while True:
            self._parts = [part for part in self._parts if part[1] or part[0].sequence]
            if not self._parts:
                break
            _, read = min(self._parts, key=_next_of)
            if not read:
                break
            found.append(read.popleft())
        self._tell()
        self.settled = [sequence for sequence in self._settled if not 0 < self.sequence < sequence]
        self._settled = [sequence for sequence in self._settled if 0 < self.sequence < sequence]
        return found

    def holds(self, entry: QueueEntry) -> bool:
        """Ask any: all ask the same log."""
        return self._walks[0].holds(entry)

    def _tell(self) -> None:
        """Say which is the next."""
        self._parts = [part for part in self._parts if part[1] or part[0].sequence]
        self.sequence = min([_next_of(part) for part in self._parts], default=0)
        self.passed = sum([walk.passed for walk in self._walks]) - sum([len(read) for _, read in self._parts])


def _next_of(part: tuple[RowWalk, deque[QueueEntry]]) -> int:
    walk, read = part
    return read[0].sequence if read else walk.sequence
