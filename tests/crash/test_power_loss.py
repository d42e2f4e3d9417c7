"""Power loss of the whole machine: what SQLite did not sync of catalogue and history is lost as well, in part or whole.

At marked points within SQLite's own writes, too: a journal of which a commit is there by half, a file into which a
journal is being written back. Catalogue: all that was answered is there. History: duplicate ids are, the rest may be
some seconds old.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.crash.kind_promises import KindPromises
from tests.crash.power_clients import POWER_ROUND
from tests.crash.power_promises import PowerPromises
from tests.crash.test_deep_kinds import BRIEF
from tests.crash.test_marked_points import MortalBrokers, faults_at, kinds, round_of
from tests.crash.volatile_databases import default_vfs
from tests.crash.volatile_files import Fault

try:
    default_vfs()
except LookupError as unreachable:  # nothing can be put below SQLite
    pytest.skip(str(unreachable), allow_module_level=True)

STEPS = len(POWER_ROUND)
DEATHS = 60
TWIN = (
    ("write catalogue journal", 340),
    ("sync catalogue journal", 30),
    ("write history journal", 30),
    ("sync segment", 12),
    ("stopped", 1),
)
"""Points the ordinary suite dies at, and at which occurrence."""


def power_round(
    brokers: MortalBrokers, data: Path, fault: Fault, seed: int, *, steps: int = STEPS, must_die: bool = False,
    promises: PowerPromises | None = None, restart: Fault | None = None,
) -> PowerPromises:  # fmt: skip
    """Let a broker live and meet the fault; hold the one that follows to what was promised."""
    promises = promises or PowerPromises()
    round_of(
        brokers, data, fault, seed, steps, plan=POWER_ROUND, must_die=must_die, promises=promises, restart=restart,
        power=True,
    )  # fmt: skip
    return promises


@pytest.mark.parametrize(("point", "occurrence"), TWIN, ids=[point.replace(" ", "-") for point, _ in TWIN])
def test_every_promise_is_kept_when_the_power_fails_at(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, point: str, occurrence: int
) -> None:
    promises = power_round(brokers, tmp_path / "data", Fault(point, occurrence), moments.getrandbits(32), must_die=True)
    assert promises.did


def test_what_is_declared_is_synced_before_the_answer(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    """In one directory, first late in a round, then wherever the next brokers write: a cut behind a commit keeps it."""
    promises, faults = PowerPromises(), [Fault("sync catalogue journal", 28)]
    for most, point in ((40, "write catalogue journal"), (12, "sync catalogue journal"), (5, "sync history journal")):
        faults.append(Fault(point, moments.randint(1, most)))
    for fault in faults:
        seed = moments.getrandbits(32)
        print(f"{fault.point} {fault.occurrence} seed {seed}")
        power_round(brokers, tmp_path / "data", fault, seed, promises=promises)
    assert "declare" in promises.did


def test_a_clean_stop_is_whole_when_the_power_fails_after_it(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    """Marks and counts of what came back are as after any clean stop."""
    promises, fault = KindPromises(), Fault("stopped", 1)
    seed, steps = moments.getrandbits(32), len(BRIEF)
    round_of(brokers, tmp_path / "data", fault, seed, steps, plan=BRIEF, promises=promises, power=True)
    assert promises.counted["clean"]
    assert not promises.counted["killed"]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_power_losses(brokers: MortalBrokers, tmp_path: Path, moments: random.Random) -> None:
    points = list(power_round(brokers, tmp_path / "census", Fault(), 7).points)
    databases = [point for point in points if point.split()[1:2] in (["catalogue"], ["history"])]
    assert len(databases) > 6, points
    promises = PowerPromises()
    for _ in range(DEATHS):
        point = moments.choice(moments.choice([points, databases]))
        fault, seed = Fault(point, moments.randint(1, 60)), moments.getrandbits(32)
        print(f"{fault.point} {fault.occurrence} seed {seed}")
        power_round(brokers, tmp_path / "data", fault, seed, promises=promises)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_every_marked_point(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    points = power_round(brokers, tmp_path / "census", Fault(), 7).points
    for most in (2, 60):
        folder = tmp_path / str(most)
        for fault, seed, data in faults_at(brokers, points, kind, most, moments, folder, for_ever=for_ever):
            power_round(brokers, data, fault, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_every_marked_point_of_a_recovery(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    death = Fault("sync catalogue journal", 25)
    points = power_round(brokers, tmp_path / "census", death, 7, restart=Fault()).points
    for fault, seed, folder in faults_at(brokers, points, kind, 6, moments, tmp_path, for_ever=for_ever):
        power_round(brokers, folder, death, seed, restart=fault)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_power_losses_of_deep_queues_of_all_kinds(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    points = round_of(
        brokers, tmp_path / "census", Fault(), 7, len(BRIEF), plan=BRIEF, promises=KindPromises(), power=True
    ).points
    for point in points:
        fault, seed = Fault(point, moments.randint(1, max(1, points[point] // 2))), moments.getrandbits(32)
        print(f"{fault.point} {fault.occurrence} seed {seed}")
        data, promises = tmp_path / point.replace(" ", "-"), KindPromises()
        round_of(brokers, data, fault, seed, len(BRIEF), plan=BRIEF, promises=promises, must_die=False, power=True)
        shutil.rmtree(data)
