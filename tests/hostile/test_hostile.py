"""Damaged sessions of real clients beside clients that do nothing wrong: nothing is lost, doubled, kept or logged.

``make test`` sends a few hundred inputs, ``make soak SOAK=hostile`` fifty thousand and lets honest clients come and go
for an hour. ``ANNULET_TEST_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.hostile.delays import Delays
from tests.hostile.mutations import ENDINGS, MUTATIONS, Script, script
from tests.hostile.neighbour import Neighbour, PikaNeighbour
from tests.hostile.recording import DOORS, SECURED_DOORS, Session
from tests.hostile.run import GROWTH_MAX, STALL_SECONDS_MAX, Report, assail, live_honestly
from tests.hostile.site import Progress, site_in

INPUTS = 400
WARM_UP_INPUTS = 200
SOAK_INPUTS = 50_000
HONEST_SECONDS = 3600.0

SMALL_GROWTH_MAX_BYTES = 48 * 1024 * 1024
"""Of a short run, in which the heap has not found its working size: 27 MiB, most of them of bulk transfer, and 25 more
in the next 10,000 inputs, while the loss ledger fills."""


def seed_of_run() -> int:
    """Return the seed, which is printed so that a failure can be repeated."""
    seed = int(os.environ.get("ANNULET_TEST_SEED", random.randrange(2**31)))
    print(f"ANNULET_TEST_SEED={seed}")
    return seed


def check(report: Report) -> None:
    print("\n".join(report.lines()))
    assert report.faults == []
    assert report.descriptors_last <= report.descriptors_first + 4


def test_neighbours_of_hostile_peers_notice_nothing(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        report = assail(site, seed_of_run(), INPUTS, warm_up=WARM_UP_INPUTS, fill=False)
    check(report)
    assert report.outcomes.total() == INPUTS + WARM_UP_INPUTS
    assert report.last - report.first < SMALL_GROWTH_MAX_BYTES
    assert max(report.stalls.values()) < STALL_SECONDS_MAX
    assert 0 < report.progress_first.losses <= report.progress_last.losses


@pytest.mark.soak
def test_fifty_thousand_hostile_inputs(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        report = assail(site, seed_of_run(), SOAK_INPUTS)
    check(report)
    assert report.growth < GROWTH_MAX
    assert max(report.stalls.values()) < STALL_SECONDS_MAX


@pytest.mark.soak
@pytest.mark.timeout(HONEST_SECONDS * 2)
def test_an_hour_of_honest_clients_leaves_the_first_size(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        report = live_honestly(site, HONEST_SECONDS)
    check(report)
    assert report.growth < GROWTH_MAX


# ---------------------------------------------------------------------- the harness itself

SESSIONS = [
    Session("one", "amqp", (b"AMQP\0\0\x09\x01", b"first piece", b"second piece")),
    Session("two", "stomp", (b"CONNECT\n\n\0", b"SEND\ndestination:/queue/a\n\nbody\0")),
]


def test_a_ledger_is_full_once_a_loss_takes_the_place_of_another() -> None:
    assert not Progress(losses=10_000, forgotten=0, indexes=1).full
    assert Progress(losses=10_000, forgotten=1, indexes=0).full


def test_a_broker_is_settled_once_its_log_has_an_index_too() -> None:
    assert not Progress(losses=10_000, forgotten=0, indexes=1).settled
    assert not Progress(losses=10_000, forgotten=1, indexes=0).settled
    assert Progress(losses=10_000, forgotten=1, indexes=1).settled


def test_a_seed_gives_the_same_script_again() -> None:
    assert [script(seed, SESSIONS) for seed in range(200)] == [script(seed, SESSIONS) for seed in range(200)]


def test_every_mutation_and_ending_comes_up() -> None:
    scripts = [script(seed, SESSIONS) for seed in range(4000)]
    assert {one.name.split()[2] for one in scripts} == {mutation.__name__ for mutation in MUTATIONS}
    assert {one.ending for one in scripts} == set(ENDINGS)
    assert {one.door for one in scripts} == {*DOORS, *SECURED_DOORS}
    assert {one.door for one in scripts if one.tls} == set(SECURED_DOORS)


@pytest.mark.parametrize(
    "mutation", [one for one in MUTATIONS if one.__name__ != "unchanged"], ids=lambda one: one.__name__
)
def test_a_mutation_changes_what_is_sent(mutation: object) -> None:
    assert callable(mutation)
    changed = [mutation(random.Random(seed), SESSIONS[0]) != list(SESSIONS[0].pieces) for seed in range(20)]
    assert sum(changed) >= 10


def test_scripts_send_no_empty_piece() -> None:
    for seed in range(200):
        one = script(seed, SESSIONS)
        assert isinstance(one, Script)
        assert all(one.pieces)


class Waiting(Neighbour):
    """A neighbour that is told what it waited for."""

    def __init__(self, delays: Delays) -> None:
        super().__init__(None, delays)  # type: ignore[arg-type]


def test_what_a_slow_machine_adds_to_a_wait_is_no_stall(tmp_path: Path) -> None:
    delays = Delays(os.getpid(), tmp_path)
    neighbour, now = Waiting(delays), time.monotonic()
    delays.note(now - 0.5, 1.0)
    neighbour.waited(now - 3.0)
    assert neighbour.longest >= 3.0
    assert 1.9 < neighbour.stall < 2.9
    delays.note(now, 100.0)
    neighbour.waited(now - 20.0)
    assert neighbour.longest >= 20.0
    assert neighbour.stall < 2.9


def test_a_held_broker_is_found_beside_a_busy_machine(tmp_path: Path) -> None:
    """One that is stopped is not ready either, so it is no processor that it lacks."""
    seconds = 2 * STALL_SECONDS_MAX
    with site_in(tmp_path) as site, Delays(site.process.pid, tmp_path) as delays:
        with PikaNeighbour(site, delays) as neighbour:
            while not neighbour.published:
                time.sleep(0.01)
            os.kill(site.process.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(site.process.pid, signal.SIGCONT)
            time.sleep(0.5)
        neighbour.check()
        assert neighbour.longest > seconds - 0.5
        assert neighbour.stall > STALL_SECONDS_MAX
