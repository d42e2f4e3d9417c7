"""Resident set ten times a second, and depth, rates and stalls of the event loop once a second."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.deep.site import Site

MEMORY_SECONDS: Final = 0.1
METRICS_EVERY: Final = 10
DRIFT: Final = "accounting_drift"
FOUND_BY_TICK: Final = "paging_messages_found_by_tick_total"
RECOUNTS: Final = "accounting_recounts_total"
LARGEST_RECOUNT: Final = "accounting_recounted_messages_most"
STALL_PREFIX: Final = 'event_loop_stall_seconds_bucket{le="'
HELD_PREFIX: Final = 'event_loop_held_seconds_bucket{le="'
"""Without waits for a processor that others had: on two cores the load and its clients keep these busy too."""


@dataclasses.dataclass
class Sample:
    """One look. ``seconds`` since the run began; figures the broker did not tell are 0."""

    seconds: float
    suite: str
    resident: int
    depth: int = 0
    on_disk: int = 0
    added: int = 0
    delivered: int = 0
    whole: bool = False  # the broker was asked, too


class Sampler(threading.Thread):
    """Looks at ``site`` until :meth:`end`; a broker that is being restarted is passed over."""

    def __init__(self, site: Site, suite: str, began: float) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.bodies_most = 0.0  # bytes, by the broker's own account
        self.beside_most = 0  # bytes, the resident set of what the broker has started
        self.accounts: dict[str, float] = {}  # the largest of each figure that says whether the account is right
        self._site = site
        self._suite = suite
        self._began = began
        self._ended = threading.Event()

    def run(self) -> None:
        """Sample."""
        looks = 0
        while not self._ended.wait(MEMORY_SECONDS):
            with contextlib.suppress(OSError, ValueError, IndexError):  # it is being restarted
                sample = Sample(time.monotonic() - self._began, self._suite, self._site.resident())
                self.samples.append(sample)
                if looks % METRICS_EVERY == 0:
                    self._ask(sample)
            looks += 1

    def _ask(self, sample: Sample) -> None:
        figures = self._site.metrics()
        sample.depth = int(figures['vhost_messages_pending{vhost="/"}'])
        sample.on_disk = int(figures['vhost_messages_on_disk{vhost="/"}'])
        sample.added = int(figures['vhost_messages_added{vhost="/"}'])
        sample.delivered = int(figures['vhost_messages_delivered{vhost="/"}'])
        sample.whole = True
        self.bodies_most = max(self.bodies_most, figures["memory_bodies_bytes"])
        self.note_accounts(figures)
        self.beside_most = max(self.beside_most, self._site.resident_beside())  # last: one of them may be gone by now

    def note_accounts(self, figures: dict[str, float]) -> None:
        """Keep the largest of what the broker says of its accounts; a restart sets the counters among it back."""
        for name, value in figures.items():
            if DRIFT in name or name in {FOUND_BY_TICK, RECOUNTS, LARGEST_RECOUNT}:
                self.accounts[name] = max(self.accounts.get(name, 0.0), abs(value))

    def highest_since(self, seconds: float) -> int:
        """Return the largest resident set since a moment, in bytes."""
        return max([sample.resident for sample in self.samples if sample.seconds >= seconds], default=0)

    def now(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self.join()


class Stalls:
    """Histogram of how late the broker's event loop was, between two moments or summed over several brokers."""

    def __init__(self, counts: dict[float, float] | None = None, longest: float = 0.0) -> None:
        self.counts = counts or {}  # looks at most so late (seconds), cumulative
        self.longest = longest  # seconds, since the broker's start; what the class without a bound is bounded by

    @classmethod
    def of(cls, metrics: dict[str, float], prefix: str = STALL_PREFIX) -> Stalls:
        """Read it from the broker's metrics."""
        return cls(
            {
                float(name.removeprefix(prefix).removesuffix('"}')): value
                for name, value in metrics.items()
                if name.startswith(prefix)
            },
            metrics.get("event_loop_stall_longest_seconds", 0.0),
        )

    def copy(self) -> Stalls:
        """Return one of the same."""
        return Stalls(dict(self.counts), self.longest)

    def since(self, before: Stalls) -> Stalls:
        """Return what came after ``before``."""
        counts = {bound: count - before.counts.get(bound, 0) for bound, count in self.counts.items()}
        return Stalls(counts, self.longest)

    def add(self, other: Stalls) -> None:
        """Add another broker's."""
        for bound, count in other.counts.items():
            self.counts[bound] = self.counts.get(bound, 0) + count
        self.longest = max(self.longest, other.longest)

    def over(self, seconds: float) -> int:
        """Return how many looks were later than one of the bounds."""
        return int(max(self.counts.values(), default=0) - self.counts.get(seconds, 0))

    def within(self, share: float) -> float:
        """Return the bound in milliseconds below which this share of looks lies; 1 is the class of the longest."""
        total = max(self.counts.values(), default=0)
        fitting = [bound for bound, count in self.counts.items() if count >= share * total]
        return min([*fitting, self.longest] if fitting == [math.inf] else fitting, default=0.0) * 1000
