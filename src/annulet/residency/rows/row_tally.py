"""Counts the rows of a page by the address they were sent to, from its columns without reading any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.model.queue_area import QueueArea
from annulet.residency.rows.page import ORIGINS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from annulet.core.message.message import Origin
    from annulet.core.queue.queue import Queue
    from annulet.residency.rows.page import Page


def tally(pages: Iterable[Page], name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
    """Return how many rows with a sequence below this one are left, and how many body bytes, by name of their origin.

    See :meth:`annulet.core.model.queue_area.QueueArea.tally`.
    """
    found: dict[str, tuple[int, int]] = {}
    names: dict[Origin, str] = {}
    for page in pages:
        for name, rows, size in _tally_of(page, name_of, names, below):
            known = found.get(name, (0, 0))
            found[name] = (known[0] + rows, known[1] + size)
    return found


def page_leaves(queue: Queue, page: Page) -> None:
    """Pass the rows of a page that leaves its queue as a whole to the accounts."""
    if queue.accounts is not None:
        queue.accounts.rows_gone(queue, PageTally(page))


class PageTally(QueueArea):
    """One page that leaves its area, presented as an area with just its contents."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self._page = page

    def tally(self, name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
        """Ask the page."""
        return tally([self._page], name_of, below)


def _tally_of(
    page: Page, name_of: Callable[[Origin], str], names: dict[Origin, str], below: int
) -> list[tuple[str, int, int]]:
    """Return names, rows and bytes of one page. O(1) where all its origins have one name, else O(runs)."""
    if not page.rows or page.first_sequence >= below:
        return []
    whole = page.origins[:ORIGINS_MAX]
    for origin in whole:
        if origin not in names:
            names[origin] = name_of(origin)
    of_page = {names[origin] for origin in whole}
    if len(of_page) == 1 and page.last_sequence < below:
        return [(of_page.pop(), page.rows, page.bytes)]
    counts, unknown = _counts(page, [names[origin] for origin in whole], below)
    known = sum(counts.values())
    found: list[tuple[str, int, int]] = []
    of_names = known + unknown  # the rest of these goes to the last name, so that none is lost
    for number, (name, count) in enumerate(counts.items(), 1):
        rows = of_names if number == len(counts) else count + unknown * count // known
        found.append((name, rows, page.bytes * rows // page.rows))
        of_names -= rows
    if found and known + unknown == page.rows:
        name, rows, size = found[-1]
        found[-1] = (name, rows, size + page.bytes - sum([octets for _, _, octets in found]))
    return found


def _counts(page: Page, names: list[str], below: int) -> tuple[dict[str, int], int]:
    """Return how many rows each name has, and how many are of origins of which the page keeps no name.

    Where it is that of no row left, all rows count for the first name.
    """
    by_origin = page.runs.count_by_origin(len(page.origins), below)
    unknown = sum(by_origin[len(names) :])
    counts: dict[str, int] = {}
    for name, count in zip(names, by_origin, strict=False):
        if count:
            counts[name] = counts.get(name, 0) + count
    if not counts and unknown:
        return {names[0]: unknown}, 0
    return counts, unknown
