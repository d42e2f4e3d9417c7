"""Death and refusal at marked points of a broker whose queues are mostly on disk: rows, levels, times to live, spilled
bodies, selectors, purges, heavy leases and schedules. What is promised is what shallow queues promise.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.crash.deep_clients import DEEP_ROUND
from tests.crash.deep_promises import DeepPromises
from tests.crash.test_marked_points import MortalBrokers, faults_at, kinds, look, round_of
from tests.crash.volatile_files import KILL, Fault

STEPS = 2 * len(DEEP_ROUND)
DEATHS = 40
DEEP_BACKUP_ROUND = (*DEEP_ROUND[:8], "backup_begin", *DEEP_ROUND[8:], "backup_end")
TWIN = (("read segment", 9), ("sync segment", 30))
"""Points the ordinary suite dies at, and at which occurrence: while rows are read, and late in a round."""


def deep_round(
    brokers: MortalBrokers, data: Path, fault: Fault, seed: int, *, steps: int = STEPS, must_die: bool = False,
    promises: DeepPromises | None = None, plan: tuple[str, ...] = DEEP_ROUND, restart: Fault | None = None,
) -> DeepPromises:  # fmt: skip
    """Let a broker with deep queues live and meet the fault; hold the one that follows to what was promised."""
    promises = promises or DeepPromises()
    round_of(brokers, data, fault, seed, steps, plan=plan, must_die=must_die, promises=promises, restart=restart)
    return promises


@pytest.mark.parametrize(("point", "occurrence"), TWIN, ids=[point.replace(" ", "-") for point, _ in TWIN])
def test_deep_queues_keep_every_promise_after_death_at(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, point: str, occurrence: int
) -> None:
    fault, steps = Fault(point, occurrence), len(DEEP_ROUND)
    deep_round(brokers, tmp_path / "data", fault, moments.getrandbits(32), steps=steps, must_die=True)


def test_deep_queues_lose_nothing_when_reads_fail(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    fault = Fault("read segment", 3, "EIO", for_ever=True)
    promises = deep_round(brokers, tmp_path / "data", fault, moments.getrandbits(32), steps=len(DEEP_ROUND))
    paged, spilled, _, postponed = promises.figures
    assert paged
    assert spilled
    assert postponed, "the reads were met"
    assert promises.left["brief"], "rows expire without a read"


def test_a_search_finds_each_match_once_whatever_is_left_of_the_heads(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    """They are never synced: first a death leaves some of them, then all are there, then some are torn and missing."""
    data, plan = tmp_path / "data", ("rows",) * 6
    fault = Fault("write heads", 12)
    promises = deep_round(brokers, data, fault, moments.getrandbits(32), steps=len(plan), plan=plan, must_die=True)
    left = promises.told_by_heads
    deep_round(brokers, data, Fault(), moments.getrandbits(32), steps=len(plan), plan=plan, promises=promises)
    whole = promises.told_by_heads - left
    assert whole
    assert promises.searched
    for number, path in enumerate(sorted(data.glob("messages/*.heads"))):
        if number % 3 == 1:
            path.unlink()
        elif number % 3 == 2:
            os.truncate(path, path.stat().st_size * moments.randrange(100) // 100)
    asyncio.run(look(data, promises, refused=False))
    assert 0 < promises.told_by_heads - left - whole < whole


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_deaths_of_deep_queues(brokers: MortalBrokers, tmp_path: Path, moments: random.Random) -> None:
    census = deep_round(brokers, tmp_path / "census", Fault(), 7)
    points = list(census.points)
    assert all(census.figures[:3]), "rows were made, bodies spilled, rows selected"
    promises = DeepPromises()
    for _ in range(DEATHS):
        fault, seed = Fault(moments.choice(points), moments.randint(1, 20)), moments.getrandbits(32)
        print(f"{fault.point} {fault.occurrence} seed {seed}")
        deep_round(brokers, tmp_path / "data", fault, seed, promises=promises)
    assert promises.told_by_heads, "searches met heads that a death had left"


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_deep_queues_after_death_at_every_marked_point(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    for point in deep_round(brokers, tmp_path / "census", Fault(), 7).points:
        for occurrence in (1, moments.randint(2, 30)):
            seed = moments.getrandbits(32)
            print(f"{point} {occurrence} seed {seed}")
            data = tmp_path / f"{point.replace(' ', '-')}-{occurrence}"
            deep_round(brokers, data, Fault(point, occurrence, KILL), seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for-ever"])
@pytest.mark.parametrize("kind", ["EIO", "ENOSPC"])
def test_deep_queues_when_the_disk_refuses(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    points = deep_round(brokers, tmp_path / "census", Fault(), 7).points
    for fault, seed, folder in faults_at(brokers, points, kind, 12, moments, tmp_path, for_ever=for_ever):
        deep_round(brokers, folder, fault, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_deep_queues_when_a_recovery_goes_wrong(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    death = Fault("sync segment", 30)
    points = deep_round(brokers, tmp_path / "census", death, 7, restart=Fault()).points
    for fault, seed, folder in faults_at(brokers, points, kind, 6, moments, tmp_path, for_ever=for_ever):
        deep_round(brokers, folder, death, seed, restart=fault)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_deep_queues_during_a_backup(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    points = deep_round(brokers, tmp_path / "census" / "data", Fault(), 7, plan=DEEP_BACKUP_ROUND).points
    for fault, seed, folder in faults_at(brokers, points, kind, 20, moments, tmp_path, for_ever=for_ever):
        deep_round(brokers, folder / "data", fault, seed, plan=DEEP_BACKUP_ROUND)
