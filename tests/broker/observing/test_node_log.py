from __future__ import annotations

import asyncio

import pika
import pytest
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.observing import node_log
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.observing.node_log import NODE_LINES_PER_SECOND, NODE_LOG
from tests.admin.conftest import Site, site  # noqa: F401 - a fixture
from tests.admin.resources.test_undo import finished
from tests.broker.amqp10.peer import Peer
from tests.broker.conftest import leave


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NODE_LOG, "log", LimitedLog(node_log.logger, 1000))


async def test_what_clients_create_and_delete_has_lines() -> None:
    async with testing.broker(http=False) as running:
        with capture_logs() as lines:
            await asyncio.to_thread(use, running.amqp_url)
    told = [(line["event"], line.get("queue") or line.get("exchange")) for line in lines if line["event"] in TOLD]
    assert told == [
        ("exchange created", "shop"),
        ("queue created", "orders"),
        ("binding created", "shop"),
        ("consumer created", "orders"),
        ("consumer deleted", "orders"),
        ("binding deleted", "shop"),
        ("queue deleted", "orders"),
        ("exchange deleted", "shop"),
    ]
    queue = next(line for line in lines if line["event"] == "queue created")
    assert (queue["vhost"], queue["durable"], queue["exclusive"]) == ("/", True, False)


TOLD = {
    f"{what} {became}" for what in ("exchange", "queue", "binding", "consumer") for became in ("created", "deleted")
}


def use(url: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for _ in range(2):  # what exists has no second line
        channel.exchange_declare("shop", "topic")
        channel.queue_declare("orders", durable=True)
        channel.queue_bind("orders", "shop", "order.*")
    tag = channel.basic_consume("orders", lambda *_: None)
    channel.basic_cancel(tag)
    channel.queue_unbind("orders", "shop", "order.*")
    channel.queue_unbind("orders", "shop", "order.*")
    channel.queue_delete("orders")
    channel.exchange_delete("shop")
    connection.close()


async def test_links_that_send_have_lines_until_they_are_detached() -> None:
    async with testing.broker(http=False) as running:
        running.broker.hosts["/"].declare_queue("orders", now=running.broker.clock())
        with capture_logs() as lines:
            peer = await Peer(running.broker).open()
            await peer.sender("/exchanges/none/key", name="refused")
            link = await peer.sender("orders", name="sends")
            await peer.detach(link, closed=True)
            await peer.sender("orders", name="stays")
        leave(running.broker)
    told = [line for line in lines if line["event"].startswith("sender")]
    assert [(line["event"], line["link"], line["destination"], line["vhost"]) for line in told] == [
        ("sender created", "sends", "orders", "/"),
        ("sender deleted", "sends", "orders", "/"),
        ("sender created", "stays", "orders", "/"),
    ]


async def test_operations_have_lines_without_their_arguments(site: Site) -> None:  # noqa: F811 - the fixture
    site.fill(site.queue("shop"), 3)
    with capture_logs() as lines:
        assert (await site.send("PATCH", "/api/v1/queues/%2F/shop", {"settings": {"ring-size": 5}}))[0] == 200
        await finished(site, "/api/v1/queues/%2F/shop/operations", {"operation": "delete", "everything": True})
        assert await site.status("PUT", "/api/v1/users/ann", {"password": "secret", "tags": ["management"]}) < 300
    told = [line for line in lines if line["event"].startswith("operation") or line["event"] == "queue changed"]
    assert [(line["event"], line["target"], line["user"]) for line in told] == [
        ("queue changed", "shop", "guest"),
        ("operation on a queue", "shop", "guest"),
        ("operation of an operator", "ann", "guest"),
    ]
    assert "secret" not in str(told)


def test_lines_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(NODE_LOG, "log", LimitedLog(node_log.logger, NODE_LINES_PER_SECOND, clock=lambda: now))
    with capture_logs() as lines:
        for _ in range(NODE_LINES_PER_SECOND + 3):
            NODE_LOG.exchange_deleted("/", "x")
        now = 1.5
        NODE_LOG.exchange_deleted("/", "x")
    assert len(lines) == NODE_LINES_PER_SECOND + 1
    assert lines[-1]["left_out"] == NODE_LOG.log.left_out_total == 3
