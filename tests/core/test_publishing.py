"""A message into all the queues of its route."""

from __future__ import annotations

import pytest

from annulet.core.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


def declare(host, *names, **options):
    return [host.declare_queue(name, now=NOW, **options) for name in names]


def publish(host, exchange, key, body="m", **properties):
    return host.publish(make_message(body, **properties), host.route(exchange, key), NOW)


def reached(host, exchange, key, **properties):
    return {queue.name for queue in host.targets(make_message(**properties), host.route(exchange, key))}


def test_a_queue_reached_twice_gets_one_copy(host):
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.topic", "a.*")
    host.bind_queue(queue, "amq.topic", "#")
    assert publish(host, "amq.topic", "a.b") == 1
    assert queue.order.count == 1


def test_an_old_route_is_looked_up_anew(host):
    (queue,) = declare(host, "q")
    route = host.route("", "q")
    host.delete_queue(queue, NOW)
    assert host.publish(make_message(), route, NOW) == 0
    (again,) = declare(host, "q")
    assert host.publish(make_message("A"), route, NOW) == 1
    assert pending(again) == ["A"]


def test_a_durable_message_is_stored_once_for_durable_queues_that_still_hold_it(host):
    durable = [*declare(host, "1", "2", durable=True), *declare(host, "3")]
    for queue in durable:
        host.bind_queue(queue, "amq.fanout", "")
    host.publish(make_message("A", durable=True), host.route("amq.fanout", ""), NOW)
    ((_, entries),) = host.effects.stored
    assert [entry.queue.name for entry in entries] == ["1", "2"]
    session = RecordingSession()
    (quick,) = declare(host, "quick", durable=True)
    session.consume(quick, auto_acknowledge=True)
    host.publish(make_message("B", durable=True), host.route("", "quick"), NOW)
    assert len(host.effects.stored) == 1
