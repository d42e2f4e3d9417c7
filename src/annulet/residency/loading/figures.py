"""Counters of paging since the broker started, shared by all queues."""

from __future__ import annotations


class PagingFigures:
    """Counters. Messages, unless the name has another unit."""

    __slots__ = (
        "bodies_brought_back",
        "bodies_left",
        "bodies_read",
        "found_by_tick",
        "loaded",
        "loads",
        "paged_out",
        "postponed",
        "scanned",
        "scans",
        "searched",
        "selected",
        "spill_refused",
        "spilled",
        "unreadable",
    )

    def __init__(self) -> None:
        self.paged_out = 0  # entries that became rows
        self.loads = 0  # reads of rows
        self.loaded = 0  # rows that became entries again
        self.scans = 0  # scans of rows that stay on disk
        self.scanned = 0  # rows examined by these
        self.searched = 0  # of these, rows not read here, because the search process excluded them
        self.selected = 0  # of these, rows that became entries
        self.unreadable = 0  # rows and bodies whose record is damaged
        self.bodies_left = 0  # bodies of entries that left memory, the entries stayed
        self.bodies_brought_back = 0  # bodies loaded for delivery
        self.bodies_read = 0  # all bodies read, also for non-destructive readers
        self.spilled = 0  # bodies that are not in the log and were written to leave memory
        self.spill_refused = 0  # those that were to be written and were not: the spill store was full, or the disk
        self.found_by_tick = 0  # those that only the tick delivered or paged: a wake-up was lost, which is a defect
        self.postponed = 0  # reads that the disk refused, to be tried again
