from __future__ import annotations

import math
from array import array

from annulet.broker.operation.charts.rings import FILLED_MAX, Ring, Shape

SHAPE = Shape(step=1000, length=10, counters=1, gauges=1)


def note(ring: Ring, second: float, counter: int, gauge: float = 0) -> None:
    ring.note(int(second * 1000), array("q", [counter]), [gauge])


def shown(ring: Ring) -> list[tuple[int, float | None, float | None]]:
    """Return second, rate and gauge of each step; ``None`` for what is not a number."""
    return [(at // 1000, *(None if math.isnan(value) else value for value in values)) for at, values in ring.steps()]


def test_rates_are_since_the_sample_before() -> None:
    ring = Ring(SHAPE)
    assert shown(ring) == []
    note(ring, 100, 50, 7)
    assert shown(ring) == [(100, None, 7)]
    note(ring, 101.5, 53, 8)
    assert shown(ring) == [(100, None, 7), (101, 2, 8)]
    note(ring, 102, 53, 9)
    assert shown(ring)[-1] == (102, 0, 9)


def test_a_step_is_due_once() -> None:
    ring = Ring(SHAPE)
    assert ring.is_due(100_000)
    note(ring, 100, 0)
    assert not ring.is_due(100_999)
    assert ring.is_due(101_000)


def test_the_oldest_step_makes_room() -> None:
    ring = Ring(SHAPE)
    for second in range(100, 125):
        note(ring, second, 2 * second, second)
    assert shown(ring) == [(second, 2, second) for second in range(115, 125)]


def test_steps_that_a_long_round_left_out_have_the_rates_of_the_whole_time() -> None:
    ring = Ring(SHAPE)
    note(ring, 100, 0, 1)
    note(ring, 100 + FILLED_MAX, 3 * FILLED_MAX, 5)
    assert shown(ring) == [(100, None, 1)] + [(100 + each, 3, 5) for each in range(1, FILLED_MAX + 1)]


def test_a_longer_gap_is_none() -> None:
    ring = Ring(SHAPE)
    note(ring, 100, 0, 1)
    note(ring, 101 + FILLED_MAX, 14, 5)
    gap = [(100 + each, None, None) for each in range(1, FILLED_MAX + 1)]
    assert shown(ring) == [(100, None, 1), *gap, (101 + FILLED_MAX, 2, 5)]


def test_nothing_old_is_left_behind_a_gap_longer_than_the_ring() -> None:
    ring = Ring(SHAPE)
    for second in range(100, 110):
        note(ring, second, 0, 1)
    note(ring, 1000, 0, 2)
    assert shown(ring) == [(1000, 0, 2)]


def test_nothing_is_to_come_when_the_clock_went_back() -> None:
    ring = Ring(SHAPE)
    for second in range(100, 110):
        note(ring, second, 0, 1)
    note(ring, 95, 0, 2)
    assert shown(ring) == [(95, None, 2)]
    note(ring, 96, 4, 3)
    assert shown(ring) == [(95, None, 2), (96, 4, 3)]


def test_counters_that_began_anew_have_no_rate() -> None:
    ring = Ring(SHAPE)
    note(ring, 100, 50)
    note(ring, 101, 10)
    note(ring, 102, 11)
    assert shown(ring) == [(100, None, 0), (101, None, 0), (102, 1, 0)]


def test_a_gauge_that_is_not_known_is_none() -> None:
    ring = Ring(SHAPE)
    note(ring, 100, 0, 1)
    note(ring, 101, 0, math.nan)
    assert shown(ring) == [(100, None, 1), (101, 0, None)]
