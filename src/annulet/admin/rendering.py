"""Writes metrics down in a thread without holding the event loop: it leaves the interpreter lock to it again and again.

A thread that computes gives the lock away when it is asked for it for 5 ms, and the loop has to ask after each call of
the system. Where a thousand queues have series of their own a turn with ten such calls took 50 ms.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

PART: Final = 64
"""Samples made or written between two pauses: a quarter of a millisecond."""

PAUSE_SECONDS: Final = 50e-6
"""Long enough that a thread that waits for the lock gets it: asking for no time at all takes it right back."""


def in_parts(items: Iterable[T]) -> Iterator[T]:
    """Yield them, with a pause after each :data:`PART`."""
    for number, item in enumerate(items, 1):
        yield item
        if number % PART == 0:
            time.sleep(PAUSE_SECONDS)


class _SamplesInParts(list[Any]):
    """What a family has, read with pauses."""

    def __iter__(self) -> Iterator[Any]:
        return in_parts(super().__iter__())


class _InParts(Collector):
    """A collector whose families are read with pauses."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        for family in in_parts(self._collector.collect()):
            family.samples = _SamplesInParts(family.samples)
            yield family


def render(collector: Collector) -> bytes:
    """Return the text format of what a collector has. For a thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_InParts(collector))
    return generate_latest(registry)
