"""Death and refusal at marked points of a broker with deep queues of every composition, and clean stops between them.

Sorted queues, rings of all orders, groups, non-destructive queues, values by key, counted and delayed deliveries.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.kind_clients import KINDS, kind_plan
from tests.crash.kind_promises import KindPromises
from tests.crash.test_marked_points import MortalBrokers, faults_at, kinds, round_of
from tests.crash.volatile_files import KILL, Fault

DEATHS = 12
TORN = 2
TORN_TRIES = 10
"""Deaths in which so many bursts are torn, as a rule: more than half of the deaths tear one."""

DIRECTORIES = 4
ROWS = ("sorted", "circle", "groups", "shared", "history", "readings", "tries", "patient")
"""Kinds with rows; of the others only bodies page."""

BRIEF = kind_plan(*KINDS, bursts=3, rounds=1)
TWIN = (("sync segment", 330), ("history write", 50))
"""Points the ordinary suite dies at, and at which occurrence: late in a round, when messages are taken and kept."""


def kind_round(
    brokers: MortalBrokers, data: Path, fault: Fault, seed: int, plan: tuple[str, ...], *, must_die: bool = False,
    promises: KindPromises | None = None, restart: Fault | None = None,
) -> KindPromises:  # fmt: skip
    """Let a broker live and meet the fault; hold the one that follows to what was promised."""
    promises = promises or KindPromises()
    round_of(brokers, data, fault, seed, len(plan), plan=plan, must_die=must_die, promises=promises, restart=restart)
    return promises


@pytest.mark.parametrize(("point", "occurrence"), TWIN, ids=[point.replace(" ", "-") for point, _ in TWIN])
def test_deep_queues_of_each_kind_keep_every_promise_over_a_death_and_a_clean_stop(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, point: str, occurrence: int
) -> None:
    data = tmp_path / "data"
    promises = kind_round(brokers, data, Fault(point, occurrence), moments.getrandbits(32), BRIEF, must_die=True)
    assert {name for name in KINDS if promises.paged[name]} == set(ROWS), "what a start found on disk only"
    assert promises.counted["killed"], "deliveries that came back were counted over the death"
    assert promises.tally.compared["all"] >= len(KINDS), "what had left, and why, was compared"
    plan = kind_plan(*KINDS, bursts=0, rounds=1)
    kind_round(brokers, data, Fault(), moments.getrandbits(32), plan, promises=promises)
    assert promises.counted["clean"]
    assert promises.tally.compared["exactly"] >= len(KINDS)
    done = {name: ("send", "read") if kind.reads else ("send", "take", "hold") for name, kind in KINDS.items()}
    assert all(promises.did[f"{verb} {name}"] for name, verbs in done.items() for verb in verbs), promises.did


def test_deep_rings_hold_the_last_ones_after_deaths_amid_a_window(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    """A burst takes several segments: of a window that was torn each message is there in place of another one."""
    promises, plan = KindPromises(), kind_plan("circle", "urgent", "ranked", bursts=3, rounds=1)
    for _ in range(TORN_TRIES):
        if promises.torn == TORN:
            break
        fault = Fault("sync segment", moments.randint(10, 60))
        kind_round(brokers, tmp_path / "data", fault, moments.getrandbits(32), plan, must_die=True, promises=promises)
    assert promises.torn, "windows were torn"


def test_deep_queues_of_each_kind_lose_nothing_when_reads_fail(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    fault = Fault("read segment", 40, "EIO", for_ever=True)
    promises = kind_round(brokers, tmp_path / "data", fault, moments.getrandbits(32), BRIEF)
    assert promises.figures[3], "reads were refused"
    assert any(promises.paged.values())


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_deaths_of_all_kinds(brokers: MortalBrokers, tmp_path: Path, moments: random.Random) -> None:
    plan = kind_plan(*KINDS)
    census = kind_round(brokers, tmp_path / "census", Fault(), 7, plan)
    assert {name for name in KINDS if census.paged[name]} == set(ROWS)
    points = list(census.points)
    for directory in range(DIRECTORIES):
        promises = KindPromises()
        for number in range(DEATHS):
            names = moments.sample(list(KINDS), 5)
            plan = kind_plan(*names, bursts=3 if not number else 1)
            fault = Fault(moments.choice(points), moments.randint(1, 40)) if moments.random() < 0.8 else Fault()
            seed = moments.getrandbits(32)
            print(f"directory {directory} {names} {fault.point} {fault.occurrence} seed {seed}")
            kind_round(brokers, tmp_path / str(directory), fault, seed, plan, promises=promises)
        assert promises.counted["killed"]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_every_marked_point_of_all_kinds(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    points = kind_round(brokers, tmp_path / "census", Fault(), 7, BRIEF).points
    for fault, seed, folder in faults_at(brokers, points, kind, 40, moments, tmp_path, for_ever=for_ever):
        kind_round(brokers, folder, fault, seed, BRIEF)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_recoveries_of_all_kinds(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    death = Fault("sync segment", 300, KILL)
    points = kind_round(brokers, tmp_path / "census", death, 7, BRIEF, restart=Fault()).points
    for fault, seed, folder in faults_at(brokers, points, kind, 6, moments, tmp_path, for_ever=for_ever):
        kind_round(brokers, folder, death, seed, BRIEF, restart=fault)
