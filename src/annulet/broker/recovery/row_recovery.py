"""Putting back what the log did not read: as rows that stay on disk where a queue can have them, else one by one.

What is read: the front of each queue, what a lease or the history remembers more of than how often it came back, what
the history may not know yet, and everything of queues where something beside their order knows each message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from annulet.core.message.message import DEFAULT_PRIORITY
from annulet.core.paging.paged_priorities import PagedLevels
from annulet.core.queue.restoring import front_room, restore_rows
from annulet.store.segments.columns import grows, is_uniform, is_zero
from annulet.store.segments.interface import NO_PRIORITY, RecoveredMessage

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Sequence

    from annulet.broker.paging.pager import Pager
    from annulet.core.message.message import Origin
    from annulet.core.paging.redelivered_ranges import RedeliveredRanges
    from annulet.core.queue.queue import Queue
    from annulet.store.database.count_notes import KnownCounts
    from annulet.store.segments.interface import Log, RecoveredRows

Columns: TypeAlias = (
    "tuple[Sequence[int], Sequence[int], Sequence[int], list[Origin], list[tuple[int, int, int]], Sequence[int]]"
)
"""Sequences, records, body sizes and origins of rows; where these may expire time of acceptance, priority and end; and
where some came back how often."""

MESSAGES_AT_ONCE: Final = 256
"""Messages that are read together: about 1 ms, and their bodies are in memory twice for that long."""


ROWS_PER_READ: Final = 16
"""Rows that are about as much work as one message that is read: a deep queue does not keep the loop for its start."""


class Remembered(NamedTuple):
    """The data of messages beside the log."""

    sequences_of: Callable[[int], Iterable[int]]  # by queue id those of which more is known than a count
    counts: KnownCounts
    redelivered: dict[int, RedeliveredRanges]  # returned messages before a clean stop, by queue id


class RowRestorer:
    """Restores messages of the queues in ``queues``. ``restore`` puts back a message that was read.

    ``pass_over`` is told of records of other queues.

    ``remembered``: how often messages came back, and which have to be read. Of records from ``uncovered`` on those that
    may have a duplicate id have to.
    """

    def __init__(
        self,
        log: Log,
        pager: Pager,
        queues: dict[int, Queue],
        *,
        restore: Callable[[RecoveredMessage], None],
        pass_over: Callable[[int, Sequence[int]], None],
        origin_of: Callable[[tuple[str, str, str, str]], Origin],
        remembered: Remembered,
        uncovered: int,
    ) -> None:
        self._log = log
        self._pager = pager
        self._queues = queues
        self._restore = restore
        self._pass_over = pass_over
        self._origin_of = origin_of
        self._remembered_of = remembered.sequences_of
        self._counts = remembered.counts
        self._uncovered = uncovered
        self._redelivered = remembered.redelivered
        self._remembered: dict[int, list[int]] = {}  # ascending, by queue id
        pager.small.expect()

    def may_have_rows(self, queue_id: int) -> bool:
        """Return whether the queue can have rows now; not so one that is gone."""
        queue = self._queues.get(queue_id)
        return queue is not None and queue.pageable() and queue.order.restores_rows()

    def restore(self, rows: RecoveredRows) -> int:
        """Put messages back. Returns how much work it was, as a number of messages read."""
        queue = self._queues.get(rows.queue_id)
        length = len(rows.records)
        if queue is None:
            self._pass_over(rows.queue_id, rows.records)
            return length // ROWS_PER_READ
        if not self._are_next(queue, rows):
            return self._read(rows, 0, length)
        end = bisect_left(rows.records, self._uncovered) if rows.duplicate_ids else length
        start = min(front_room(queue, rows.sizes, self._pager.budget.front_of(queue, rows.sizes)), end)
        count = self._read(rows, 0, start)
        for first, behind in self._remembered_in(rows, start, end):
            self._add(queue, rows, start, first)
            count += self._read(rows, first, behind)
            start = behind
        self._add(queue, rows, start, end)
        return count + self._read(rows, end, length) + length // ROWS_PER_READ

    def _are_next(self, queue: Queue, rows: RecoveredRows) -> bool:
        """Return whether the queue may have rows, and these are behind its messages, one behind the other."""
        sequences = rows.sequences
        return (
            self.may_have_rows(rows.queue_id)
            and sequences[0] >= queue.next_sequence
            and (isinstance(sequences, range) or grows(sequences))
        )

    def _remembered_in(self, rows: RecoveredRows, start: int, end: int) -> list[tuple[int, int]]:
        """Return the stretches between ``start`` and ``end`` that have to be read: their starts and ends, ascending."""
        queue_id, sequences = rows.queue_id, rows.sequences
        known = self._remembered.get(queue_id)
        if known is None:
            known = self._remembered[queue_id] = sorted(set(self._remembered_of(queue_id)))
        if start >= end or not known:
            return []
        near = known[bisect_left(known, sequences[start]) : bisect_right(known, sequences[end - 1])]
        places = [bisect_left(sequences, sequence, start, end) for sequence in near]
        found: list[tuple[int, int]] = []
        for place, sequence in zip(places, near, strict=True):
            if sequences[place] != sequence:
                continue
            if found and found[-1][1] == place:
                found[-1] = (found[-1][0], place + 1)
            else:
                found.append((place, place + 1))
        return found

    def _add(self, queue: Queue, rows: RecoveredRows, start: int, end: int) -> None:
        """Make rows of a part, in steps where those that came back begin and end in it. After a crash all may have."""
        if start >= end:
            return
        order = self._pager.rows_of(queue)
        assert order is not None
        steps = [(start, end, True)]
        if self._log.clean:
            steps = self._redelivered[rows.queue_id].cut(rows.sequences, start, end)
        column = rows.origin_numbers[start:end]
        numbers = set(column[:1] if is_uniform(column) else column)  # the segment may have many more, of many queues
        made = {number: self._origin_of(rows.origins[number]) for number in numbers}
        for first, behind, redelivered in steps:
            columns = (
                rows.sequences[first:behind],
                rows.records[first:behind],
                rows.sizes[first:behind],
                _origins(made, rows.origin_numbers[first:behind]),
                _times(queue, rows, first, behind),
                self._counts.take_all(rows.queue_id, rows.sequences[first:behind]),
            )
            if isinstance(order, PagedLevels):
                _add_to_levels(queue, order, columns, rows.priorities[first:behind], redelivered=redelivered)
            else:
                times, counts = columns[4:]
                restore_rows(queue, order, columns[:4], redelivered=redelivered, times=times, counts=counts)
                queue.order.recount()

    def _read(self, rows: RecoveredRows, start: int, end: int) -> int:
        """Put back a part message by message. Damaged ones are left out; the log has counted them."""
        for first in range(start, end, MESSAGES_AT_ONCE):
            records = rows.records[first : min(first + MESSAGES_AT_ONCE, end)]
            for place, found in enumerate(self._log.read(records), first):
                target = (rows.queue_id, rows.sequences[place])
                if found is not None and target in found.targets:
                    self._restore(
                        RecoveredMessage(
                            rows.records[place],
                            found.header,
                            found.body,
                            *found.origin,
                            found.priority,
                            found.accepted_at,
                            found.expires_at,
                            [target],
                            not self._log.clean,
                        )
                    )
        return max(0, end - start)


def _add_to_levels(
    queue: Queue, order: PagedLevels, columns: Columns, priorities: array[int], *, redelivered: bool
) -> None:
    """Make rows of the columns on the levels of their priorities."""
    level_of = queue.levels.level_of_row
    known = {given: level_of(-1 if given == NO_PRIORITY else given) for given in set(priorities)}
    for level in sorted(set(known.values())):
        target = order.level_for_rows(level)
        if set(known.values()) == {level}:
            times, counts = columns[4:]
            restore_rows(queue, target, columns[:4], redelivered=redelivered, times=times, counts=counts)
        else:
            wanted = [known[given] == level for given in priorities]
            sequences, records, sizes = [list(compress(column, wanted)) for column in columns[:3]]
            origins = list(compress(columns[3], wanted))
            chosen = (sequences, records, sizes, origins)
            times, counts = list(compress(columns[4], wanted)), list(compress(columns[5], wanted))
            restore_rows(queue, target, chosen, redelivered=redelivered, times=times, counts=counts)
    order.recount()


def _times(queue: Queue, rows: RecoveredRows, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return when each was accepted, its priority, and when it ends; nothing where none expires."""
    ends = rows.expires_at[start:end]
    if not queue.ages and is_zero(ends):
        return []
    priorities = [DEFAULT_PRIORITY if given == NO_PRIORITY else given for given in rows.priorities[start:end]]
    return list(zip(rows.accepted_at[start:end], priorities, ends, strict=True))


def _origins(made: dict[int, Origin], numbers: array[int]) -> list[Origin]:
    """Return the origin of each row; as a rule all have the same."""
    if is_uniform(numbers):
        return [made[numbers[0]]] * len(numbers)
    return [made[number] for number in numbers]
