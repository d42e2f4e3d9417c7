"""Writes metrics down in a thread without holding the event loop: it leaves the interpreter lock to it again and again.

A computing thread releases the interpreter lock only after 5 ms of a request for it, and the loop has to request it
after each system call. With a thousand queues with their own series a turn with ten such calls took 50 ms.
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
"""Long enough for a waiting thread to get the lock: a pause of zero would take it back at once."""


def in_parts(items: Iterable[T], part: int = PART) -> Iterator[T]:
    """Yield them, with a pause after each ``part``."""
    for number, item in enumerate(items, 1):
        yield item
        if number % part == 0:
            time.sleep(PAUSE_SECONDS)


class _SamplesInParts(list[Any]):
    """The samples of a family, read with pauses."""

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
    """Return the text format of a collector's families. For a thread."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_InParts(collector))
    return generate_latest(registry)
