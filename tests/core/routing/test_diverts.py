"""Diverts: what they copy, what they take away, where it goes."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.routing.diverts import Divert, DivertTable
from tests.core.helpers import NOW
from tests.core.node_helpers import address, declare, held, make_host, note, refused, send


def divert(host, name, watched, *targets, **options):
    host.add_divert(Divert(name, watched, targets, **options))


def test_a_copy_goes_on_and_the_original_stays():
    host = make_host()
    address(host, "orders", "shop")
    address(host, "audit", "log")
    divert(host, "watch", "orders", "audit")
    assert send(host, "orders", "A") == 2
    assert held(host, "shop", "log") == [["A"], ["A"]]
    (copy,) = host.queues["log"].order.entries()
    assert copy.message.header == b"{'_AMQ_ORIG_ADDRESS': 'orders'}"
    assert copy.message.origin.exchange == "audit"
    assert host.queues["shop"].order.first().message.header == b""


def test_exclusive_diverts_come_first_and_take_the_message_away():
    host = make_host()
    address(host, "orders", "shop")
    declare(host, "one", "two", "three")
    divert(host, "plain", "orders", "three")
    divert(host, "first", "orders", "one", exclusive=True, selector="colour = 'red'")
    divert(host, "second", "orders", "two", exclusive=True)
    assert send(host, "orders", "A", colour="red") == 2
    assert send(host, "orders", "B", colour="blue") == 1
    assert held(host, "shop", "one", "two", "three") == [[], ["A"], ["A", "B"], []]
    host.remove_divert("second")
    assert send(host, "orders", "C", colour="blue") == 2
    assert held(host, "shop", "three") == [["C"], ["C"]]


def test_several_targets_get_a_copy_each():
    host = make_host()
    declare(host, "q", "one", "two")
    divert(host, "both", "q", "one", "two")
    assert send(host, "q", "A") == 3
    assert held(host, "q", "one", "two") == [["A"]] * 3


def test_diverts_in_a_circle_copy_once_each():
    host = make_host()
    declare(host, "a", "b")
    divert(host, "there", "a", "b")
    divert(host, "back", "b", "a")
    assert send(host, "a", "A") == 3
    assert held(host, "a", "b") == [["A", "A"], ["A"]]


def test_a_divert_may_watch_by_wildcard():
    host = make_host()
    declare(host, "news.sport", "news", "all")
    divert(host, "every", "news.#", "all")
    send(host, "news.sport", "A")
    send(host, "news", "B")
    assert held(host, "all") == [["A", "B"]]
    host.remove_divert("every")
    assert send(host, "news", "C") == 1


def test_a_divert_may_watch_an_exchange_and_keeps_the_routing_key():
    host = make_host()
    (queue,) = declare(host, "q")
    host.declare_exchange("words", "topic")
    host.bind_queue(queue, "words", "a.*")
    divert(host, "d", "amq.fanout", "words")
    message = note("A")
    message.origin.routing_key = "a.b"
    assert host.publisher.publish(message, host.route("amq.fanout", "a.b"), NOW) == 1
    assert held(host, "q") == [["A"]]


@pytest.mark.parametrize(
    ("routing_type", "sent_with", "reached"),
    [
        ("strip", "anycast", ["one", "many"]),
        ("PASS", "anycast", ["one"]),
        ("pass", "", ["one", "many"]),
        ("anycast", "", ["one"]),
        ("multicast", "anycast", ["many"]),
    ],
)
def test_the_routing_type_of_a_copy(routing_type, sent_with, reached):
    host = make_host()
    host.nodes.declare_address("source", ("anycast", "multicast"))
    host.nodes.declare_address("target", ("anycast", "multicast"))
    for name, kind in (("one", "anycast"), ("many", "multicast")):
        (queue,) = declare(host, name)
        host.nodes.attach_queue(queue, "target", kind)
    divert(host, "d", "source", "target", routing_type=routing_type)
    send(host, "source", routing_type=sent_with)
    assert [name for name in ("one", "many") if host.queues[name].order.count] == reached


def test_a_refusal_at_the_target_refuses_the_send():
    host = make_host()
    declare(host, "q")
    declare(host, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    divert(host, "d", "q", "full")
    send(host, "q", "A")
    assert "queue 'full' is full" in refused(host, "q", "B")
    assert held(host, "q", "full") == [["A"], ["A"]]


def test_two_copies_that_fit_alone_but_not_together_are_refused():
    host = make_host()
    declare(host, "q")
    declare(host, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    divert(host, "one", "q", "full")
    divert(host, "two", "q", "full")
    refused(host, "q", "A")
    assert held(host, "q", "full") == [[], []]


def test_duplicate_detection_of_the_new_address_applies():
    host = make_host({"q": {"id-cache-size": 0}})
    declare(host, "q", "copies")
    divert(host, "d", "q", "copies")
    send(host, "q", "A", duplicate_id="1")
    send(host, "q", "B", duplicate_id="1")
    assert held(host, "q", "copies") == [["A", "B"], ["A"]]


def test_a_target_that_is_not_there_takes_nothing():
    host = make_host()
    declare(host, "q")
    divert(host, "d", "q", "later", exclusive=True)
    assert send(host, "q", "A") == 0
    declare(host, "later")
    assert send(host, "q", "B") == 1
    assert held(host, "q", "later") == [[], ["B"]]


def test_an_internal_exchange_is_open_to_diverts():
    host = make_host()
    (queue,) = declare(host, "q")
    declare(host, "kept")
    host.declare_exchange("inside", "fanout", internal=True)
    host.bind_queue(queue, "inside", "")
    divert(host, "d", "kept", "inside")
    assert send(host, "kept", "A") == 2
    assert len(host.targets(note(), host.route("", "kept"))) == 2


def test_targets_include_those_of_copies():
    host = make_host()
    address(host, "orders", "shop")
    declare(host, "log", "more")
    divert(host, "watch", "orders", "log", selector="colour = 'red'")
    divert(host, "on", "log", "more", "orders", exclusive=True)
    route = host.route_to("orders", "")
    assert [queue.name for queue in host.targets(note(colour="red"), route)] == ["shop", "more"]
    assert [queue.name for queue in host.targets(note(), route)] == ["shop"]


def test_names_are_unique_and_declaring_again_is_fine():
    host = make_host()
    divert(host, "d", "a", "b")
    divert(host, "d", "a", "b")
    with pytest.raises(PreconditionFailed, match="divert 'd' exists with other settings, on address 'a'"):
        divert(host, "d", "a", "c")
    with pytest.raises(NotFound, match="no divert 'x'; there are d"):
        host.remove_divert("x")
    assert [item.name for item in host.diverts] == ["d"]


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("d", "", ("b",)), {}, "needs an address"),
        (("d", "a", ()), {}, "at least one forwarding address"),
        (("d", "a", ("",)), {}, "at least one forwarding address"),
        (("d", "a", ("b",)), {"routing_type": "unicast"}, "strip, pass, anycast, multicast, not 'unicast'"),
        (("d", "a", ("b",)), {"selector": "x ="}, "filter of divert 'd' is no selector"),
    ],
)
def test_refused(arguments, options, text):
    with pytest.raises(InvalidArgument, match=text):
        Divert(*arguments, **options)


def test_a_table_forgets_the_pattern_with_its_last_divert():
    table = DivertTable()
    for name in "ab":
        table.add(Divert(name, "x.*", ("y",)))
    table.remove("a")
    assert [item.name for item in table.watching("x.1")] == ["b"]
    table.remove("b")
    assert table.watching("x.1") == table.watching("x.*") == []
    assert len(table) == 0


def test_an_exclusive_divert_takes_away_what_comes_by_further_keys():
    host = make_host()
    host.declare_exchange("e", "direct")
    first, second = declare(host, "first", "second")
    host.bind_queue(first, "e", "one")
    host.bind_queue(second, "e", "two")
    address(host, "b", "copies")
    host.add_divert(Divert("d", "e", ("b",), exclusive=True))
    assert host.publisher.publish(note("m", to="e"), host.route("e", "one"), NOW, further_keys=("two",)) == 1
    assert held(host, "first", "second", "copies") == [[], [], ["m"]]


def test_an_exclusive_divert_takes_away_what_comes_by_several_edges():
    host = make_host()
    host.declare_exchange("source", "fanout")
    host.declare_exchange("watched", "direct")
    (queue,) = declare(host, "q")
    for key in ("one", "two"):
        host.bind_queue(queue, "watched", key)
        host.bind_exchange("watched", "source", "", {"x-replacement-routing-key": key})
    address(host, "b", "copies")
    host.add_divert(Divert("d", "watched", ("b",), exclusive=True))
    assert send(host, "source") == 1
    assert held(host, "q", "copies") == [[], ["m"]]
