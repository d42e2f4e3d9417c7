"""The history of every queue, virtual host and the broker: an hour in steps of 10 s, a day in steps of 5 minutes.

That is 43 KB for each object, so only the busiest queues have it: :data:`FINE_QUEUES_MAX`. Every queue has a coarse
history: an hour in steps of 5 minutes and a day in steps of 30, with losses of all reasons as one. A queue that has
become busier than one with a fine history takes its place; its own begins then.

Each round reads the counters of all queues, in slices of the broker's ticks. Nothing is written down: after a restart
the history is empty.
"""

from __future__ import annotations

import heapq
import time
from array import array
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.broker.operation.charts.rings import NAN, Ring, Shape
from annulet.broker.operation.rates import read_totals
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import is_reply_name
from annulet.core.queue.statistics import lag_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from annulet.broker.operation.rates import Sample
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

ROUND_MILLISECONDS: Final = 10_000
"""Between the starts of two rounds, and the finest step."""

SLICE_SECONDS: Final = 0.002
"""How long a tick of the broker reads queues; there are four ticks a second, which read rates of queues beside: 5 ms
together. 10,000 queues are a round of 10 s."""

HISTORY_QUEUES_MAX: Final = 10_000
"""Queues with a history, about 2.7 KB each; further ones have none, and a metric counts them."""

FINE_QUEUES_MAX: Final = 200
"""Queues with a fine history."""

HISTORY_HOSTS_MAX: Final = 100
"""Virtual hosts with a history, which is a fine one."""

HISTORY_BYTES_MAX: Final = 48 * 1024 * 1024
"""All of it at the bounds above."""

PROMOTED_MAX: Final = 20
"""Queues that get a fine history at the end of a period: the choice takes less than 1 ms."""

PROMOTION_ROUNDS: Final = 30
"""Rounds of a period, at whose end queues are compared: 5 minutes."""

PROMOTION_FACTOR: Final = 2
"""How many times busier than one with a fine history a queue has to be to take its place: with less, two queues would
take it from each other in turn."""

REASONS: Final = tuple(reason.value for reason in RemovalReason)
COUNTERS: Final = ("published", "delivered", *REASONS)
GAUGES: Final = ("messages", "bytes", "oldest_age")
COARSE_COUNTERS: Final = ("published", "delivered", "acknowledged", "lost")

HOUR, DAY = "hour", "day"
FINE: Final = {
    HOUR: Shape(10_000, 360, len(COUNTERS), len(GAUGES)),
    DAY: Shape(300_000, 288, len(COUNTERS), len(GAUGES)),
}
COARSE: Final = {
    HOUR: Shape(300_000, 12, len(COARSE_COUNTERS), len(GAUGES)),
    DAY: Shape(1_800_000, 48, len(COARSE_COUNTERS), len(GAUGES)),
}

Place = tuple[str, str]
"""Names of a virtual host and a queue."""


@dataclass(slots=True)
class Point:
    """One step of an answer; ``reasons`` only in a fine one."""

    at: int
    published: float
    delivered: float
    acknowledged: float
    lost: float
    messages: float
    bytes: float
    oldest_age: float
    reasons: Sequence[float] | None


def _point(at: int, values: Sequence[float], *, fine: bool) -> Point:
    messages, size, age = values[-len(GAUGES) :]
    published, delivered, acknowledged = values[:3]
    if not fine:
        return Point(at, published, delivered, acknowledged, values[3], messages, size, age, None)
    reasons = values[2 : len(COUNTERS)]
    return Point(at, published, delivered, acknowledged, sum(reasons[1:]), messages, size, age, reasons)


class Series:
    """The rings of one object by window."""

    __slots__ = ("_rings",)

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self._rings = tuple([Ring(shape) for shape in shapes.values()])

    def is_due(self, now: int) -> bool:
        """Return whether any ring needs a sample: that of the shortest steps, of which the others' steps are made."""
        return self._rings[0].is_due(now)

    def note(self, now: int, counters: Sample, gauges: Sequence[float]) -> None:
        """Put a sample into the rings that need one."""
        for ring in self._rings:
            if ring.is_due(now):
                ring.note(now, counters, gauges)

    def ring(self, window: str) -> Ring:
        """Return the ring of a window."""
        return self._rings[0 if window == HOUR else 1]


