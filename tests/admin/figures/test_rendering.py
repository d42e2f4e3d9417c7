"""Metrics are written down in parts, with pauses between them, and as prometheus_client writes them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from annulet.admin.figures.rendering import PART, in_parts, render


class Families(Collector):
    """Some of this many samples each."""

    def __init__(self, *counts: int) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        for number, count in enumerate(self._counts):
            kind = CounterMetricFamily if number % 2 else GaugeMetricFamily
            family = kind(f"family_{number}", "Some", labels=["n"])
            for label in range(count):
                family.add_metric([str(label)], label)
            yield family


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def test_it_is_what_the_library_writes() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(0, 1, 3 * PART, PART - 1))
    text = render(Families(0, 1, 3 * PART, PART - 1))
    assert text == generate_latest(registry)
    assert text.count(b"\n") == 4 * 2 + 1 + 4 * PART - 1


@pytest.mark.parametrize(("samples", "expected"), [(PART - 1, 0), (PART, 1), (10 * PART + 1, 10)])
def test_a_large_family_is_written_with_pauses(pauses: list[float], samples: int, expected: int) -> None:
    render(Families(samples))
    assert len(pauses) == expected


def test_what_is_read_in_parts_is_whole(pauses: list[float]) -> None:
    assert list(in_parts(range(2 * PART))) == [*range(2 * PART)]
    assert len(pauses) == 2
    assert min(pauses) > 0
