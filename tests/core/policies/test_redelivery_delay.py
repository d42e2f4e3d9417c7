from __future__ import annotations

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.settings import QueueSettings
from annulet.core.policies.redelivery_delay import DELAY_MAX, redelivery_delay, redelivery_spread


def delays(settings: QueueSettings, count: int, spread: float = 0.0) -> list[int]:
    return [redelivery_delay(settings, number, spread) for number in range(1, count + 1)]


def test_artemis_example_base_5000_doubled_up_to_15000() -> None:
    settings = QueueSettings(redelivery_delay=5000, redelivery_multiplier=2.0, max_redelivery_delay=15_000)
    assert delays(settings, 5) == [5000, 10_000, 15_000, 15_000, 15_000]


def test_off_by_default() -> None:
    assert delays(QueueSettings(), 3) == [0, 0, 0]


def test_without_multiplier_every_delay_is_the_same() -> None:
    assert delays(QueueSettings(redelivery_delay=700), 3) == [700, 700, 700]


def test_default_cap_is_ten_times_the_base() -> None:
    assert delays(QueueSettings(redelivery_delay=100, redelivery_multiplier=3.0), 5) == [100, 300, 900, 1000, 1000]


def test_a_cap_below_the_base_wins() -> None:
    assert delays(QueueSettings(redelivery_delay=1000, max_redelivery_delay=400), 2) == [400, 400]


def test_a_multiplier_below_one_shrinks_the_delay() -> None:
    assert delays(QueueSettings(redelivery_delay=1000, redelivery_multiplier=0.5), 4) == [1000, 500, 250, 125]


def test_jitter_moves_both_ways_by_its_share() -> None:
    settings = QueueSettings(redelivery_delay=1000, redelivery_jitter=0.2)
    assert [redelivery_delay(settings, 1, spread) for spread in (-1.0, -0.5, 0.0, 0.5, 1.0)] == [
        800, 900, 1000, 1100, 1200,
    ]  # fmt: skip


def test_jitter_does_not_lift_the_delay_above_the_cap() -> None:
    settings = QueueSettings(redelivery_delay=1000, redelivery_jitter=1.0, max_redelivery_delay=1500)
    assert [redelivery_delay(settings, 1, spread) for spread in (-1.0, 0.4, 1.0)] == [0, 1400, 1500]


@pytest.mark.parametrize("count", [0, -3])
def test_a_delivery_that_was_not_counted_waits_the_base(count: int) -> None:
    settings = QueueSettings(redelivery_delay=500, redelivery_multiplier=2.0)
    assert redelivery_delay(settings, count, 0.0) == 500


def test_attempts_without_end_stay_at_the_cap() -> None:
    settings = QueueSettings(redelivery_delay=1000, redelivery_multiplier=2.0)
    assert redelivery_delay(settings, 10**6, 1.0) == 10_000
    assert redelivery_delay(QueueSettings(redelivery_delay=1, max_redelivery_delay=2**62), 1, 0.0) == 1
    endless = QueueSettings(redelivery_delay=1, redelivery_multiplier=10.0, max_redelivery_delay=2**62)
    assert redelivery_delay(endless, 10**6, 0.0) == DELAY_MAX


@pytest.mark.parametrize("spread", [-1.01, 1.01, float("nan")])
def test_a_spread_outside_its_range_is_refused(spread: float) -> None:
    with pytest.raises(ValueError, match="allowed are -1 to 1"):
        redelivery_delay(QueueSettings(redelivery_delay=1), 1, spread)


@given(
    st.integers(0, 10**9), st.floats(0, 100), st.integers(-1, 10**12), st.floats(0, 1), st.integers(1, 5000),
    st.floats(-1, 1),
)  # fmt: skip
def test_no_setting_leads_outside_zero_and_cap(
    base: int, multiplier: float, cap: int, jitter: float, count: int, spread: float
) -> None:
    settings = QueueSettings(
        redelivery_delay=base, redelivery_multiplier=multiplier, max_redelivery_delay=cap, redelivery_jitter=jitter
    )
    delay = redelivery_delay(settings, count, spread)
    assert isinstance(delay, int)
    assert 0 <= delay <= (10 * base if cap < 0 else cap)


@pytest.mark.parametrize(("count", "jitter"), [(187, 0.0), (187, 0.5), (188, 0.5), (5000, 1.0)])
def test_a_delay_beyond_all_numbers_is_the_cap(count: int, jitter: float) -> None:
    """What the multiplier makes of it is infinite, or raises, by how often it came back."""
    settings = QueueSettings(
        redelivery_delay=6, redelivery_multiplier=45.0, max_redelivery_delay=1000, redelivery_jitter=jitter
    )
    assert redelivery_delay(settings, count, 0.0) == 1000


def test_the_spread_is_deterministic_even_and_in_range() -> None:
    spreads = [redelivery_spread("q", sequence, 1) for sequence in range(2000)]
    assert spreads == [redelivery_spread("q", sequence, 1) for sequence in range(2000)]
    assert all(-1.0 <= spread <= 1.0 for spread in spreads)
    assert abs(mean(spreads)) < 0.05
    assert len(set(spreads)) == 2000


@pytest.mark.parametrize("other", [("p", 7, 2), ("q", 8, 2), ("q", 7, 3)])
def test_queue_sequence_and_count_all_change_the_spread(other: tuple[str, int, int]) -> None:
    assert redelivery_spread(*other) != redelivery_spread("q", 7, 2)
