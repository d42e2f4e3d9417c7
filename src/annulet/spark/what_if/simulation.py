"""One setting: recorded arrivals through the broker's core, with consumers of a stated speed, on a virtual clock.

The core is the broker's own, so rings, keys, limits, priorities, groups and expiry behave as in production. Only the
consumers are modelled: each takes ``prefetch`` messages, works on one after the other, each 1 / ``rate`` seconds or as
long as recorded ones did, and acknowledges each when it is done. After the last arrival they continue until nothing
more can be delivered.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.core.base.errors import LimitExceeded
from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.routing.node_effects import NodeEffects
from annulet.core.sessions.session import Session
from annulet.spark.due_times import due_times
from annulet.spark.what_if.settings import Setting
from annulet.spark.what_if.traffic import Arrival, message_of

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState

DEPTH_POINTS: Final = 200
"""Points of the depth over time; each is the deepest moment of its part of the recording."""

GOLDEN_RATIO: Final = (math.sqrt(5) - 1) / 2

QUEUE: Final = "what-if"
REFUSED: Final = "refused"
"""Reason of a message that the queue did not take (``overflow=reject``)."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


class PriorityRow(msgspec.Struct):
    """The fate of the messages of one priority; ``longest_wait`` in milliseconds, lost and undelivered included."""

    priority: int
    published: int = 0
    delivered: int = 0
    lost: int = 0
    longest_wait: int = 0


class Result(msgspec.Struct):
    """The result of a setting. Times in milliseconds."""

    published: int = 0
    delivered: int = 0
    waiting: int = 0  # could not be delivered to any consumer
    losses: dict[str, int] = {}  # by reason
    dwell: dict[str, float] = {}  # of delivered messages, acceptance to delivery, by quantile
    depth_max: int = 0
    depth: list[tuple[int, int]] = []  # time, and the deepest moment until the next
    held_back: int = 0  # messages that publishers could not send when they wanted to (overflow=block)
    busy: float = 0.0  # share of the consumers' time they worked
    priorities: list[PriorityRow] = []

    @property
    def loss(self) -> float:
        """Lost share of the published messages."""
        return sum(self.losses.values()) / self.published if self.published else 0.0

    def metric(self, name: str) -> float:
        """Return a metric of a goal. Where nothing was delivered no dwell is short enough."""
        if name == "loss":
            return self.loss
        if name == "depth":
            return self.depth_max
        return self.dwell.get(name.removeprefix("dwell-"), math.inf if self.published else 0.0)


def simulate(setting: Setting, arrivals: Iterable[Arrival]) -> Result:
    """Return the result of a setting for arrivals in the order of their times."""
    recorded = list(arrivals)
    return _Run(setting, recorded).run()


class _Recorder(NodeEffects):
    """Notes losses."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def removed(self, queue: QueueState, entry: QueueEntry, reason: RemovalReason) -> None:
        del queue
        if reason in LOSSES:
            self._run.lost(entry.message.accepted_at, entry.message.priority, reason.value)


class _Worker(Session):
    """One consumer: keeps its messages, works on the first."""

    def __init__(self, run: _Run, name: str) -> None:
        super().__init__(name)
        self.held: deque[int] = deque()
        self._run = run

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Take a message. Work begins after the core is done: it must not be called back."""
        del consumer
        self._run.delivered(entry.message.accepted_at, entry.message.priority)
        self.held.append(tag)
        if len(self.held) == 1:
            self._run.begin(self)


