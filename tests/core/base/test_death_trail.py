from __future__ import annotations

import pytest

from annulet.core.base.death_trail import (
    DELIVERY_LIMIT,
    EXPIRED,
    MAXIMUM_LENGTH,
    RECORDS_MAX,
    REJECTED,
    REPLACED_KEY,
    REPLACED_RING,
    DeathRecord,
    is_cycle,
    with_death,
)


def trail(*deaths: tuple[str, str]) -> list[DeathRecord]:
    """A trail, latest first."""
    return [DeathRecord(queue=queue, reason=reason) for queue, reason in deaths]


def names(deaths: list[DeathRecord]) -> list[tuple[str, str, int]]:
    return [(record.queue, record.reason, record.count) for record in deaths]


def test_a_first_death_starts_the_trail() -> None:
    assert names(with_death([], DeathRecord(queue="q", reason=EXPIRED))) == [("q", EXPIRED, 1)]


def test_a_known_queue_and_reason_counts_up_moves_to_the_front_and_keeps_its_first_time() -> None:
    before = [
        DeathRecord(queue="p", reason=EXPIRED),
        DeathRecord(
            queue="q", reason=EXPIRED, at=5, exchange="e", routing_keys=("k",), count=4, original_expiration="9"
        ),
        DeathRecord(queue="q", reason=REJECTED),
    ]
    after = with_death(before, DeathRecord(queue="q", reason=EXPIRED, at=100, exchange="other"))
    assert names(after) == [("q", EXPIRED, 5), ("p", EXPIRED, 1), ("q", REJECTED, 1)]
    latest = after[0]
    assert (latest.at, latest.exchange, latest.routing_keys, latest.original_expiration) == (5, "e", ("k",), "9")
    assert before[1].count == 4


def test_the_trail_is_bounded_and_the_oldest_fall_out() -> None:
    deaths: list[DeathRecord] = []
    for number in range(RECORDS_MAX + 3):
        deaths = with_death(deaths, DeathRecord(queue=f"q{number}", reason=EXPIRED))
    assert len(deaths) == RECORDS_MAX
    assert (deaths[0].queue, deaths[-1].queue) == (f"q{RECORDS_MAX + 2}", "q3")
    assert len(with_death(deaths, DeathRecord(queue="q3", reason=EXPIRED))) == RECORDS_MAX


@pytest.mark.parametrize("reason", [EXPIRED, MAXIMUM_LENGTH, DELIVERY_LIMIT, REPLACED_RING, REPLACED_KEY])
def test_back_to_where_it_died_by_itself_is_a_cycle(reason: str) -> None:
    assert is_cycle(trail(("q", reason)), "q")
    assert is_cycle(trail(("p", EXPIRED), ("q", reason)), "q")
    assert not is_cycle(trail(("p", EXPIRED), ("q", reason)), "r")


def test_a_rejection_anywhere_in_the_cycle_makes_it_somebodys_will() -> None:
    assert not is_cycle(trail(("q", REJECTED)), "q")
    assert not is_cycle(trail(("p", EXPIRED), ("q", REJECTED)), "q")
    assert not is_cycle(trail(("p", REJECTED), ("q", EXPIRED)), "q")


def test_a_rejection_before_the_cycle_does_not_help() -> None:
    assert is_cycle(trail(("p", EXPIRED), ("q", EXPIRED), ("r", REJECTED)), "q")


def test_a_reason_nobody_knows_was_put_there_by_a_client() -> None:
    assert not is_cycle(trail(("p", ""), ("q", EXPIRED)), "q")


def test_nothing_died_nothing_cycles() -> None:
    assert not is_cycle([], "q")


def test_a_full_trail_without_rejection_is_a_cycle_longer_than_the_trail() -> None:
    full = trail(*((f"q{number}", EXPIRED) for number in range(RECORDS_MAX)))
    assert is_cycle(full, "elsewhere")
    assert not is_cycle(full[:-1], "elsewhere")
    assert not is_cycle([*full[:-1], *trail(("r", REJECTED))], "elsewhere")
