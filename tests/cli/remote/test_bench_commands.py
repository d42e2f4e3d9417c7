from __future__ import annotations

from typing import Any

import pytest

from annulet.cli.remote.bench_commands import STAMP, Pace, Received, measure, percentile
from annulet.cli.remote.failures import EXIT_USAGE


@pytest.mark.parametrize("protocol", ["amqp", "amqp10", "stomp"])
def test_a_load_is_measured_verified_and_leaves_nothing(annulet: Any, protocol: str) -> None:
    result = annulet.json("bench", "--protocol", protocol, "-n", "500", "--size", "64", "-a", "x-max-length=100000")
    assert (result["messages"], result["lost"], result["duplicates"], result["out_of_order"]) == (500, 0, 0, 0)
    assert result["published_per_second"] > 0
    assert result["latency_milliseconds"].keys() == {"p50", "p95", "p99", "p99.9", "max"}
    assert annulet.json("queues", "--name", "annulet.bench") == []


def test_a_rate_is_kept(annulet: Any) -> None:
    assert annulet.json("bench", "-n", "100", "--rate", "200", "--transient")["published_per_second"] <= 220


def test_what_a_ring_drops_is_lost_and_out_of_bounds_is_refused(annulet: Any) -> None:
    annulet.refused(EXIT_USAGE, "bench", "--size", "5")


class Losing:
    """A load of which some is lost, comes twice and in another order."""

    def publish(self, _queue: str, count: int, body_of: Any, _pace: Pace) -> None:
        self.bodies = [body_of(number) for number in range(count)]

    def consume(self, _queue: str, _count: int, received: Received) -> None:
        for number in (0, 2, 1, 2):
            received.note(STAMP.pack(number, 0))


def test_loss_order_and_duplicates_are_counted() -> None:
    found = measure(Losing(), "q", 4, 16, 0)
    assert (found["lost"], found["duplicates"], found["out_of_order"]) == (1, 1, 1)


@pytest.mark.parametrize(("share", "value"), [(50.0, 50), (99.0, 99), (99.9, 100), (100.0, 100), (1.0, 1)])
def test_percentiles(share: float, value: int) -> None:
    assert percentile(list(range(1, 101)), share) == value
    assert percentile([], share) == 0
