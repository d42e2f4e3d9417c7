"""A message into all the queues of its route."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.errors import LimitExceeded
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import ContentView
from annulet.core.routing.diverts import Divert
from tests.core import node_helpers
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


def declare(host, *names, **options):
    return [host.declare_queue(name, now=NOW, **options) for name in names]


def publish(host, exchange, key, body="m", **properties):
    return host.publisher.publish(make_message(body, **properties), host.route(exchange, key), NOW)


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
    assert host.publisher.publish(make_message(), route, NOW) == 0
    (again,) = declare(host, "q")
    assert host.publisher.publish(make_message("A"), route, NOW) == 1
    assert pending(again) == ["A"]


def test_a_durable_message_is_stored_once_for_durable_queues_that_still_hold_it(host):
    durable = [*declare(host, "1", "2", durable=True), *declare(host, "3")]
    for queue in durable:
        host.bind_queue(queue, "amq.fanout", "")
    host.publisher.publish(make_message("A", durable=True), host.route("amq.fanout", ""), NOW)
    ((_, entries),) = host.effects.stored
    assert [entry.queue.name for entry in entries] == ["1", "2"]
    session = RecordingSession()
    (quick,) = declare(host, "quick", durable=True)
    session.consume(quick, auto_acknowledge=True)
    host.publisher.publish(make_message("B", durable=True), host.route("", "quick"), NOW)
    assert len(host.effects.stored) == 1


def rejecting(host, name, length=1):
    return node_helpers.declare(host, name, arguments={"x-max-length": length, "x-overflow": "reject-publish"})[0]


def test_one_refusal_keeps_the_message_out_of_all_queues(host):
    declare(host, "open")
    rejecting(host, "full")
    for name in ("open", "full"):
        host.bind_queue(host.queues[name], "amq.fanout", "")
    assert publish(host, "amq.fanout", "", "A") == 2
    with pytest.raises(LimitExceeded, match="queue 'full' is full"):
        publish(host, "amq.fanout", "", "B")
    assert [pending(host.queues[name]) for name in ("open", "full")] == [["A"], ["A"]]
    assert publish(host, "", "open", "C") == 1


def test_what_the_broker_sends_on_is_never_refused(host):
    rejecting(host, "full")
    publish(host, "", "full", "A")
    assert host.publisher.publish(make_message("B"), host.route("", "full"), NOW, forwarded=True) == 1
    legs = host.publisher.plan_forward(make_message("C"), "", ("full",))
    assert host.publisher.apply(legs, NOW) == 1
    assert pending(host.queues["full"]) == ["A", "B", "C"]


def test_what_the_broker_sends_on_may_go_to_an_internal_exchange_and_by_several_keys(host):
    one, two = declare(host, "one", "two")
    host.declare_exchange("inside", "direct", internal=True)
    host.bind_queue(one, "inside", "1")
    host.bind_queue(two, "inside", "2")
    assert host.publisher.apply(host.publisher.plan_forward(make_message("A"), "inside", ("1", "2")), NOW) == 2
    assert host.publisher.plan_forward(make_message(), "gone", ("1",)) == []


def test_further_keys_add_queues_and_each_gets_one_copy(host):
    declare(host, "one", "two")
    route = host.route("", "one")
    assert host.publisher.publish(make_message("A"), route, NOW, further_keys=("two", "one", "none")) == 2
    assert [pending(host.queues[name]) for name in ("one", "two")] == [["A"], ["A"]]


def test_limits_that_change_reach_the_routes(host):
    (queue,) = declare(host, "q")
    route = host.route("", "q")
    assert route.static
    host.update_queue(queue, replace(queue.settings, max_length=1, overflow="reject"), NOW)
    assert host.publisher.publish(make_message("A"), route, NOW) == 1
    with pytest.raises(LimitExceeded):
        host.publisher.publish(make_message("B"), route, NOW)
    host.update_queue(queue, replace(queue.settings, max_length=-1, overflow="none"), NOW)
    assert host.route("", "q").static


def test_unroutable_messages_go_to_the_dead_letter_address_once():
    host = node_helpers.make_host(
        {"orders": {"dead-letter-address": "dead", "send-to-dla-on-no-route": True}, "dead": {}}
    )
    host.nodes.declare_address("orders")
    assert node_helpers.send(host, "orders", "A") == 0  # it leads nowhere itself
    node_helpers.declare(host, "dead")
    assert node_helpers.send(host, "orders", "B") == 1
    (entry,) = host.queues["dead"].order.entries()
    assert entry.message.header == b"{'_AMQ_ORIG_ADDRESS': 'orders'}"
    node_helpers.declare(host, "q")
    host.nodes.attach_queue(host.queues["q"], "orders")
    assert node_helpers.send(host, "orders", "C") == 1
    assert node_helpers.held(host, "dead", "q") == [["B"], ["C"]]


def test_a_filter_that_keeps_everything_out_makes_a_message_unroutable():
    host = node_helpers.make_host({"#": {"dead-letter-address": "dead", "send-to-dla-on-no-route": True}})
    node_helpers.declare(host, "q", arguments={"x-selector": "colour = 'red'"})
    node_helpers.declare(host, "dead")
    assert node_helpers.send(host, "q", "A", colour="blue") == 1
    assert node_helpers.send(host, "q", "B", colour="red") == 1
    assert node_helpers.held(host, "q", "dead") == [["B"], ["A"]]


def test_no_expiry_takes_the_life_the_sender_gave():
    host = node_helpers.make_host({"q": {"no-expiry": True}})
    (queue,) = node_helpers.declare(host, "q")
    message = make_message("A", expires_at=NOW + 1)
    host.publisher.publish(message, host.route("", "q"), NOW)
    host.tick(NOW + 10)
    assert pending(queue) == ["A"]


def test_durable_copies_are_stored_for_their_own_queues():
    host = node_helpers.make_host()
    first, second = node_helpers.declare(host, "first", "second", durable=True)
    host.add_divert(Divert("d", "first", ("second",)))
    node_helpers.send(host, "first", "A", durable=True)
    assert [[entry.queue for entry in entries] for _, entries in host.effects.stored] == [[first], [second]]
    assert [message.origin.exchange for message, _ in host.effects.stored] == ["first", ""]


def test_the_static_way_asks_neither_the_message_nor_settings(host, monkeypatch):
    first, second = declare(host, "first", "second")
    for queue in (first, second):
        host.bind_queue(queue, "amq.fanout", "")
    route = host.route("amq.fanout", "")
    monkeypatch.setattr(host.address_settings, "resolve", None)  # asking fails
    message = make_message("A")
    message.origin.view = ContentView("none")  # the same
    assert host.publisher.publish(message, route, NOW) == 2
    assert [pending(queue) for queue in (first, second)] == [["A"], ["A"]]


def test_queues_that_may_refuse_are_asked_without_a_plan(host):
    full = rejecting(host, "full")
    route = host.route("", "full")
    assert (route.static, route.fixed) == (False, True)
    assert host.publisher.publish(make_message("A"), route, NOW) == 1
    with pytest.raises(LimitExceeded):
        host.publisher.publish(make_message("B"), route, NOW)
    assert host.targets(make_message(), route) == [full]
