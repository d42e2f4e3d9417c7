"""The requests of tools in other languages, as their sources send them: KEDA's scaler and a Prometheus exporter."""

from __future__ import annotations

from urllib.parse import quote

import pika

from tests.broker_process import BrokerProcess
from tests.clients.management.requests import ask

KEDA_QUEUE = "/api/queues/%2F/orders"
"""pkg/scalers/rabbitmq_scaler.go, ``getQueueInfoViaHTTP``: ``PATH/api/queues/VHOST/QUEUE``."""

KEDA_PAGE = "/api/queues/%2F?page=1&use_regex=true&pagination=false&name={name}&page_size=100"
"""The same with ``useRegex: true``: it sums the items."""

EXPORTER = (
    "/api/overview",
    "/api/queues?columns=name,vhost,state,messages,message_stats,consumers,message_bytes,policy,durable",
    "/api/exchanges",
    "/api/nodes",
    "/api/connections",
    "/api/parameters/shovel",
    "/api/aliveness-test/%2F",
    "/api/health/checks/alarms",
)
"""Paths of kbudde's rabbitmq_exporter, by its modules."""


def test_kedas_scaler_reads_length_and_rate(managed: BrokerProcess, connected: pika.BlockingConnection) -> None:
    channel = connected.channel()
    channel.queue_declare("orders")
    for _ in range(3):
        channel.basic_publish("", "orders", b"x")
    channel.queue_declare("orders", passive=True)  # answered behind the publishes
    status, item = ask(managed, "GET", KEDA_QUEUE)
    assert status == 200
    assert (item["name"], item["messages"], item["messages_unacknowledged"]) == ("orders", 3, 0)
    assert isinstance(item["message_stats"]["publish_details"]["rate"], float)
    status, page = ask(managed, "GET", KEDA_PAGE.format(name=quote("^ord.*s$", safe="")))
    assert status == 200
    assert [each["messages"] for each in page["items"]] == [3]
    assert ask(managed, "GET", "/api/queues/%2F/missing")[0] == 404
    channel.queue_delete("orders")


def test_a_prometheus_exporter_finds_its_fields(managed: BrokerProcess, connected: pika.BlockingConnection) -> None:
    answers = {path: ask(managed, "GET", path) for path in EXPORTER}
    assert {status for status, _ in answers.values()} == {200}
    overview = answers["/api/overview"][1]
    assert {"channels", "connections", "consumers", "queues", "exchanges"} <= overview["object_totals"].keys()
    assert {"messages", "messages_ready", "messages_unacknowledged"} <= overview["queue_totals"].keys()
    [node] = answers["/api/nodes"][1]
    assert {"uptime", "running", "mem_used", "fd_used", "disk_free", "mem_limit", "disk_free_alarm"} <= node.keys()
    [queue] = answers[EXPORTER[1]][1]
    assert (queue["name"], queue["consumers"], queue["state"]) == ("consumed", 1, "running")
    [connection] = answers["/api/connections"][1]
    assert {"channels", "recv_oct", "send_oct", "send_pend", "state", "peer_host", "user"} <= connection.keys()
    assert answers["/api/aliveness-test/%2F"][1] == {"status": "ok"}
    assert connected.is_open
