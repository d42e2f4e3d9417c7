"""Rates of queues and virtual hosts: their counters are sampled, and a rate is the difference by the time between.

A counter that is there anyway is read; a message costs nothing more. Samples are of the last two rounds for each queue,
and of the last :data:`ROUNDS_KEPT` for each virtual host. A round reads :data:`SAMPLED_A_TICK` queues at each tick of
the broker.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import is_reply_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

ROUND_MILLISECONDS: Final = 5000
"""Between the starts of two rounds, and the age that a sample must have to be compared with: RabbitMQ's interval."""

SAMPLED_A_TICK: Final = 250
"""Queues read at each tick of the broker, four a second: 1 ms of the loop. 5,000 queues are a round of 5 s; with more a
round takes longer, and rates are of longer times."""

SAMPLED_QUEUES_MAX: Final = 20_000
"""Queues of which samples are kept, about 240 bytes each: 5 MB. The rates of further ones are 0, and the bound's metric
counts them."""

ROUNDS_KEPT: Final = 120
"""Sums of rounds that are kept for each virtual host: 10 minutes of 5 s."""

DEEPEST_KEPT: Final = 6
"""Queues with most messages that are known of each virtual host: those that an overview names."""

PUBLISHED: Final = "publish"
DELIVERED: Final = "deliver_get"
ACKNOWLEDGED: Final = "ack"
RETURNED: Final = "redeliver"
MESSAGES: Final = "messages"
READY: Final = "messages_ready"
UNACKNOWLEDGED: Final = "messages_unacknowledged"

NAMES: Final = (PUBLISHED, DELIVERED, ACKNOWLEDGED, RETURNED, MESSAGES, READY, UNACKNOWLEDGED)
"""The sampled values, in the order of a sample, with RabbitMQ's names. The first four are counters."""

COUNTERS: Final = NAMES[:4]
DEPTH: Final = 1 + NAMES.index(MESSAGES)
"""The place of the messages in a sample."""

NOTHING: Final = array("q", [0] * len(NAMES))
"""The values of a queue that was never used."""

Sample: TypeAlias = "array[int]"
"""The time, milliseconds since 1970, and the values of :data:`NAMES`."""

QueueKey = tuple[str, str]
"""Names of the virtual host and the queue."""


def read_queue(queue: Queue, now: int) -> Sample:
    """Return the sample of a queue at this moment."""
    counters = queue.counters
    ready = queue.shown_count() + queue.shown_scheduled()
    delivering = len(queue.delivering)
    return array(
        "q",
        (
            now,
            counters.messages_added,
            counters.messages_delivered,
            counters.removed[RemovalReason.ACKNOWLEDGED],
            counters.messages_returned,
            ready + delivering,
            ready,
            delivering,
        ),
    )


def is_changed(queue: Queue, sample: Sample) -> bool:
    """Return whether a queue's sample would be another one now, by the values with which every change begins.

    A message that comes is added, one that goes to a consumer is delivered, one that comes back is returned, and one
    that leaves is missing from the sum of all.
    """
    counters = queue.counters
    return (
        counters.messages_added != sample[1]
        or counters.messages_delivered != sample[2]
        or counters.messages_returned != sample[4]
        or queue.message_count() != sample[5]
    )


def read_totals(queue: Queue) -> tuple[Sample, tuple[int, int]]:
    """Return the counters of a queue: added, delivered, and removed by reason; and its messages and their bytes."""
    counters = queue.counters
    totals = array("q", (counters.messages_added, counters.messages_delivered, *counters.removed.values()))
    messages = queue.message_count()
    return totals, (messages, counters.bytes_added - counters.bytes_removed)


