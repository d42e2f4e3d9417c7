"""Looks at the pages of one queue with what a search process has found out about their records.

The process is asked for the pages ahead of a walk. Stretches of rows known to have no match are passed over without
reading them; rows in doubt are read, and so are those not requested from it or not answered in time. So its answers
change the time of a walk, not its result.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from annulet.residency.loading.load_ahead import last_sequence_of
from annulet.residency.rows.page import ORIGINS_MAX, PAGE_ITEMS_MAX

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Sequence

    from annulet.residency.loading.figures import PagingFigures
    from annulet.residency.rows.page import Page

ROWS_LEAST: Final = 100_000
"""Rows ahead of a walk for which the process is asked at all: a quarter of a second of the event loop where others have
work, 25 ms where not. To start the process takes some 100 ms."""

PAGES_AHEAD: Final = 96
"""Pages ahead of a walk that the process is asked for: 400,000 rows, 100 ms of it at 1 KiB a message.

A walk with turns every 25 ms keeps it busy, and little of its work is lost when the consumer leaves.
"""

PAGES_ASKED: Final = 16
"""Pages asked for in one look: some 0.5 ms, as those of a segment are asked for together, else up to 1 ms."""

PAGES_PASSED: Final = 64
"""Pages passed over in one look: some 0.3 ms."""

RUNS_PASSED: Final = 256
"""Runs of rows passed over one by one in one look, where a page cannot be passed as a whole: as many as a look brings
rows. A queue that shares the log with others may have a run for each row."""

WALKS_MAX: Final = 8
"""Different things looked for in one queue of which it is known how far the process was asked; the oldest is forgotten,
and asked for again from where its walk is."""

Needles = frozenset[tuple[bytes, ...]]


class RecordSearch(Protocol):
    """Knowledge about records by their numbers. :class:`annulet.store.searching.search.Search` is one."""

    def ask(self, pages: Sequence[tuple[int, int]], needles: Needles) -> int:
        """Have the records of pages, by their lowest and highest, looked at for headers with all octets of one of the
        ``needles``. Return for how many pages there was room.
        """

    def clear(self, first: int, count: int, needles: Needles) -> int:
        """Return how many records from ``first`` on, ``count`` at most, are known to lack them."""

    def doubtful(self, first: int, count: int, needles: Needles) -> int:
        """Return up to which of so many records the last one in doubt stands; 0: the first is not known to be."""

    def is_awaited(self, record: int, needles: Needles) -> bool:
        """Return whether an answer about a record comes soon."""

    def wait(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once, when an answer comes or none is to be waited for."""


class SearchAhead:
    """Asks ``search`` for the pages ahead, and passes over the known rows. Without one it does nothing.

    It does not hold the area whose rows it looks at, which holds it.
    """

    def __init__(self, search: RecordSearch | None, figures: PagingFigures) -> None:
        self.search = search
        self._figures = figures
        self._asked: dict[Needles, int] = {}  # up to which sequence the process was asked
        self.upto = 0  # sequence that the last pass came to
        self.rows = 0  # that it passed over
        self.doubtful = 0  # rows from there on to read for those in doubt; 0: nothing is known

    def passes(
        self,
        pages: deque[Page],
        index: int,
        sequence: int,
        needles: Sequence[list[bytes]],
        messages: int,
        wake: Callable[[], None],
    ) -> bool:
        """Return whether a look from a sequence on is done without reading: rows are passed over, or the next answer
        comes soon and ``wake`` with it. The attributes say more.

        ``index``: of the page with the sequence. ``messages``: rows of a look.
        """
        self.upto, self.rows, self.doubtful = sequence, 0, 0
        search = self.search
        if search is None:
            return False
        wanted = frozenset(map(tuple, needles))
        self._ask(search, pages, index, wanted)
        stopped = self._pass_over(search, islice(pages, index, index + PAGES_PASSED), wanted) if self._asked else 0
        if self.rows:
            self._figures.scans += 1
            self._figures.scanned += self.rows
            self._figures.searched += self.rows
            return True
        if stopped:
            self.doubtful = search.doubtful(stopped, messages, wanted)
            if search.is_awaited(stopped, wanted):
                search.wait(wake)
                return True
        return False

    def _pass_over(self, search: RecordSearch, pages: Iterable[Page], needles: Needles) -> int:
        """Advance as far as known; return the record that may match, if it is one."""
        runs = 0
        for page in pages:
            if self.upto <= page.first_sequence and _is_clear(search, page, needles):
                self.upto = page.last_sequence + 1
                self.rows += page.rows
            while self.upto <= page.last_sequence:
                first, records, origin, _ = page.run_from(self.upto, PAGE_ITEMS_MAX)
                if origin is None or not origin.view.verbatim_texts or runs == RUNS_PASSED:
                    return 0
                runs += 1
                clear = search.clear(records.start, len(records), needles)
                if clear:
                    self.upto = first + clear
                    self.rows += clear
                if clear < len(records):
                    return records.start + clear
        return 0

    def _ask(self, search: RecordSearch, pages: deque[Page], index: int, needles: Needles) -> None:
        """Have the process look at the pages ahead that it was not asked for."""
        upto = self._asked.pop(needles, 0)
        if not upto and (len(pages) - index) * PAGE_ITEMS_MAX < ROWS_LEAST:
            return
        place = max(index, bisect_left(pages, upto + 1, key=last_sequence_of))
        if place > index + PAGES_AHEAD:
            place = index  # another walk for the same was ahead, and this one begins again
        ahead = list(islice(pages, place, min(index + PAGES_AHEAD, place + PAGES_ASKED)))
        some = [page for page in ahead if page.rows]
        taken = search.ask([page.record_bounds for page in some], needles)
        if done := ahead if taken == len(some) else some[:taken]:
            upto = done[-1].last_sequence
        self._asked[needles] = upto
        while len(self._asked) > WALKS_MAX:
            del self._asked[next(iter(self._asked))]


def _is_clear(search: RecordSearch, page: Page, needles: Needles) -> bool:
    """Return whether nothing in a page can match, regardless of the owners of the records between its rows."""
    if page.items > page.rows or not page.rows or len(page.origins) >= ORIGINS_MAX:
        return False
    if not all(origin.view.verbatim_texts for origin in page.origins):
        return False
    lowest, highest = page.record_bounds
    return search.clear(lowest, highest - lowest + 1, needles) == highest - lowest + 1
