"""Routing, declarations and lifetimes of one virtual host."""

from __future__ import annotations

import pytest

from annulet.core.errors import AccessRefused, InvalidArgument, NotFound, PreconditionFailed, ResourceLocked
from annulet.core.virtual_host import ROUTES_MAX, VirtualHost
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


def test_default_exchange_reaches_a_queue_by_name(host):
    (queue,) = declare(host, "q")
    assert publish(host, "", "q", "A") == 1
    assert publish(host, "", "missing") == 0
    assert pending(queue) == ["A"]


def test_a_queue_reached_twice_gets_one_copy(host):
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.topic", "a.*")
    host.bind_queue(queue, "amq.topic", "#")
    assert publish(host, "amq.topic", "a.b") == 1
    assert queue.order.count == 1


@pytest.mark.parametrize(
    ("pattern", "key", "fits"),
    [
        ("#", "", True), ("*", "", False), ("", "", True), ("a.#", "a", True), ("a.*", "a", False),
        ("a.*", "a.b", True), ("a.*", "a.b.c", False), ("#.c", "a.b.c", True), ("a.#.c", "a.c", True),
        ("#.#", "", True), ("*.#", "", False), ("a.b", "a.bc", False), ("*.*", ".", True), ("#.*.#", "a", True),
        ("a", "#", False), ("a.#.#.b", "a.x.y.b", True),
    ],
)  # fmt: skip
def test_topic(host, pattern, key, fits):
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.topic", pattern)
    assert reached(host, "amq.topic", key) == ({"q"} if fits else set())
    host.unbind_queue(queue, "amq.topic", pattern)
    assert reached(host, "amq.topic", key) == set()


@pytest.mark.parametrize(
    ("wanted", "headers", "fits"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True), ({"a": 1}, {"a": 2}, False), ({"a": 1}, {"a": True}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True), ({"x-match": "any"}, {}, False), ({}, {}, True),
        ({"a": None}, {"a": None}, True), ({"a": None}, {}, False), ({"x-a": 1}, {}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False), ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ],
)  # fmt: skip
def test_headers(host, wanted, headers, fits):
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.headers", "", wanted)
    assert reached(host, "amq.headers", "ignored", **headers) == ({"q"} if fits else set())


def test_unknown_x_match_is_refused(host):
    (queue,) = declare(host, "q")
    with pytest.raises(InvalidArgument, match="x-match"):
        host.bind_queue(queue, "amq.headers", "", {"x-match": "some"})
    assert list(host.bindings()) == []


def test_exchange_cycles_and_alternates_end(host):
    (queue,) = declare(host, "q")
    host.declare_exchange("a", "direct", arguments={"alternate-exchange": "b"})
    host.declare_exchange("b", "fanout", internal=True, arguments={"alternate-exchange": "a"})
    assert reached(host, "a", "k") == set()
    host.bind_exchange("a", "b", "")
    assert reached(host, "a", "k") == set()
    host.bind_queue(queue, "b", "")
    assert reached(host, "a", "k") == {"q"}
    with pytest.raises(AccessRefused, match="internal exchange 'b'"):
        host.route("b", "k")


def test_alternate_is_left_alone_when_something_matched(host):
    first, second = declare(host, "first", "second")
    host.declare_exchange("a", "direct", arguments={"alternate-exchange": "amq.fanout"})
    host.bind_queue(first, "a", "k")
    host.bind_queue(second, "amq.fanout", "")
    assert reached(host, "a", "k") == {"first"}
    assert reached(host, "a", "other") == {"second"}


def test_an_old_route_is_looked_up_anew(host):
    (queue,) = declare(host, "q")
    route = host.route("", "q")
    host.delete_queue(queue, NOW)
    assert host.publish(make_message(), route, NOW) == 0
    (again,) = declare(host, "q")
    assert host.publish(make_message("A"), route, NOW) == 1
    assert pending(again) == ["A"]


def test_remembered_routes_are_bounded(host):
    for number in range(ROUTES_MAX):
        host.route("", str(number))
    remembered = host.route("", "0")
    assert len(host._routes) == ROUTES_MAX
    host.route("", "one more")
    assert list(host._routes) == [("", "one more")]
    assert host.route("", "0") is not remembered


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


def test_inequivalent_declarations_are_refused_by_name(host):
    declare(host, "q", arguments={"x-ring-size": 3})
    with pytest.raises(
        PreconditionFailed, match="inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true'"
    ):
        declare(host, "q", durable=True, arguments={"x-ring-size": 3})
    with pytest.raises(PreconditionFailed, match=r"arg 'x-ring-size' .* received none but current is '3'"):
        declare(host, "q")
    assert declare(host, "q", arguments={"ring-size": 3}) == [host.queues["q"]]
    host.declare_exchange("e", "direct")
    with pytest.raises(PreconditionFailed, match="arg 'type' for exchange 'e'"):
        host.declare_exchange("e", "fanout")


