"""Settling in memory the messages that one small record settled on disk: all of a deleted queue, or ranges of a purged
one.

It is done in slices, so checkpoints contain the unswept ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.store.segments.records import ORDINAL_BITS, ORDINAL_MASK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.store.segments.segment import Segment

SWEEP_ORDINALS: Final = 20_000
"""Records examined in one slice: about 3 ms of the loop."""

TO_THE_END: Final = ORDINAL_MASK
"""End of a range that covers a whole segment, including records added before it is swept."""


class Sweep:
    """The rest to settle for one queue: ranges of segments, each (number, first ordinal, end).

    ``bounds`` are the first and last record of a range; ``None`` for a deleted queue, of which everything goes.
    """

    __slots__ = ("bounds", "queue_id", "stretches")

    def __init__(self, queue_id: int, numbers: Iterable[int], bounds: tuple[int, int] | None = None) -> None:
        self.queue_id = queue_id
        self.bounds = bounds
        self.stretches = [(number, *_part_of(number, bounds)) for number in sorted(numbers, reverse=True)]

    def go_on(self, segments: dict[int, Segment], count: int) -> bool:
        """Settle about ``count`` records more. Returns whether any are left."""
        while self.stretches and count > 0:
            number, start, end = self.stretches.pop()
            segment = segments.get(number)
            if segment is None:
                continue
            end = min(end, len(segment.offsets))
            reached = segment.forget(self.queue_id, start, min(count, end - start)) if start < end else end
            count -= max(0, reached - start)
            if reached < end:
                self.stretches.append((number, reached, end))
        return bool(self.stretches)


def _part_of(number: int, bounds: tuple[int, int] | None) -> tuple[int, int]:
    """Return first ordinal and end of the part of a range in a segment."""
    if bounds is None:
        return 0, TO_THE_END
    first, last = bounds
    start = first & ORDINAL_MASK if number == first >> ORDINAL_BITS else 0
    end = (last & ORDINAL_MASK) + 1 if number == last >> ORDINAL_BITS else TO_THE_END
    return start, end


def segments_of(segments: dict[int, Segment], queue_id: int, first: int, last: int) -> list[int]:
    """Return the numbers of the segments in which a range may have records of a queue."""
    numbers = range(first >> ORDINAL_BITS, (last >> ORDINAL_BITS) + 1)
    if len(numbers) > len(segments):
        return [number for number, segment in segments.items() if number in numbers and segment.may_hold(queue_id)]
    return [number for number in numbers if number in segments and segments[number].may_hold(queue_id)]
