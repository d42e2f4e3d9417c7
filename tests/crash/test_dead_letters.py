"""Death and refusal at marked points of a broker whose messages leave their queues for others: dead letters by refusal,
by deliveries, by limits and rings, expiry, and what operators move, copy, retry, expire and delete.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.letter_clients import LETTER_ROUND
from tests.crash.letter_promises import DEATHS, DeepLetterPromises, LetterPromises
from tests.crash.test_marked_points import MortalBrokers, faults_at, kinds, round_of
from tests.crash.volatile_files import Fault

STEPS = 2 * len(LETTER_ROUND)
MOVES = ("refuse", "shift", "retry", "shift", "retry", "shift")
MOVED_AT = (6, 9, 10, 11, 12, 13)
"""Windows of which most hold a move: a refusal has two, and what declares and opens has three."""

FLOODED = ("flood", "expire", "expire")
FLOODED_AT = (4, 5, 6)
"""Windows around those in which copies are sent; how many there are depends on the disk."""

DIRECTORIES = 6
DEATHS_EACH = 10
"""More lives of one directory would bring more losses than the ledger keeps."""
TWIN = (("sync segment", 40), ("write segment", 25), ("history write", 12))
"""Points that matter most, and at which occurrence: late in a round."""


def letter_round(
    brokers: MortalBrokers, data: Path, fault: Fault, seed: int, *, steps: int = STEPS, must_die: bool = False,
    promises: LetterPromises | None = None, restart: Fault | None = None, plan: tuple[str, ...] = LETTER_ROUND,
) -> LetterPromises:  # fmt: skip
    """Let a broker live and meet the fault; hold the one that follows to what was promised."""
    promises = promises or LetterPromises()
    round_of(brokers, data, fault, seed, steps, plan=plan, must_die=must_die, promises=promises, restart=restart)
    return promises


@pytest.mark.parametrize("promises", [LetterPromises, DeepLetterPromises], ids=["shallow", "deep"])
def test_a_round_without_faults_moves_all_there_is_to_move(
    brokers: MortalBrokers, tmp_path: Path, promises: type[LetterPromises]
) -> None:
    """What the rounds with faults rely on."""
    found = letter_round(brokers, tmp_path / "data", Fault(), 7, steps=len(LETTER_ROUND), promises=promises())
    assert found.refused == []
    assert all(found.promised[f"die {name}"] for name in DEATHS), found.promised
    assert all(found.promised[each] for each in ("die together refused", "copy refused", "move refused", "move dead"))
    assert set(found.operated) == {"move", "copy", "retry", "dead-letter", "expire", "delete"}
    assert found.figures[0] > 0 or promises is LetterPromises, "rows were made"
    assert not found.figures[3]


@pytest.mark.parametrize(("point", "occurrence"), TWIN, ids=[point.replace(" ", "-") for point, _ in TWIN])
def test_each_message_is_where_it_may_be_after_death_at(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, point: str, occurrence: int
) -> None:
    fault, steps = Fault(point, occurrence), len(LETTER_ROUND)
    letter_round(brokers, tmp_path / "data", fault, moments.getrandbits(32), steps=steps, must_die=True)


def test_what_is_moved_in_one_commit_is_in_one_place(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    promises = LetterPromises()
    for occurrence in MOVED_AT:
        fault, seed = Fault("sync segment", occurrence), moments.getrandbits(32)
        letter_round(brokers, tmp_path / "data", fault, seed, steps=12, promises=promises, plan=MOVES, must_die=True)
    assert promises.promised["move refused"]
    assert promises.promised["move dead"]


def test_nothing_is_lost_where_the_disk_has_no_room_for_copies(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random
) -> None:
    fault, steps = Fault("create spare", 3, "ENOSPC", for_ever=True), len(LETTER_ROUND)
    promises = letter_round(brokers, tmp_path / "data", fault, moments.getrandbits(32), steps=steps)
    assert any("copies were not made" in why for _, why in promises.refused)


@pytest.mark.parametrize("occurrence", FLOODED_AT)
def test_what_waits_to_be_sent_on_is_not_lost(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, occurrence: int
) -> None:
    """Copies of more than are sent at once are in several windows, losses with them."""
    fault, seed = Fault("window written", occurrence), moments.getrandbits(32)
    letter_round(brokers, tmp_path / "data", fault, seed, steps=2 * len(FLOODED), plan=FLOODED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind_of_queues", [LetterPromises, DeepLetterPromises], ids=["shallow", "deep"])
def test_many_deaths(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind_of_queues: type[LetterPromises]
) -> None:
    points = list(letter_round(brokers, tmp_path / "census", Fault(), 7, promises=kind_of_queues()).points)
    for directory in range(DIRECTORIES):
        promises = kind_of_queues()
        for _ in range(DEATHS_EACH):
            fault, seed = Fault(moments.choice(points), moments.randint(1, 60)), moments.getrandbits(32)
            print(f"{fault.point} {fault.occurrence} seed {seed}")
            letter_round(brokers, tmp_path / str(directory), fault, seed, promises=promises)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind_of_queues", [LetterPromises, DeepLetterPromises], ids=["shallow", "deep"])
@kinds
def test_every_marked_point(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool,
    kind_of_queues: type[LetterPromises],
) -> None:  # fmt: skip
    points = letter_round(brokers, tmp_path / "census", Fault(), 7, promises=kind_of_queues()).points
    for fault, seed, folder in faults_at(brokers, points, kind, 40, moments, tmp_path, for_ever=for_ever):
        letter_round(brokers, folder, fault, seed, promises=kind_of_queues())


@pytest.mark.soak
@pytest.mark.timeout(3600)
@kinds
def test_every_marked_point_of_a_recovery(
    brokers: MortalBrokers, tmp_path: Path, moments: random.Random, kind: str, for_ever: bool
) -> None:
    death = Fault("sync segment", 60)
    points = letter_round(brokers, tmp_path / "census", death, 7, restart=Fault()).points
    for fault, seed, folder in faults_at(brokers, points, kind, 6, moments, tmp_path, for_ever=for_ever):
        letter_round(brokers, folder, death, seed, restart=fault)