class Track:
    """The history of one queue."""

    __slots__ = ("activity", "bytes", "coarse", "counters", "fine", "messages", "place", "round")

    def __init__(self, place: Place, counters: Sample) -> None:
        self.place = place
        self.coarse = Series(COARSE)
        self.fine: Series | None = None
        self.counters = counters  # of the last round
        self.messages = self.bytes = -1  # of the last round that saw a change
        self.activity = 0  # messages added and delivered in this period
        self.round = 0  # the last one that saw the queue

    def has_news(self, queue: Queue, now: int) -> bool:
        """Return whether there is something to note, by the values that every change of a queue changes."""
        counters, before = queue.counters, self.counters
        return (
            self.fine is not None
            or counters.messages_added != before[0]
            or counters.messages_delivered != before[1]
            or queue.message_count() != self.messages
            or self.coarse.is_due(now)
        )

    def points(self, window: str) -> list[Point]:
        """Return the steps of a window: fine ones as far as there are, coarse ones before."""
        fine = [] if self.fine is None else [_point(*step, fine=True) for step in self.fine.ring(window).steps()]
        first = fine[0].at if fine else None
        coarse = [_point(*step, fine=False) for step in self.coarse.ring(window).steps()]
        return [point for point in coarse if first is None or point.at < first] + fine


class Sum:
    """The history of a virtual host or the broker: sums over queues. Counters go on when a queue is deleted."""

    def __init__(self) -> None:
        self.series = Series(FINE)
        self.counters = [0] * len(COUNTERS)
        self.rates = [0.0] * len(COUNTERS)  # changes a second in the last round
        self._before = [0] * len(COUNTERS)  # counters at the end of the round before
        self._ended = 0
        self.messages = 0
        self.bytes = 0
        self.age = 0.0

    def begin(self) -> None:
        """Begin a round."""
        self.messages = self.bytes = 0
        self.age = 0.0

    def add(self, messages: int, size: int, age: float) -> None:
        """Add the gauges of a queue, or of another sum."""
        self.messages += messages
        self.bytes += size
        self.age = max(self.age, age)

    def end(self, now: int) -> None:
        """End a round."""
        if 0 < self._ended < now:
            changes = zip(self.counters, self._before, strict=True)
            self.rates = [(after - before) * 1000 / (now - self._ended) for after, before in changes]
        self._ended, self._before = now, list(self.counters)
        self.series.note(now, array("q", self.counters), (self.messages, self.bytes, self.age))

    def points(self, window: str) -> list[Point]:
        """Return the steps of a window."""
        return [_point(*step, fine=True) for step in self.series.ring(window).steps()]


