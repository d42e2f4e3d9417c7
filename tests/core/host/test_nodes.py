"""Addresses of a virtual host, and what a name leads to."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed, ResourceLocked
from annulet.core.base.removal_reasons import RemovalReason
from tests.core.helpers import NOW
from tests.core.node_helpers import address, declare, held, make_host, note, send

# ---------------------------------------------------------------------- addresses


def test_multicast_reaches_every_queue_and_anycast_one_after_the_other():
    host = make_host()
    address(host, "news", "all", "too")
    address(host, "work", "one", "two", "three", types=("anycast",))
    assert [send(host, "news", body) for body in "AB"] == [2, 2]
    assert [send(host, "work", body) for body in "ABCD"] == [1, 1, 1, 1]
    assert held(host, "all", "too") == [["A", "B"]] * 2
    assert held(host, "one", "two", "three") == [["A", "D"], ["B"], ["C"]]


def test_both_types_a_tag_chooses_one():
    host = make_host()
    host.nodes.declare_address("both", ("anycast", "multicast"))
    for name, kind in (("one", "anycast"), ("two", "anycast"), ("all", "multicast")):
        host.nodes.attach_queue(declare(host, name)[0], "both", kind)
    assert send(host, "both", "A") == 2
    assert send(host, "both", "B", routing_type="anycast") == 1
    assert send(host, "both", "C", routing_type="multicast") == 1
    assert held(host, "one", "two", "all") == [["A"], ["B"], ["A", "C"]]


def test_the_round_passes_over_queues_whose_filter_does_not_match():
    host = make_host()
    host.nodes.declare_address("work", ("anycast",))
    for name, text in (("red", "colour = 'red'"), ("any", ""), ("blue", "colour = 'blue'")):
        host.nodes.attach_queue(declare(host, name, arguments={"x-selector": text} if text else {})[0], "work")
    for body, colour in (("A", "blue"), ("B", "blue"), ("C", "red"), ("D", "green"), ("E", "green")):
        send(host, "work", body, colour=colour)
    assert held(host, "red", "any", "blue") == [["C"], ["A", "D", "E"], ["B"]]
    host.delete_queue(host.queues["any"], NOW)
    assert send(host, "work", "F", colour="green") == 0


def test_looking_takes_nobodys_turn():
    host = make_host()
    address(host, "work", "one", "two", types=("anycast",))
    route = host.route_to("work", "")
    for _ in range(3):
        assert [queue.name for queue in host.targets(note(), route)] == ["one"]
    send(host, "work", "A")
    assert held(host, "one") == [["A"]]


def test_amqp_reaches_an_address_by_exchange_and_by_key():
    host = make_host()
    address(host, "news", "q")
    for exchange, key in (("news", "ignored"), ("", "news"), ("", "news::q")):
        assert host.publisher.publish(note(), host.route(exchange, key), NOW) == 1
    (own,) = declare(host, "news")  # a queue of that name is nearer to the default exchange
    host.publisher.publish(note("own"), host.route("", "news"), NOW)
    assert held(host, "news") == [["own"]]
    host.publisher.send_to_address("news", note("address"), NOW)
    assert own.order.count == 1
    assert host.queues["q"].order.count == 4


def test_a_qualified_name_reaches_one_queue_of_its_address_only():
    host = make_host()
    address(host, "news", "first", "second")
    declare(host, "stranger")
    assert send(host, "news::second", "A") == 1
    assert send(host, "news::stranger", "B") == 0
    assert send(host, "::stranger", "C") == 1
    assert send(host, "stranger::stranger", "D") == 1
    assert send(host, "news::none", "E") == 0
    assert held(host, "first", "second", "stranger") == [[], ["A"], ["C", "D"]]


def test_wildcard_addresses_receive_what_fits():
    host = make_host()
    address(host, "news.#", "all")
    address(host, "news.*", "words")
    address(host, "news.sport", "sport")
    assert send(host, "news.sport", "A") == 3
    assert send(host, "news.sport.cup", "B") == 1
    assert send(host, "news", "C") == 1
    assert send(host, "weather", "D") == 0
    assert held(host, "all", "words", "sport") == [["A", "B", "C"], ["A"], ["A"]]
    host.nodes.delete_address("news.#")
    assert send(host, "news", "E") == 0


def test_wildcard_addresses_have_their_own_round():
    host = make_host()
    address(host, "work.#", "x", "y", types=("anycast",))
    address(host, "work.fast", "one", "two", types=("anycast",))
    for body in "AB":
        assert send(host, "work.fast", body) == 2
    assert held(host, "x", "y", "one", "two") == [["A"], ["B"], ["A"], ["B"]]


def test_declaring_again():
    host = make_host({"work.#": {"default-address-routing-type": "ANYCAST"}})
    assert host.nodes.declare_address("work.a").routing_types == ("anycast",)
    news = host.nodes.declare_address("news", ("multicast",))
    assert host.nodes.declare_address("news") is host.nodes.declare_address("news", ("multicast",)) is news
    with pytest.raises(PreconditionFailed, match=r"arg 'x-routing-types' for exchange 'news'.*received 'anycast'"):
        host.nodes.declare_address("news", ("anycast",))
    with pytest.raises(PreconditionFailed, match="arg 'type'"):
        host.declare_exchange("news", "fanout")
    with pytest.raises(PreconditionFailed, match="arg 'type'"):
        host.nodes.declare_address("amq.fanout", ("multicast",))
    with pytest.raises(InvalidArgument, match="'::'"):
        host.nodes.declare_address("a::b")
    with pytest.raises(NotFound, match=r"no address 'amq\.fanout'"):
        host.nodes.delete_address("amq.fanout")


def test_a_client_declares_an_address_as_an_exchange():
    host = make_host()
    made = host.declare_exchange("work", "address", arguments={"x-routing-types": "anycast"})
    assert host.addresses == {"work": made}
    for queue in declare(host, "one", "two"):
        host.bind_queue(queue, "work", "any key")
    assert [send(host, "work") for _ in range(2)] == [1, 1]
    assert [host.queues[name].order.count for name in ("one", "two")] == [1, 1]


def test_a_queue_takes_the_default_routing_type_where_both_are_there():
    host = make_host({"a": {"default-queue-routing-type": "anycast"}})
    for name in "ab":
        host.nodes.declare_address(name, ("anycast", "multicast"))
        binding = host.nodes.attach_queue(declare(host, f"queue-{name}")[0], name)
        assert host.addresses[name].routing_type_of(binding) == ("anycast" if name == "a" else "multicast")
    with pytest.raises(InvalidArgument, match="unicast"):
        host.nodes.attach_queue(host.queues["queue-a"], "a", "unicast")


def test_an_address_may_have_an_alternate():
    host = make_host()
    declare(host, "rest")
    host.declare_exchange("news", "address", arguments={"alternate-exchange": "amq.fanout"})
    host.bind_queue(host.queues["rest"], "amq.fanout", "")
    assert send(host, "news", "A") == 1
    host.nodes.attach_queue(declare(host, "q", arguments={"x-selector": "colour = 'red'"})[0], "news")
    assert send(host, "news", "B", colour="red") == 1
    assert send(host, "news", "C", colour="blue") == 1
    assert held(host, "rest", "q") == [["A", "C"], ["B"]]


# ---------------------------------------------------------------------- names


def test_names_lead_to_queues_first_then_nodes():
    host = make_host()
    address(host, "news", "q")
    (own,) = declare(host, "work")
    host.nodes.declare_address("work")
    by_name = host.nodes.resolve_node("work", NOW)
    assert (by_name.exchange, by_name.routing_key, by_name.queue) == ("", "work", own)
    topic = host.nodes.resolve_node("topic://work", NOW)
    assert (topic.exchange, topic.node) == ("work", host.addresses["work"])
    node = host.nodes.resolve_node("news", NOW)
    assert (node.exchange, node.queue, node.node) == ("news", None, host.addresses["news"])
    assert host.nodes.resolve_node("/queues/work", NOW).queue is own
    assert host.nodes.resolve_node("news::q", NOW).queue is host.queues["q"]
    exchange = host.nodes.resolve_node("/exchanges/amq.topic/a.b", NOW)
    assert (exchange.exchange, exchange.routing_key) == ("amq.topic", "a.b")
    assert not any(reference.created for reference in (by_name, topic, node, exchange))


def test_names_that_lead_nowhere():
    host = make_host({"no.#": {"auto-create-queues": False, "auto-create-addresses": False}})
    (own,) = declare(host, "mine", owner=host)
    declare(host, "q")
    address(host, "news")
    host.nodes.declare_address("work", ("anycast",))
    for name, options, error, text in (
        ("no.queue", {}, NotFound, "auto-create-queues = false"),
        ("topic://no.topic", {}, NotFound, "auto-create-addresses = false"),
        ("new", {"create": False}, NotFound, "no queue, exchange or address 'new'"),
        ("news::q", {}, NotFound, "not one of address 'news'"),
        ("/exchanges/none", {}, NotFound, "no exchange 'none'"),
        ("mine", {}, ResourceLocked, "locked queue"),
        ("topic://q", {"create": False}, NotFound, "no queue, exchange or address 'q'"),
        ("work", {"routing_type": "multicast"}, PreconditionFailed, "'work' in vhost '/' is anycast only"),
        ("queue://news", {"create": False}, NotFound, "no queue, exchange or address 'news'"),
        ("q", {"routing_type": "unicast"}, InvalidArgument, "unicast"),
    ):
        with pytest.raises(error, match=text):
            host.nodes.resolve_node(name, NOW, **options)
    assert host.nodes.resolve_node("mine", NOW, owner=host).queue is own
    assert host.effects.created == []


def test_unknown_names_are_created_after_the_settings():
    host = make_host({"r.#": {"default-ring-size": 100}})
    made = host.nodes.resolve_node("r.q", NOW)
    assert made.created
    assert made.queue is host.queues["r.q"]
    assert made.queue.durable
    assert made.queue.settings.ring_size == 100  # R5
    assert host.nodes.resolve_node("elsewhere", NOW).queue.settings.ring_size == -1
    topic = host.nodes.resolve_node("t", NOW, routing_type="multicast")
    assert topic.node is host.addresses["t"]
    assert "t" not in host.queues
    assert host.effects.created == ["r.q", "elsewhere", "t"]
    assert host.nodes.resolve_node("/queue/t", NOW).queue is host.queues["t"]


@pytest.mark.parametrize("first", ["queue", "topic"])
def test_a_queue_and_a_topic_of_one_name_live_side_by_side(first):
    host = make_host()
    spellings = {"queue": "queue://x", "topic": "topic://x"}
    second = "topic" if first == "queue" else "queue"
    for kind in (first, second):
        assert host.nodes.resolve_node(spellings[kind], NOW).created
    (subscriber,) = declare(host, "subscriber")
    host.nodes.attach_queue(subscriber, "x")
    assert host.nodes.resolve_node("x", NOW).queue is host.queues["x"]
    assert host.nodes.resolve_node("x", NOW, routing_type="anycast").queue is host.queues["x"]
    assert host.nodes.resolve_node("x", NOW, routing_type="multicast").node is host.addresses["x"]
    assert host.nodes.resolve_node("/queues/x", NOW, routing_type="multicast").queue is host.queues["x"]
    for kind, key in (("queue", ""), ("topic", "x")):
        node = host.nodes.resolve_node(spellings[kind], NOW)
        assert node.exchange == key
        message = note(kind)
        host.publisher.publish(message, host.route(node.exchange, node.routing_key, node.routing_type), NOW)
    assert held(host, "x", "subscriber") == [["queue"], ["topic"]]


# ---------------------------------------------------------------------- dead-letter and expiry queues


def test_dead_letter_and_expiry_queues_by_original_address():
    host = make_host(
        {
            "orders.#": {
                "dead-letter-address": "dead", "expiry-address": "late", "auto-create-dead-letter-resources": True,
                "auto-create-expiry-resources": True, "expiry-queue-suffix": ".old",
            }
        }
    )  # fmt: skip
    (queue,) = declare(host, "orders.eu")
    for reason, target in ((RemovalReason.DEAD_LETTERED, "dead"), (RemovalReason.EXPIRED, "late")):
        for _ in range(2):
            host.nodes.ensure_target(queue, note(to="orders.eu"), target, reason)
    assert host.effects.created == ["dead", "DLQ.orders.eu", "late", "EXP.orders.eu.old"]
    assert host.effects.bound == [("dead", "DLQ.orders.eu"), ("late", "EXP.orders.eu.old")]
    own = {"_AMQ_ORIG_ADDRESS": "orders.eu"}
    assert send(host, "dead", "A", **own) == 1
    assert send(host, "dead", "B", _AMQ_ORIG_ADDRESS="orders.us") == 0
    assert held(host, "DLQ.orders.eu") == [["A"]]
    host.nodes.ensure_target(queue, note(to="dead"), "dead", RemovalReason.DEAD_LETTERED)
    host.nodes.ensure_target(queue, note(to="o'hara"), "elsewhere", RemovalReason.DEAD_LETTERED)
    assert len(host.effects.created) == 4
    host.nodes.ensure_target(queue, note(to="o'hara"), "dead", RemovalReason.DEAD_LETTERED)
    assert send(host, "dead", "C", _AMQ_ORIG_ADDRESS="o'hara") == 1


def test_what_cannot_be_written_down_does_not_exist():
    host = make_host({"news": {"retroactive-message-count": 5}})

    def refuse(made):
        raise OSError(made.name)

    host.effects.queue_created = host.effects.address_created = refuse
    for name in ("q", "topic://t"):
        with pytest.raises(OSError, match=name[-1]):
            host.nodes.resolve_node(name, NOW)
    host.nodes.declare_address("news")
    with pytest.raises(OSError, match="retroactive"):
        send(host, "news")
    assert host.queues == {}
    assert list(host.addresses) == ["news"]
    assert send(host, "news") == 0  # without a ring until its settings change


def test_no_queues_unless_the_settings_ask_for_them():
    host = make_host({"q": {"dead-letter-address": "dead"}})
    (queue,) = declare(host, "q")
    host.nodes.ensure_target(queue, note(to="q"), "dead", RemovalReason.DEAD_LETTERED)
    assert host.effects.created == []


def test_an_empty_name_makes_nothing():
    host = make_host()
    for name in ("", "::"):
        with pytest.raises(InvalidArgument, match="an empty name leads nowhere"):
            host.nodes.resolve_node(name, NOW)
    assert host.queues == {}