class _Run:
    def __init__(self, setting: Setting, recorded: list[Arrival]) -> None:
        self.now = recorded[0].at if recorded else 0
        self._setting = setting
        self._recorded = recorded
        self._result = Result(published=len(recorded))
        self._dwell: list[int] = []
        self._losses: Counter[str] = Counter()
        self._priorities: dict[int, PriorityRow] = {}
        self._depth: dict[int, int] = {}
        self._work: list[tuple[float, int, _Worker]] = []  # when it is done, which is first
        self._sequence = 0
        self._works = 0  # messages that consumers began to work on
        self._exact = 0.0  # the time as a fraction: work may take less than a millisecond
        self._busy = 0.0
        self._host = VirtualHost("what-if", _Recorder(self))
        arguments: dict[str, Any] = dict(setting.arguments)
        self._queue = self._host.declare_queue(QUEUE, now=self.now, arguments=arguments)
        self._route = self._host.route("", QUEUE)
        span = recorded[-1].at - self.now if recorded else 0
        self._step = max(1, span // DEPTH_POINTS)
        self._start = self.now

    # ------------------------------------------------------------------ called by the core

    def begin(self, worker: _Worker) -> None:
        self._sequence += 1
        takes = self._working_time()
        self._busy += takes
        heapq.heappush(self._work, (self._exact + takes, self._sequence, worker))

    def _working_time(self) -> float:
        """Return the milliseconds the next message takes.

        Recorded times are drawn at quantiles that advance by the golden ratio: evenly spread, the same in every run.
        """
        work = self._setting.work
        if not work:
            return 1000.0 / self._setting.rate
        self._works += 1
        return work[int(self._works * GOLDEN_RATIO % 1.0 * len(work))]

    def delivered(self, accepted_at: int, priority: int) -> None:
        wait = self.now - accepted_at
        self._dwell.append(wait)
        row = self._row(priority)
        row.delivered += 1
        row.longest_wait = max(row.longest_wait, wait)

    def lost(self, accepted_at: int, priority: int, reason: str) -> None:
        self._losses[reason] += 1
        row = self._row(priority)
        row.lost += 1
        row.longest_wait = max(row.longest_wait, self.now - accepted_at)

    # ------------------------------------------------------------------ the course of events

    def run(self) -> Result:
        for number in range(self._setting.consumers):
            worker = _Worker(self, f"consumer {number}")
            consumer = Consumer(worker, self._queue, "c", window=CreditWindow(self._setting.prefetch))
            worker.attach(consumer, self.now)
        for arrival in self._recorded:
            self._work_until(arrival.at)
            self._hold_back(arrival)
            self._advance(max(float(arrival.at), self._exact))
            self._arrive(arrival)
        while self._work:
            self._finish_first()
        return self._finished()

    def _arrive(self, arrival: Arrival) -> None:
        self._row(arrival.priority).published += 1
        try:
            self._host.publisher.publish(message_of(arrival), self._route, self.now)
        except LimitExceeded:
            self.lost(arrival.at, arrival.priority, REFUSED)
        self._note_depth()

    def _hold_back(self, arrival: Arrival) -> None:
        """While the queue blocks publishers, messages wait at their publisher in order: this wait counts."""
        if self._queue.blocked or self._exact > arrival.at:
            self._result.held_back += 1
        while self._queue.blocked and self._work:
            self._finish_first()

    def _work_until(self, at: float) -> None:
        while self._work and self._work[0][0] <= at:
            self._finish_first()

    def _finish_first(self) -> None:
        done_at, _, worker = heapq.heappop(self._work)
        self._advance(done_at)
        tag = worker.held[0]
        worker.held.popleft()
        if worker.held:
            self.begin(worker)
        worker.acknowledge(tag, self.now)

    def _advance(self, at: float) -> None:
        """Advance the time, and let the core process due events."""
        for due in due_times(self._queue, at):
            self._set_time(due)
            self._host.tick(self.now)
        self._set_time(at)

    def _set_time(self, at: float) -> None:
        self._exact = max(self._exact, at)
        self.now = max(self.now, int(at))

    def _note_depth(self) -> None:
        depth = self._queue.order.count
        point = (self.now - self._start) // self._step
        if depth > self._depth.get(point, -1):
            self._depth[point] = depth

    def _row(self, priority: int) -> PriorityRow:
        return self._priorities.setdefault(priority, PriorityRow(priority))

    def _finished(self) -> Result:
        result = self._result
        result.delivered = len(self._dwell)
        result.losses = dict(self._losses)
        result.waiting = self._queue.order.count
        for entry in self._queue.order.entries():
            row = self._row(entry.message.priority)
            row.longest_wait = max(row.longest_wait, self.now - entry.message.accepted_at)
        self._dwell.sort()
        if self._dwell:
            last = len(self._dwell) - 1
            result.dwell = {name: float(self._dwell[int(share * last)]) for name, share in QUANTILES.items()}
        result.depth_max = max(self._depth.values(), default=0)
        result.depth = [(self._start + point * self._step, depth) for point, depth in sorted(self._depth.items())]
        span = self._exact - self._start
        work_time = span * self._setting.consumers
        result.busy = min(1.0, self._busy / work_time) if work_time > 0 else 0.0
        result.priorities = [self._priorities[level] for level in sorted(self._priorities)]
        return result
