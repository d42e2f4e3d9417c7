"""R1 to R3 as random histories: messages are taken, settled and given back in any order, and brokers start again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from annulet.core.model.entry import QueueEntry
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels
from annulet.core.queue.queue import Queue
from tests.residency.acceptance.deep import Deep, deep_broker

COUNT = 300
KEEP = 8
"""Messages that stay in memory: most are rows, also those of a start, once something was paged."""

STEPS, STARTS = 12, 3
PRIORITIES = (5, 2, 8)


class History:
    """What there should be: how often each sequence came back, which are marked, and who has it."""

    def __init__(self, seed: int, *, levels: bool) -> None:
        self.moments = random.Random(seed)
        self.levels = levels
        self.counts = dict.fromkeys(range(1, COUNT + 1), 0)
        self.held: list[QueueEntry] = []
        self.seen: set[int] = set()  # came back, or may have before a kill

    def priority_of(self, sequence: int) -> int:
        return PRIORITIES[(sequence - 1) * len(PRIORITIES) // COUNT] if self.levels else 4

    def pending(self) -> list[int]:
        """Return the sequences that wait in their order."""
        away = {entry.sequence for entry in self.held}
        there = [sequence for sequence in self.counts if sequence not in away]
        return sorted(there, key=lambda sequence: (-self.priority_of(sequence), sequence))

    def take(self, queue: Queue, count: int, now: int) -> None:
        expected = self.pending()[:count]
        found = queue.acquire(count, -1, now)
        assert [entry.sequence for entry in found] == expected
        assert [entry.delivery_count for entry in found] == [self.counts[sequence] for sequence in expected]
        assert [entry.sequence for entry in found if entry.redelivered] == [n for n in expected if n in self.seen]
        self.held += found

    def let_go(self, queue: Queue, now: int) -> None:
        """Settle some of what is held, and give some back, counted or not."""
        fates = [(entry, self.moments.random()) for entry in self.held]
        for entry in [entry for entry, fate in fates if fate < 0.05]:
            queue.acknowledge(entry)
            del self.counts[entry.sequence]
        counted = [entry for entry, fate in fates if 0.05 <= fate < 0.6]
        self.moments.shuffle(counted)
        for entry in counted:
            self.counts[entry.sequence] += 1
        queue.return_entries(counted, now)
        queue.return_entries([entry for entry, fate in fates if 0.6 <= fate < 0.7], now, counted=False)
        self.held = [entry for entry, fate in fates if fate >= 0.7]
        self.seen.update([entry.sequence for entry, fate in fates if fate < 0.7])

    def end(self, queue: Queue, now: int, *, killed: bool) -> None:
        """Give back what is held. After a kill nobody knows who has seen what."""
        queue.return_entries(self.held, now, counted=False)
        self.seen.update(self.counts if killed else [entry.sequence for entry in self.held])
        self.held = []


def page(deep: Deep) -> None:
    """Make rows of all that may be one, a few at a time."""
    queue, pager = deep.queue(), deep.broker.pager
    assert pager is not None
    order = pager.rows_of(queue)
    assert isinstance(order, (PagedFifo, PagedLevels))
    order.keep_messages = KEEP
    if isinstance(order, PagedLevels):
        order.fold_least = 1
    else:
        order.fold_least = 1
    durable = deep.broker.log.written_below
    while order.page_out(durable, 40) or order.fold(durable, 40):
        pass
    deep.check()


@pytest.mark.parametrize("levels", [False, True], ids=["first in, first out", "levels"])
@pytest.mark.parametrize("seed", range(3))
async def test_any_history_of_returns_is_the_same_on_disk_and_over_restarts(
    tmp_path: Path, seed: int, levels: bool
) -> None:
    history = History(seed, levels=levels)
    moments = history.moments
    directory = tmp_path / "start 0"
    rows = 0
    for start in range(STARTS):
        async with deep_broker(directory) as deep:
            if not start:
                await deep.declare("q", **({"x_max_priority": 9} if levels else {}))
                for sequence in range(1, COUNT + 1):
                    await deep.publish([sequence], size=20, priority=history.priority_of(sequence))
            for _ in range(STEPS):
                page(deep)
                rows = max(rows, deep.queue().order.paged_count())
                history.take(deep.queue(), moments.randrange(COUNT // 2), deep.clock())
                history.let_go(deep.queue(), deep.clock())
                await deep.written()
            killed = moments.random() < 0.5
            if killed:
                following = tmp_path / f"start {start + 1}"
                shutil.copytree(directory, following)  # as a kill leaves it, with messages in delivery
                directory = following
            history.end(deep.queue(), deep.clock(), killed=killed)
    async with deep_broker(directory) as deep:
        history.take(deep.queue(), COUNT, deep.clock())
        deep.check()
    assert rows > COUNT // 2
