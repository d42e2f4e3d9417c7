from __future__ import annotations

import logging

from annulet.admin.console.snapshots import LINES_A_SAMPLE, Snapshots
from annulet.admin.console.topics import Topic
from annulet.broker.operation.rates import ROUND_MILLISECONDS
from tests.admin.conftest import Site

OVERVIEW, QUEUES, QUEUE = Topic("overview"), Topic("queues", "/"), Topic("queue", "/", "q")


def hosts(site: Site) -> list:
    return [site.broker.hosts[name] for name in sorted(site.broker.hosts)]


def run_rounds(site: Site, count: int) -> None:
    for _ in range(count):
        site.clock.advance(ROUND_MILLISECONDS)
        site.broker.rates.tick(site.broker.hosts, site.clock())


async def test_sums_are_those_of_the_last_round(site: Site) -> None:
    queue = site.queue("q")
    snapshots = Snapshots(site.broker)
    run_rounds(site, 1)
    site.fill(queue, 10)
    run_rounds(site, 1)
    for topic in (OVERVIEW, QUEUES):
        shown = snapshots.of(topic, hosts(site))
        assert (shown["topic"], shown["at"]) == (str(topic), site.clock())
        assert (shown["queues"], shown["messages"], shown["messages_ready"]) == (1, 10, 10)
        assert shown["rates"]["publish"] == 10 * 1000 / ROUND_MILLISECONDS
    overview = snapshots.of(OVERVIEW, hosts(site))
    assert (overview["alarms"], overview["connections"]) == ([], 0)
    assert overview["memory"]["limit_bytes"] == site.broker.memory.limit
    assert overview["deepest"] == [{"vhost": "/", "name": "q", "messages": 10, "consumers": 0}]
    assert overview["removal_rates"] == {}


async def test_a_viewer_sees_its_own_virtual_hosts_only(site: Site) -> None:
    site.queue("q", "other")
    run_rounds(site, 1)
    snapshots, own = Snapshots(site.broker), [site.broker.hosts["other"]]
    assert snapshots.of(OVERVIEW, own)["queues"] == 1
    assert snapshots.of(OVERVIEW, [site.broker.hosts["/"]])["queues"] == 0
    for topic in (QUEUES, QUEUE):
        assert snapshots.of(topic, own) == {"topic": str(topic), "at": site.clock(), "gone": True}


async def test_a_queue_is_of_now_and_its_rates_since_the_snapshot_before(site: Site) -> None:
    queue = site.queue("q")
    snapshots = Snapshots(site.broker)
    assert snapshots.of(QUEUE, hosts(site))["rates"]["publish"] == 0
    site.fill(queue, 6, size=100)
    site.clock.advance(2000)
    shown = snapshots.of(QUEUE, hosts(site))
    assert (shown["messages"], shown["bytes"], shown["consumers"]) == (6, 600, 0)
    assert shown["rates"] == {"publish": 3, "deliver_get": 0, "ack": 0, "redeliver": 0}
    assert snapshots.of(QUEUE, hosts(site))["rates"]["publish"] == 0, "no time has passed"


async def test_another_queue_of_the_name_has_no_negative_rates(site: Site) -> None:
    site.fill(site.queue("q"), 6)
    snapshots = Snapshots(site.broker)
    snapshots.of(QUEUE, hosts(site))
    host = site.broker.hosts["/"]
    host.delete_queue(host.queues["q"], site.clock())
    site.clock.advance(1000)
    assert snapshots.of(QUEUE, hosts(site))["gone"]
    site.fill(site.queue("q"), 2)
    site.clock.advance(1000)
    assert snapshots.of(QUEUE, hosts(site))["rates"]["publish"] == 0


async def test_topics_that_nobody_watches_are_forgotten(site: Site) -> None:
    queue = site.queue("q")
    snapshots = Snapshots(site.broker)
    snapshots.of(QUEUE, hosts(site))
    snapshots.keep(set())
    site.fill(queue, 6)
    site.clock.advance(1000)
    assert snapshots.of(QUEUE, hosts(site))["rates"]["publish"] == 0


async def test_reply_queues_are_shown_to_nobody(site: Site) -> None:
    name = "amq.rabbitmq.reply-to.x"
    assert Snapshots(site.broker).of(Topic("queue", "/", name), hosts(site))["gone"]


async def test_the_log_has_the_lines_since_the_sample_before(site: Site) -> None:
    snapshots, log, lines = Snapshots(site.broker), logging.getLogger("annulet.test"), site.broker.log_lines

    def shown() -> list[str]:
        return [line.event for line in snapshots.of(Topic("log"), hosts(site))["lines"]]

    snapshots.keep(set())
    before = lines.newest
    for number in range(LINES_A_SAMPLE + 5):
        log.warning("line %d", number)
    assert lines.newest == before + LINES_A_SAMPLE + 5
    assert shown()[-1] == f"line {LINES_A_SAMPLE + 4}"
    assert len(shown()) == LINES_A_SAMPLE
    snapshots.keep(set())
    log.warning("another")
    snapshots.keep(set())
    assert shown() == ["another"]
    snapshots.keep(set())
    assert shown() == []
