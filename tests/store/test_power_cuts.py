"""A cut of power at any point of what the log did to its disk: nothing confirmed is lost, nothing settled returns.

One life of a log is recorded. From the record, disks are built as cuts of power may leave them, and the real
recovery opens each. :mod:`tests.store.test_crash` cuts at the end of a life, these tests within writes and upkeep, too.
"""

from __future__ import annotations

import copy
import os
import random

import pytest

from tests.store.log.test_log_tools import flush, live, message, opened
from tests.store.recorded_disk import RecordedDisk, disk_after
from tests.store.test_crash import Workload

SEED = int(os.environ.get("ANNULET_TEST_SEED", "20261128"))
STEPS = 150
CUTS = 15


class Life:
    """A recorded life of a log, with what was promised at each point of the record."""

    def __init__(self, chance: random.Random, *, lies: bool = False) -> None:
        self.disk = RecordedDisk(lies=lies)
        work = Workload(self.disk, chance)
        self.promises = [(0, promised(work))]  # valid for the events from this one on
        for _ in range(STEPS):
            before = promised(work)
            self.promises.append((len(self.disk.events), before))
            work.step()
            before.new |= work.new  # what is under way within the step
            for body, queues in work.leaving.items():
                before.leaving[body] = before.leaving.get(body, set()) | queues
        self.promises.append((len(self.disk.events), promised(work)))

    def at(self, point: int) -> Workload:
        """Return what was promised when so many events had happened."""
        return [work for begin, work in self.promises if begin <= point][-1]

    def check(self, point: int, chance: random.Random) -> None:
        """Cut the power there, open what is left and hold it to the promises; and the log that follows to its own."""
        log = opened(disk := RecordedDisk.of(disk_after(self.disk.events[:point], chance)))
        self.at(point).check(log)
        once = live(log)
        log.append(message(b"after the cut"), [(1, 1_000_000)])
        flush(log)
        again = live(opened(disk_after(disk.events, chance)))
        assert again.pop(b"after the cut") == [(1, 1_000_000)]
        assert again == once


def promised(work: Workload) -> Workload:
    """Return a copy of what was promised."""
    kept = copy.copy(work)
    kept.must, kept.gone, kept.new, kept.leaving = dict(work.must), set(work.gone), dict(work.new), dict(work.leaving)
    return kept


def live_and_cut(seed: int, cuts: int) -> None:
    """Record a life and cut the power at points that chance chooses."""
    print(f"seed {seed}")  # repeat with ANNULET_TEST_SEED
    chance = random.Random(seed)
    life = Life(chance)
    for _ in range(cuts):
        point = chance.randint(0, len(life.disk.events))
        print(f"cut after {point} of {len(life.disk.events)} events")
        life.check(point, chance)


def check_often(life: Life, chance: random.Random) -> None:
    """Cut the power many times after a life."""
    for _ in range(100):
        life.check(len(life.disk.events), chance)


@pytest.mark.parametrize("number", range(2))
def test_a_cut_of_power_takes_nothing_that_was_promised(number: int) -> None:
    live_and_cut(SEED + number, CUTS)


def test_a_disk_that_syncs_nothing_is_found_out() -> None:
    chance = random.Random(SEED)
    life = Life(chance, lies=True)
    with pytest.raises(AssertionError, match=r"lost|came back"):
        check_often(life, chance)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(20))
def test_a_thousand_cuts_of_power(number: int) -> None:
    live_and_cut(SEED + 1000 + number, 50)


@pytest.mark.soak
def test_a_cut_after_each_event_of_a_life() -> None:
    chance = random.Random(SEED)
    life = Life(chance)
    for point in range(len(life.disk.events) + 1):
        life.check(point, chance)