class FigureHistory:
    """The history of one broker. Belongs to the event loop."""

    def __init__(self) -> None:
        self.left_out = 0  # queues without a history in the last round, because of the bound
        self.fine = 0  # queues with a fine history
        self._tracks: dict[Place, Track] = {}
        self._hosts: dict[str, Sum] = {}
        self._others = Sum()  # of virtual hosts without a history
        self._broker = Sum()
        self._left: Iterator[tuple[str, str, Queue]] | None = None  # to be read in this round; None between rounds
        self._began = -ROUND_MILLISECONDS
        self._round = 0
        self._busiest: list[tuple[int, Place]] = []  # a heap of queues that may get a fine history at the period's end

    def __len__(self) -> int:
        return len(self._tracks)

    def tick(self, hosts: Mapping[str, VirtualHost], now: int) -> None:
        """Read some queues; called at each tick of the broker."""
        if self._left is None:
            if not 0 <= now - self._began < ROUND_MILLISECONDS:
                self._begin(hosts, now)
            return
        until = time.perf_counter() + SLICE_SECONDS
        for host, name, queue in self._left:
            if not is_reply_name(name) and host in hosts and hosts[host].queues.get(name) is queue:
                self._read((host, name), queue, now)
            if time.perf_counter() >= until:
                return
        self._end(now)

    def _begin(self, hosts: Mapping[str, VirtualHost], now: int) -> None:
        self._began = now - now % ROUND_MILLISECONDS
        self._round += 1
        listed, room = [], HISTORY_QUEUES_MAX
        for name, host in hosts.items():
            queues = list(islice(host.queues.items(), room + host.reply_queues))
            room = max(0, room + host.reply_queues - len(queues))
            listed.append((name, queues))
        total = sum(len(host.queues) - host.reply_queues for host in hosts.values())
        self.left_out = max(0, total - HISTORY_QUEUES_MAX)
        self._left = ((host, name, queue) for host, queues in listed for name, queue in queues)
        self._hosts = {name: self._hosts.get(name) or Sum() for name in islice(hosts, HISTORY_HOSTS_MAX)}
        for each in self._sums():
            each.begin()

    def _sums(self) -> tuple[Sum, ...]:
        return (*self._hosts.values(), self._others, self._broker)

    def _read(self, place: Place, queue: Queue, now: int) -> None:
        track = self._tracks.get(place)
        if track is not None and not track.has_news(queue, now):  # most of very many
            track.round = self._round
            self._hosts.get(place[0], self._others).add(track.messages, track.bytes, 0.0)
            if self._round % PROMOTION_ROUNDS == 0:
                self._compare(track)
            return
        counters, (messages, size) = read_totals(queue)
        if track is None:
            track = self._add(place, counters)
        track.round, track.messages, track.bytes = self._round, messages, size
        kept = self._hosts.get(place[0], self._others)
        if counters != track.counters:
            self._count(track, counters, kept.counters)
        fine, lag = track.fine, 0.0
        fine_due, coarse_due = fine is not None and fine.is_due(now), track.coarse.is_due(now)
        if fine_due or coarse_due:
            found = lag_of(queue, now) if messages else 0
            lag = NAN if found is None else found
        if fine_due and fine is not None:
            fine.note(now, counters, (messages, size, lag))
        if coarse_due:
            track.coarse.note(now, array("q", (*counters[:3], sum(counters[3:]))), (messages, size, lag))
        kept.add(messages, size, lag if fine_due else 0.0)  # of other queues in some rounds only
        if self._round % PROMOTION_ROUNDS == 0:
            self._compare(track)

    def _add(self, place: Place, counters: Sample) -> Track:
        # the counters of the first round are of the time before, those of a new queue are not
        before = counters if self._round == 1 else array("q", [0] * len(counters))
        track = self._tracks[place] = Track(place, before)
        if self.fine < FINE_QUEUES_MAX:
            self._refine(track)
        return track

    def _count(self, track: Track, counters: Sample, sums: list[int]) -> None:
        """Add the changes of a queue since the last round to the sums of its virtual host."""
        before = track.counters
        if counters[0] < before[0] or counters[1] < before[1]:  # another queue of the name
            before = array("q", [0] * len(counters))
        for place, after in enumerate(counters):
            if after != before[place]:
                sums[place] += max(0, after - before[place])
        track.activity += counters[0] - before[0] + counters[1] - before[1]
        track.counters = counters

    # ------------------------------------------------------------------ choice of fine histories

    def _refine(self, track: Track) -> None:
        track.fine = Series(FINE)
        self.fine += 1

    def _coarsen(self, track: Track) -> None:
        if track.fine is not None:
            track.fine = None
            self.fine -= 1

    def _compare(self, track: Track) -> None:
        """Note a busy queue with a coarse history."""
        if track.fine is None and track.activity:
            heapq.heappush(self._busiest, (track.activity, track.place))
            if len(self._busiest) > PROMOTED_MAX:
                heapq.heappop(self._busiest)
            track.activity = 0

    def _promote(self) -> None:
        """Give the fine histories of the least busy queues to those that are much busier."""
        fine = sorted([track for track in self._tracks.values() if track.fine is not None], key=_activity)
        places = iter(fine)
        for activity, place in sorted(self._busiest, reverse=True):
            if self.fine >= FINE_QUEUES_MAX:
                least = next(places, None)
                if least is None or activity <= PROMOTION_FACTOR * least.activity:
                    break
                self._coarsen(least)
            self._refine(self._tracks[place])
        self._busiest = []
        for track in fine:
            track.activity = 0

    def _end(self, now: int) -> None:
        self._left = None
        for track in [track for track in self._tracks.values() if track.round != self._round]:
            self._coarsen(track)
            del self._tracks[track.place]
        if self._round % PROMOTION_ROUNDS == 0:
            self._promote()
        kept = [*self._hosts.values(), self._others]
        self._broker.counters = [sum(column) for column in zip(*[each.counters for each in kept], strict=True)]
        for each in kept:
            self._broker.add(each.messages, each.bytes, each.age)
        for each in self._sums():
            each.end(now)

    # ------------------------------------------------------------------ questions

    def of_queue(self, host: str, name: str, window: str) -> list[Point] | None:
        """Return the steps of a queue; ``None`` when it has no history (yet)."""
        track = self._tracks.get((host, name))
        return None if track is None else track.points(window)

    def of_host(self, host: str, window: str) -> list[Point] | None:
        """Return the steps of a virtual host; ``None`` when it has no history (yet)."""
        kept = self._hosts.get(host)
        return None if kept is None else kept.points(window)

    def removal_rates(self, hosts: Iterable[str]) -> dict[str, float]:
        """Return the messages a second that left queues of virtual hosts in the last round, by reason; without 0."""
        kept = [self._hosts[host].rates for host in hosts if host in self._hosts]
        sums = [sum(column) for column in zip(*kept, strict=True)][2:]
        return {reason: rate for reason, rate in zip(REASONS, sums, strict=False) if rate > 0}

    def of_broker(self, window: str) -> list[Point]:
        """Return the steps of the sums over all queues."""
        return self._broker.points(window)


def _activity(track: Track) -> int:
    return track.activity
