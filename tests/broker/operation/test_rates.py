from __future__ import annotations

import pytest

from annulet.broker.operation import rates as module
from annulet.broker.operation.rates import (
    ACKNOWLEDGED,
    DEEPEST_KEPT,
    DELIVERED,
    MESSAGES,
    NAMES,
    PUBLISHED,
    ROUNDS_KEPT,
    Rates,
    read_totals,
)
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects

ORIGIN = Origin("", "q", "guest@test", ContentView("none"))


class Site:
    def __init__(self) -> None:
        self.host = VirtualHost("/", NodeEffects())
        self.now = 100_000
        self.rates = Rates()
        self.hosts = {"/": self.host}

    def queue(self, name: str = "q") -> Queue:
        return self.host.declare_queue(name, now=self.now)

    def fill(self, queue: Queue, count: int) -> None:
        for _ in range(count):
            queue.enqueue(Message(b"", b"x", ORIGIN, accepted_at=self.now), self.now)

    def round(self, milliseconds: int = 5000) -> None:
        self.now += milliseconds
        self.rates.tick(self.hosts, self.now)


def test_a_rate_is_the_difference_since_the_older_of_two_samples() -> None:
    site = Site()
    queue = site.queue()
    assert site.rates.of_queue("/", queue, site.now) == dict.fromkeys(NAMES, 0.0)
    site.round()
    site.fill(queue, 30)
    for entry in queue.acquire(10, -1, site.now):
        queue.acknowledge(entry)
    found = site.rates.of_queue("/", queue, site.now + 5000)
    assert (found[PUBLISHED], found[DELIVERED], found[ACKNOWLEDGED], found[MESSAGES]) == (6.0, 2.0, 2.0, 4.0)
    site.round()
    assert site.rates.of_queue("/", queue, site.now + 5000)[PUBLISHED] == 3.0
    site.round()
    assert site.rates.of_queue("/", queue, site.now)[PUBLISHED] == 0.0


def test_a_virtual_host_has_the_sums_of_its_queues_and_keeps_some_rounds() -> None:
    site = Site()
    queues = [site.queue("a"), site.queue("b")]
    site.round()
    assert site.rates.of_host("/")[PUBLISHED] == 0.0
    for queue in queues:
        site.fill(queue, 10)
    site.round()
    assert site.rates.of_host("/")[PUBLISHED] == 4.0
    for _ in range(ROUNDS_KEPT + 5):
        site.round()
    assert len(site.rates.samples_of_host("/")) == ROUNDS_KEPT
    site.hosts = {}
    site.round()
    assert site.rates.samples_of_host("/") == []


def test_a_round_begins_every_five_seconds_and_reads_some_queues_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLED_A_TICK", 4)
    site = Site()
    for number in range(10):
        site.queue(f"q{number}")
    reads: list[int] = []
    real = module.read_queue
    monkeypatch.setattr(module, "read_queue", lambda queue, now: (reads.append(now), real(queue, now))[1])
    ticks = []
    for _ in range(4):
        before = len(reads)
        site.round(250)
        ticks.append(len(reads) - before)
    assert ticks == [4, 4, 2, 0]
    assert site.rates.sampled == 10


def test_samples_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLED_QUEUES_MAX", 3)
    site = Site()
    queues = [site.queue(f"q{number}") for number in range(5)]
    site.round()
    assert (site.rates.sampled, site.rates.unsampled) == (3, 2)
    for queue in queues:
        site.fill(queue, 5)
    site.round()
    assert site.rates.of_host("/")[PUBLISHED] == 5.0, "sums are of all"
    found = [site.rates.of_queue("/", queue, site.now)[PUBLISHED] for queue in queues]
    assert sorted(found) == [0.0, 0.0, 1.0, 1.0, 1.0]


def test_a_queue_made_again_has_no_negative_rate() -> None:
    site = Site()
    queue = site.queue()
    site.fill(queue, 10)
    site.round()
    site.host.delete_queue(queue, site.now)
    queue = site.queue()
    assert site.rates.of_queue("/", queue, site.now + 1000)[PUBLISHED] == 0.0


def test_a_clock_that_went_back_gives_no_rate() -> None:
    site = Site()
    queue = site.queue()
    site.round()
    assert site.rates.of_queue("/", queue, site.now - 1)[PUBLISHED] == 0.0
    site.now -= 60_000
    site.rates.tick(site.hosts, site.now)
    assert len(site.rates.samples_of_host("/")) == 2


def test_totals_of_a_queue_are_its_counters_and_what_it_holds() -> None:
    site = Site()
    queue = site.host.declare_queue("q", now=site.now, arguments={"x-ring-size": 3})
    site.fill(queue, 5)
    totals, held = read_totals(queue)
    assert (totals[0], totals[1], sum(totals[2:]), held) == (5, 0, 2, (3, 3))
    assert totals[2 + list(RemovalReason).index(RemovalReason.REPLACED_RING)] == 2


def test_the_deepest_queues_of_a_virtual_host_are_known() -> None:
    site = Site()
    for number in range(DEEPEST_KEPT + 3):
        site.fill(site.queue(f"q{number}"), number)
    site.round()
    expected = [(number, f"q{number}") for number in range(DEEPEST_KEPT + 2, 2, -1)]
    assert site.rates.deepest_of_host("/") == expected
    assert site.rates.deepest_of_host("other") == []