class Rates:
    """The samples of one broker. Belongs to the event loop."""

    def __init__(self) -> None:
        self.unsampled = 0  # queues that the last round left out because of the bound
        self._before: dict[QueueKey, Sample] = {}  # of the round before the last
        self._last: dict[QueueKey, Sample] = {}
        self._filling: dict[QueueKey, Sample] = {}  # of the round under way
        self._hosts: dict[str, deque[Sample]] = {}  # sums by virtual host, the oldest first
        self._sums: dict[str, Sample] = {}  # of the round under way
        self._heaps: dict[str, list[tuple[int, str]]] = {}  # messages and names of the deepest queues of that round
        self._deepest: dict[str, list[tuple[int, str]]] = {}  # of the last round, the deepest first
        self._left: list[tuple[str, Queue]] | None = None  # to be read in it; None between rounds
        self._began = 0

    def tick(self, hosts: Mapping[str, VirtualHost], now: int) -> None:
        """Read some queues; called at each tick of the broker."""
        if self._left is None:
            if 0 <= now - self._began < ROUND_MILLISECONDS:
                return
            self._begin(hosts, now)
        left = self._left
        assert left is not None
        for _ in range(min(SAMPLED_A_TICK, len(left))):
            name, queue = left.pop()
            if not queue.deleted:
                self._read(name, queue, now)
        if not left:
            self._end(now)

    def _begin(self, hosts: Mapping[str, VirtualHost], now: int) -> None:
        self._began = now
        left = [(name, queue) for name, host in hosts.items() for queue in host.queues.values()]
        self.unsampled = max(0, len(left) - SAMPLED_QUEUES_MAX)
        self._left = left
        self._filling = {}
        self._sums = {name: array("q", [0] * (1 + len(NAMES))) for name in hosts}
        self._heaps = {name: [] for name in hosts}

    def _read(self, host: str, queue: Queue, now: int) -> None:
        key = (host, queue.name)
        last = self._last.get(key)
        if last is None or is_changed(queue, last):
            sample = read_queue(queue, now)
        else:
            sample = last[:]
            sample[0] = now
        if len(self._filling) < SAMPLED_QUEUES_MAX:
            self._filling[key] = sample
        if sample[1:] != NOTHING:
            sums = self._sums[host]
            for place in range(1, len(sample)):
                sums[place] += sample[place]
            self._note_depth(host, queue, sample[DEPTH])

    def _note_depth(self, host: str, queue: Queue, messages: int) -> None:
        heap = self._heaps[host]
        full = len(heap) == DEEPEST_KEPT
        if messages and (not full or messages > heap[0][0]) and not is_reply_name(queue.name):
            put = heapq.heapreplace if full else heapq.heappush
            put(heap, (messages, queue.name))

    def _end(self, now: int) -> None:
        self._before, self._last, self._filling = self._last, self._filling, {}
        for name, sums in self._sums.items():
            sums[0] = now
            self._hosts.setdefault(name, deque(maxlen=ROUNDS_KEPT)).append(sums)
        for name in self._hosts.keys() - self._sums.keys():
            del self._hosts[name]  # the virtual host is gone
        self._deepest = {name: sorted(heap, reverse=True) for name, heap in self._heaps.items()}
        self._left = None

    # ------------------------------------------------------------------ questions

    def of_queue(self, host: str, queue: Queue, now: int) -> dict[str, float]:
        """Return changes a second of a queue's values since the older of its samples; 0 without one."""
        return self.since(host, queue, read_queue(queue, now))

    def since(self, host: str, queue: Queue, current: Sample) -> dict[str, float]:
        """As :meth:`of_queue`, of a sample that the caller has read."""
        key = (host, queue.name)
        return _rates(self._before.get(key) or self._last.get(key), current)

    def of_host(self, host: str) -> dict[str, float]:
        """Return changes a second of the sums of a virtual host between the last two rounds; 0 before there are two."""
        sums = self._hosts.get(host)
        if sums is None or len(sums) < 2:
            return dict.fromkeys(NAMES, 0.0)
        return _rates(sums[-2], sums[-1])

    def last_of_host(self, host: str) -> Sample | None:
        """Return the sums of a virtual host in the last round; ``None`` before there is one."""
        sums = self._hosts.get(host)
        return sums[-1] if sums else None

    def deepest_of_host(self, host: str) -> list[tuple[int, str]]:
        """Return messages and names of the queues with most messages in the last round, the deepest first."""
        return self._deepest.get(host, [])

    def samples_of_host(self, host: str) -> list[Sample]:
        """Return the kept sums of a virtual host, the oldest first."""
        return list(self._hosts.get(host, ()))

    @property
    def sampled(self) -> int:
        """Queues of which there are samples."""
        return len(self._last)


def _rates(before: Sample | None, current: Sample) -> dict[str, float]:
    if before is None or current[0] <= before[0] or current[1:] == before[1:]:
        return dict.fromkeys(NAMES, 0.0)
    seconds = (current[0] - before[0]) / 1000
    rates = {name: (current[place] - before[place]) / seconds for place, name in enumerate(NAMES, 1)}
    if any(rates[name] < 0 for name in COUNTERS):  # another queue of this name
        return dict.fromkeys(NAMES, 0.0)
    return rates
