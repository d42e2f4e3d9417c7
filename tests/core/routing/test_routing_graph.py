"""Exchanges, bindings and remembered routes of one virtual host."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import AccessRefused, InvalidArgument, NotFound
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.routing.routing_graph import REMEMBERED_KEY_CHARACTERS_MAX, ROUTES_MAX, RoutingGraph
from tests.core.helpers import NOW, RecordingEffects, make_message, pending


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


def declare(host, *names, **options):
    return [host.declare_queue(name, now=NOW, **options) for name in names]


def publish(host, exchange, key, body="m", **properties):
    return host.publisher.publish(make_message(body, **properties), host.route(exchange, key), NOW)


def reached(host, exchange, key, **properties):
    return {queue.name for queue in host.targets(make_message(**properties), host.route(exchange, key))}


@pytest.mark.parametrize("name", ["n" * 256, "ä" * 128])
def test_names_that_no_amqp_0_9_1_client_could_say_are_refused(host, name):
    for refused in (
        lambda: declare(host, name),
        lambda: host.declare_exchange(name, "direct"),
        lambda: host.nodes.declare_address(name),
        lambda: host.nodes.resolve_node(name, NOW),
        lambda: host.nodes.resolve_node(f"topic://{name}", NOW),
    ):
        with pytest.raises(InvalidArgument, match="256 bytes; give one of at most 255"):
            refused()
    assert host.queues == {}
    declare(host, name[:-1])


def test_default_exchange_reaches_a_queue_by_name(host):
    (queue,) = declare(host, "q")
    assert publish(host, "", "q", "A") == 1
    assert publish(host, "", "missing") == 0
    assert pending(queue) == ["A"]


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


def test_remembered_routes_are_bounded(host):
    for number in range(ROUTES_MAX):
        host.route("", str(number))
    remembered = host.route("", "0")
    assert host.routes_remembered == ROUTES_MAX
    host.route("", "one more")
    assert host.routes_remembered == 1
    assert host.route("", "0") is not remembered


@pytest.mark.parametrize("routing_type", ["", "multicast"])
def test_routes_of_keys_that_are_longer_than_any_name_are_not_remembered(host, routing_type):
    longest = "k" * REMEMBERED_KEY_CHARACTERS_MAX
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "amq.topic", "#")
    assert host.route("amq.topic", longest, routing_type) is host.route("amq.topic", longest, routing_type)
    assert host.route("amq.topic", f"{longest}k").queues == [queue]
    assert host.routes_remembered == 1


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


def test_auto_delete_exchanges_go_with_their_last_binding_up_the_chain(host):
    (queue,) = declare(host, "q")
    host.declare_exchange("up", "fanout", auto_delete=True)
    host.declare_exchange("down", "fanout", auto_delete=True)
    host.bind_exchange("down", "up", "")
    host.bind_queue(queue, "down", "")
    host.delete_queue(queue, NOW)
    assert sorted(host.effects.deleted_exchanges) == ["down", "up"]
    assert list(host.bindings()) == []


def test_routes_that_name_a_routing_type_are_remembered_apart(host):
    host.nodes.declare_address("both", ("anycast", "multicast"))
    one, many = (host.declare_queue(name, now=NOW) for name in ("one", "many"))
    host.nodes.attach_queue(one, "both", "anycast")
    host.nodes.attach_queue(many, "both", "multicast")
    route = host.route("both", "", "anycast")
    assert route.queues == [one]
    assert host.route("both", "", "anycast") is route
    assert host.route("both", "").queues == [one, many]
    assert host.route("both", "").static


def test_a_route_from_before_a_change_is_renewed(host):
    host.declare_exchange("e", "fanout")
    route = host.route("e", "")
    assert host.renewed(route) is route
    host.bind_queue(host.declare_queue("q", now=NOW), "e", "")
    assert host.renewed(route).queues == [host.queues["q"]]
    host.delete_exchange("e")
    assert host.renewed(route) is None
    host.declare_exchange("e", "fanout", internal=True)
    assert host.renewed(route) is None


def test_addresses_are_exchanges_and_come_and_go_with_their_wildcards(host):
    made = host.declare_exchange("news.*", "address")
    assert host.addresses == {"news.*": made}
    assert host.wildcards_for("news.a") == [made]
    assert host.wildcards_for("news.*") == host.wildcards_for("other") == []
    host.delete_exchange("news.*")
    assert host.addresses == {}
    assert host.wildcards_for("news.a") == []


def test_a_bare_graph_has_no_say_in_messages():
    graph = RoutingGraph("/", RecordingEffects())
    assert graph.route("", "q").static
    address = graph.declare_exchange("a", "address")
    graph.address_added(address)
    graph.address_dropped(address)
    graph.before_routing()
    assert graph.route("a", "").queues == []


def test_an_address_has_no_qualified_name_however_it_is_declared(host):
    with pytest.raises(InvalidArgument, match="address name 'a::b' contains '::'"):
        host.declare_exchange("a::b", "address")
    assert host.declare_exchange("a::b", "topic").name == "a::b"