def test_reserved_and_missing_names(host):
    for refused in (
        lambda: declare(host, "amq.mine"),
        lambda: host.declare_exchange("amq.mine", "direct"),
        lambda: host.declare_exchange("", "direct"),
        lambda: host.delete_exchange("amq.direct"),
        lambda: host.bind_queue(declare(host, "q")[0], "", "k"),
    ):
        with pytest.raises(AccessRefused):
            refused()
    assert declare(host, "amq.gen-1", server_named=True)
    for missing in (
        lambda: host.queue_for("no"),
        lambda: host.route("no", "k"),
        lambda: host.declare_exchange("no", "", passive=True),
    ):
        with pytest.raises(NotFound, match="'no' in vhost '/'"):
            missing()


def test_exclusive_queue_is_locked_to_its_owner_and_goes_with_it(host):
    owner, stranger = object(), object()
    (queue,) = declare(host, "q", owner=owner)
    assert host.queue_for("q", owner) is queue
    with pytest.raises(ResourceLocked, match="locked queue 'q'"):
        host.queue_for("q", stranger)
    with pytest.raises(ResourceLocked):
        declare(host, "q")
    assert host.connection_closed(owner, NOW) == [queue]
    assert host.effects.deleted_queues == ["q"]


def test_if_unused_and_if_empty(host):
    (queue,) = declare(host, "q")
    consumer = RecordingSession()
    consumer.consume(queue, messages=0)
    publish(host, "", "q")
    with pytest.raises(PreconditionFailed, match="in use"):
        host.delete_queue(queue, NOW, if_unused=True)
    with pytest.raises(PreconditionFailed, match="not empty"):
        host.delete_queue(queue, NOW, if_empty=True)
    assert host.delete_queue(queue, NOW) == 1
    assert host.delete_queue(queue, NOW) == 0


def test_auto_delete_waits_for_the_last_consumer(host):
    (queue,) = declare(host, "q", auto_delete=True)
    session = RecordingSession()
    assert not host.consumer_removed(queue, NOW)
    session.consume(queue, "1")
    session.consume(queue, "2")
    session.detach("1", NOW)
    assert not host.consumer_removed(queue, NOW)
    session.detach("2", NOW)
    assert host.consumer_removed(queue, NOW)
    assert "q" not in host.queues


def test_auto_delete_exchanges_go_with_their_last_binding_up_the_chain(host):
    (queue,) = declare(host, "q")
    host.declare_exchange("up", "fanout", auto_delete=True)
    host.declare_exchange("down", "fanout", auto_delete=True)
    host.bind_exchange("down", "up", "")
    host.bind_queue(queue, "down", "")
    host.delete_queue(queue, NOW)
    assert sorted(host.effects.deleted_exchanges) == ["down", "up"]
    assert list(host.bindings()) == []


def test_tick_expires_messages_and_unused_queues(host):
    declare(host, "ttl", arguments={"x-message-ttl": 5})
    declare(host, "unused", arguments={"x-expires": 10})
    assert host.tick(NOW) == NOW + 10
    publish(host, "", "ttl")
    assert host.tick(NOW) == NOW + 5
    assert host.tick(NOW + 9) == NOW + 10
    assert host.queues["ttl"].order.count == 0
    assert host.tick(NOW + 10) == 0
    assert host.effects.deleted_queues == ["unused"]


def test_exclusive_consumers(host):
    (queue,) = declare(host, "q")
    RecordingSession().consume(queue, "1")
    with pytest.raises(AccessRefused, match="1 consumers"):
        host.check_consumer(queue, exclusive=True)
    (other,) = declare(host, "other")
    RecordingSession().consume(other, "1", exclusive=True)
    with pytest.raises(AccessRefused, match="exclusive use"):
        host.check_consumer(other, exclusive=False)


def test_a_lease_uses_its_queue_like_a_consumer(host):
    (queue,) = declare(host, "leased", arguments={"x-expires": 10}, auto_delete=True)
    queue.leases.add(("/", "report"))
    with pytest.raises(PreconditionFailed, match="0 consumers and 1 leases"):
        host.delete_queue(queue, NOW, if_unused=True)
    with pytest.raises(AccessRefused, match="1 leases; exclusive use"):
        host.check_consumer(queue, exclusive=True)
    queue.had_consumer = True
    assert not host.consumer_removed(queue, NOW)
    host.tick(NOW + 100)
    assert not queue.deleted
    queue.leases.clear()
    host.tick(NOW + 100)
    assert queue.deleted
