"""Recorded traffic under other settings: figures that can be worked out by hand, and books that always balance."""

from __future__ import annotations

import random

import pytest

from annulet.spark.what_if.settings import Condition, Setting, Value, setting_of
from annulet.spark.what_if.simulation import DEPTH_POINTS, Result, simulate
from annulet.spark.what_if.traffic import Arrival

BURST = [Arrival(at=1000, size=10, priority=number % 2) for number in range(10)]


def run(arrivals: list[Arrival], **values: Value) -> Result:
    return simulate(setting_of({name.replace("_", "-"): value for name, value in values.items()}), arrivals)


def test_nothing_recorded_is_nothing_lost() -> None:
    assert simulate(Setting(), []) == Result()


def test_one_consumer_works_through_a_burst() -> None:
    result = run(BURST, rate=10)

    assert (result.published, result.delivered, result.losses, result.depth_max) == (10, 10, {}, 9)
    assert (result.dwell["p50"], result.dwell["max"], result.busy) == (400.0, 900.0, 1.0)


def test_recorded_consumers_take_the_times_that_were_recorded() -> None:
    setting = Setting(work=(100.0, 200.0, 300.0))
    result = simulate(setting, [Arrival(at=1000) for _ in range(301)])

    assert (result.delivered, result.busy) == (301, 1.0)
    assert result.dwell["max"] == pytest.approx(300 * 200, rel=0.01)  # the times are drawn evenly
    assert result == simulate(setting, [Arrival(at=1000) for _ in range(301)])


def test_prefetch_counts_as_delivered_and_more_consumers_work_side_by_side() -> None:
    assert run(BURST, rate=10, prefetch=10).dwell["max"] == 0.0
    assert run(BURST, rate=10, consumers=5).dwell["max"] == 100.0


def test_a_ring_loses_what_waits_beyond_its_size() -> None:
    result = run(BURST, rate=10, ring_size=4)

    assert (result.delivered, result.losses, result.loss, result.depth_max) == (5, {"replaced-ring": 5}, 0.5, 4)


def test_without_consumers_what_waits_is_what_the_queue_keeps() -> None:
    result = run(BURST, consumers=0, ring_size=4)

    assert (result.delivered, result.waiting, result.losses, result.busy) == (0, 4, {"replaced-ring": 6}, 0.0)
    assert run([*BURST, Arrival(at=9000)], consumers=0).waiting == 11


def test_priority_spares_the_important_and_the_others_wait() -> None:
    result = run(BURST, rate=10, max_priority=10, ring_size=5)

    low, high = result.priorities
    assert (low.priority, low.published, low.delivered, low.lost) == (0, 5, 1, 4)
    assert (high.priority, high.delivered, high.lost, high.longest_wait) == (1, 5, 0, 500)


def test_what_is_refused_is_lost_and_what_is_held_back_waits() -> None:
    refused = run(BURST, rate=10, max_length=4, overflow="reject")
    blocked = run(BURST, rate=10, max_length=4, overflow="block")

    assert (refused.delivered, refused.losses) == (5, {"refused": 5})
    assert (blocked.delivered, blocked.losses, blocked.dwell["max"]) == (10, {}, 900.0)
    assert blocked.held_back > 0


def test_expiry_happens_at_its_time() -> None:
    expiring = [Arrival(at=0, expires_at=250) for _ in range(5)]

    result = run(expiring, rate=10)
    assert (result.delivered, result.losses, result.priorities[0].longest_wait) == (3, {"expired": 2}, 250)
    assert run(BURST, rate=10, message_ttl=250).losses == {"expired": 7}


def test_the_newest_of_a_key_is_kept() -> None:
    arrivals = [Arrival(at=number, properties={"sensor": str(number % 3)}) for number in range(31)]

    result = run(arrivals, rate=1, last_value_key="sensor")

    assert (result.delivered, result.losses) == (4, {"replaced-key": 27})


def test_faster_than_a_millisecond_is_possible() -> None:
    result = run([Arrival(at=0) for _ in range(1000)], rate=10_000)

    assert (result.dwell["max"], result.delivered) == (99.0, 1000)


def test_depth_has_a_bounded_number_of_points() -> None:
    result = run([Arrival(at=number * 7) for number in range(5000)], rate=20)

    assert DEPTH_POINTS // 2 < len(result.depth) <= DEPTH_POINTS + 2
    assert [at for at, _ in result.depth] == sorted(at for at, _ in result.depth)


@pytest.mark.parametrize("seed", range(8))
def test_every_message_is_accounted_for(seed: int) -> None:
    chance = random.Random(seed)
    at = 0
    arrivals = []
    for _ in range(400):
        at += chance.choice((0, 0, 1, 5, 200))
        arrivals.append(
            Arrival(
                at=at,
                size=chance.randrange(100),
                priority=chance.randrange(10),
                expires_at=chance.choice((0, at + 300)),
                group_id=chance.choice(("", "a", "b")),
                properties={"k": str(chance.randrange(5))},
            )
        )
    settings: list[dict[str, Value]] = [
        {"ring-size": 5}, {"last-value-key": "k", "keep-per-key": 2}, {"max-bytes": 300, "overflow": "reject"},
        {"max-length": 7, "overflow": "block"}, {"max-priority": 10, "max-length": 9}, {"group-mode": "sticky"},
        {"message-ttl": 100, "ring-size": 50},
    ]  # fmt: skip
    for values in settings:
        result = simulate(setting_of({**values, "consumers": 3, "rate": 30.0, "prefetch": 2}), arrivals)
        books = (result.delivered, result.losses, result.waiting)
        assert result.delivered + sum(result.losses.values()) + result.waiting == 400, (values, books)
        assert sum(row.published for row in result.priorities) == 400
        assert sum(row.delivered for row in result.priorities) == result.delivered
        assert sum(row.lost for row in result.priorities) == sum(result.losses.values())


def test_where_nothing_was_delivered_no_goal_of_dwell_is_met() -> None:
    lost = Result(published=1, losses={"ring": 1})
    assert not Condition("dwell-p99", 1e12, strict=False).met(lost.metric("dwell-p99"))
    assert Condition("dwell-p99", 1, strict=False).met(Result(published=1, dwell={"p99": 1.0}).metric("dwell-p99"))
