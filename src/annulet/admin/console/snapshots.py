"""The figures of a topic at this moment. They cost the same however many queues and messages there are.

Sums of a virtual host are those of the last round of :mod:`annulet.broker.operation.rates`, 5 s old at most as a rule.
The figures of one queue are of now, and its rates of the time since the snapshot before.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.console.topics import LOG, OVERVIEW, QUEUES
from annulet.admin.figures.alarms import alarms
from annulet.broker.operation.rates import COUNTERS, DEEPEST_KEPT, MESSAGES, NAMES, READY, UNACKNOWLEDGED
from annulet.core.base.reply_names import is_reply_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.admin.console.topics import Topic
    from annulet.broker.broker import Broker
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.statistics import QueueStatistics

LINES_A_SAMPLE: Final = 100
"""Lines of the log in one snapshot, the newest; a page asks for those between, whose numbers it misses."""

DEPTHS: Final = (MESSAGES, READY, UNACKNOWLEDGED)


class Snapshots:
    """Makes snapshots of one broker's topics. ``before``: the counters of each queue at its last snapshot."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._before: dict[Topic, tuple[int, QueueStatistics]] = {}
        self._logged = 0  # the newest line at the sample before
        self._logging = 0  # and at this one

    def keep(self, topics: set[Topic]) -> None:
        """Begin a sample: forget all other topics, which have no viewer any more."""
        self._before = {topic: kept for topic, kept in self._before.items() if topic in topics}
        self._logged, self._logging = self._logging, self._broker.log_lines.newest

    def of(self, topic: Topic, hosts: Sequence[VirtualHost]) -> dict[str, Any]:
        """Return the snapshot of a topic for a viewer that sees these virtual hosts; ``gone``: there is no such one."""
        now = self._broker.clock()
        head = {"topic": str(topic), "at": now}
        if topic.kind == OVERVIEW:
            return {**head, **self._overview(hosts)}
        if topic.kind == LOG:
            return {**head, "lines": self._broker.log_lines.after(self._logged, LINES_A_SAMPLE)}
        host = next((host for host in hosts if host.name == topic.vhost), None)
        if host is None:
            return {**head, "gone": True}
        if topic.kind == QUEUES:
            return {**head, "vhost": host.name, **self._sums([host])}
        return {**head, "vhost": host.name, "name": topic.name, **self._queue(topic, host, now)}

    def _overview(self, hosts: Sequence[VirtualHost]) -> dict[str, Any]:
        broker = self._broker
        every = len(hosts) == len(broker.hosts)
        by_host = broker.admission.by_host
        return {
            "alarms": alarms(broker),
            "memory": {"resident_bytes": broker.memory.resident, "limit_bytes": broker.memory.limit},
            "connections": len(broker.connections) if every else sum(by_host[host.name] for host in hosts),
            **self._sums(hosts),
            "removal_rates": broker.figure_history.removal_rates([host.name for host in hosts]),
            "deepest": self._deepest(hosts),
        }

    def _deepest(self, hosts: Sequence[VirtualHost]) -> list[dict[str, Any]]:
        """Return the queues with most messages in the last round, as they are now."""
        rates = self._broker.rates
        every = [(depth, host, name) for host in hosts for depth, name in rates.deepest_of_host(host.name)]
        found = []
        for _, host, name in heapq.nlargest(DEEPEST_KEPT, every, key=lambda one: one[0]):
            queue = host.queues.get(name)
            if queue is not None:
                statistics = queue.statistics()
                figures = {MESSAGES: statistics.message_count, "consumers": statistics.consumer_count}
                found.append({"vhost": host.name, "name": name, **figures})
        return sorted(found, key=lambda one: -one[MESSAGES])

    def _sums(self, hosts: Sequence[VirtualHost]) -> dict[str, Any]:
        rates, depths = dict.fromkeys(COUNTERS, 0.0), dict.fromkeys(DEPTHS, 0)
        for host in hosts:
            last = self._broker.rates.last_of_host(host.name)
            if last is None:
                continue
            for name in DEPTHS:
                depths[name] += last[1 + NAMES.index(name)]
            changes = self._broker.rates.of_host(host.name)
            for name in COUNTERS:
                rates[name] += changes[name]
        return {"queues": sum(len(host.queues) - host.reply_queues for host in hosts), **depths, "rates": rates}

    def _queue(self, topic: Topic, host: VirtualHost, now: int) -> dict[str, Any]:
        queue = host.queues.get(topic.name)
        if queue is None or is_reply_name(topic.name):
            return {"gone": True}
        statistics = queue.statistics()
        before = self._before.get(topic)
        self._before[topic] = now, statistics
        return {
            MESSAGES: statistics.message_count,
            READY: statistics.pending_count,
            UNACKNOWLEDGED: statistics.delivering_count,
            "messages_scheduled": statistics.scheduled_count,
            "messages_paged": statistics.messages_paged,
            "bytes": statistics.pending_bytes + statistics.delivering_bytes,
            "consumers": statistics.consumer_count,
            "messages_added": statistics.messages_added,
            "messages_delivered": statistics.messages_delivered,
            "removed": statistics.removed,
            "rates": _rates(before, now, statistics),
        }


def _rates(before: tuple[int, QueueStatistics] | None, now: int, current: QueueStatistics) -> dict[str, float]:
    """Return changes a second; 0 for the first snapshot, and for another queue of the name."""
    if before is None or now <= before[0]:
        return dict.fromkeys(COUNTERS, 0.0)
    seconds = (now - before[0]) / 1000
    changes = [after - earlier for after, earlier in zip(_counters(current), _counters(before[1]), strict=True)]
    if min(changes) < 0:
        return dict.fromkeys(COUNTERS, 0.0)
    return {name: change / seconds for name, change in zip(COUNTERS, changes, strict=True)}


def _counters(statistics: QueueStatistics) -> tuple[int, ...]:
    """Return the counters in the order of :data:`COUNTERS`."""
    return (
        statistics.messages_added,
        statistics.messages_delivered,
        statistics.messages_acknowledged,
        statistics.messages_returned,
    )
