"""Where a message would go, and why: the same queues as those of a real one, and a reason for each edge."""

from __future__ import annotations

import pytest

from annulet.broker.operation.route_explaining import EDGES_MAX, Explanation, explain_route
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.routing.diverts import Divert
from tests.core.node_helpers import address, declare, make_host, note

SELECTOR = "x-filter-jms-selector"


def explained(host: VirtualHost, exchange: str, key: str = "", routing_type: str = "", **properties) -> Explanation:
    return explain_route(host, note(to=exchange, **properties), host.route(exchange, key, routing_type))


def reasons(found: Explanation) -> list[tuple[str, bool, str]]:
    return [(edge.target, edge.fits, edge.why) for edge in found.edges]


def furnished() -> VirtualHost:
    """A host with each kind of edge."""
    host = make_host({"lost": {"dead-letter-address": "rescue", "send-to-dla-on-no-route": True}})
    declare(host, "a", "b", "c", "eu", "rest", "aside", "copy", "rescue", "watched")
    declare(host, "choosy", arguments={"x-selector": "region = 'eu'"})
    for name, kind in (("topics", "topic"), ("direct", "direct"), ("all", "fanout"), ("heads", "headers")):
        host.declare_exchange(name, kind)
    host.declare_exchange("fallback", "topic", arguments={"alternate-exchange": "all"})
    host.bind_queue(host.queues["a"], "topics", "order.#")
    host.bind_queue(host.queues["b"], "topics", "*.paid")
    host.bind_queue(host.queues["eu"], "topics", "order.#", {SELECTOR: "region = 'eu'"})
    host.bind_exchange(host.exchanges["direct"].name, "topics", "order.*", {"x-replacement-routing-key": "new"})
    host.bind_queue(host.queues["c"], "direct", "new")
    host.bind_queue(host.queues["rest"], "all", "")
    host.bind_queue(host.queues["choosy"], "all", "")
    host.bind_queue(host.queues["a"], "heads", "", {"region": "eu", "kind": "x"})
    host.bind_queue(host.queues["b"], "heads", "", {"region": "eu", "kind": "x", "x-match": "any"})
    address(host, "stock", "stock.1", "stock.2", types=("anycast",))
    address(host, "news", "news.1", "news.2")
    address(host, "news.#", "everything")
    host.nodes.declare_address("lost", ("multicast",))
    host.add_divert(Divert("copier", "watched", ("copy",)))
    host.add_divert(Divert("only-eu", "news", ("aside",), selector="region = 'eu'", exclusive=True))
    return host


SENDS = [
    ("topics", "order.paid"),
    ("topics", "order"),
    ("topics", "nothing.here.at.all"),
    ("direct", "new"),
    ("direct", "old"),
    ("all", "x"),
    ("heads", ""),
    ("fallback", "x"),
    ("", "a"),
    ("", "stock"),
    ("", "stock::stock.2"),
    ("", "stock::a"),
    ("", "stock::gone"),
    ("", "nowhere"),
    ("", "watched"),
    ("", "news.local"),
    ("news", "news"),
    ("stock", "stock"),
    ("lost", "lost"),
]


@pytest.mark.parametrize("region", ["eu", "us"])
@pytest.mark.parametrize(("exchange", "key"), SENDS)
def test_the_queues_are_those_of_a_real_message(exchange: str, key: str, region: str) -> None:
    host = furnished()
    found = explained(host, exchange, key, region=region)
    assert not any(queue.order.count for queue in host.queues.values()), "it was sent"
    host.publisher.publish(note(to=exchange, region=region), host.route(exchange, key), 1)
    assert sorted(found.queues) == sorted(name for name, queue in host.queues.items() if queue.order.count)
    assert {edge.target for edge in found.edges if edge.fits and edge.kind == "queue"} == set(found.queues)
    assert found.edges
    assert found.left_out == 0


def test_each_edge_has_its_reason() -> None:
    host = furnished()
    assert set(reasons(explained(host, "topics", "order.paid", region="us"))) == {
        ("a", True, "the pattern covers the key"),
        ("b", True, "the pattern covers the key"),
        ("direct", True, "the pattern covers the key; it continues with the key 'new'"),
        ("eu", False, "the filter of the binding refuses it: region = 'eu'"),
        ("c", True, "the keys are equal"),
    }
    assert ("b", False, "the pattern does not cover the key") in reasons(explained(host, "topics", "order.x.y"))
    assert set(reasons(explained(host, "heads", region="eu"))) == {
        ("a", False, "1 of 2 headers match, all needed"),
        ("b", True, "1 of 2 headers match, any needed"),
    }
    assert ("choosy", False, "the selector of the queue refuses it: region = 'eu'") in reasons(explained(host, "all"))
    assert reasons(explained(host, "fallback", "x"))[0] == (
        "all",
        True,
        "no binding took it, so the alternate exchange gets it",
    )
    assert reasons(explained(host, "", "nowhere")) == [("nowhere", False, "no queue and no address has this name")]
    assert reasons(explained(host, "", "stock::a")) == [("a", False, "the queue is none of the address 'stock'")]
    assert reasons(explained(host, "lost", "lost"))[0][::2] == (
        "rescue",
        "no queue took it: the settings of the address send it to the dead-letter address",
    )


def test_an_alternate_exchange_says_why_it_gets_nothing() -> None:
    host = furnished()
    host.bind_queue(host.queues["a"], "fallback", "x")
    assert reasons(explained(host, "fallback", "x"))[-1] == (
        "all",
        False,
        "a binding took it, so the alternate exchange gets nothing",
    )


def test_copies_of_diverts_are_followed() -> None:
    host = furnished()
    found = explained(host, "", "watched")
    met = [(edge.target, edge.copy_of) for edge in found.edges]
    assert met == [("copier", ""), ("watched", ""), ("copy", "copier")]
    aside = explained(host, "news", "news", region="eu")
    assert aside.queues == ["aside"]
    assert reasons(explained(host, "news", "news", region="us"))[0] == (
        "only-eu",
        False,
        "the filter of the divert refuses it: region = 'eu'",
    )


def test_whose_turn_it_is_stays() -> None:
    host = furnished()
    for _ in range(2):
        found = explained(host, "", "stock")
        assert found.queues == ["stock.1"]
        assert reasons(found)[-1] == ("stock.2", False, "another anycast queue of the address has its turn")
    only_multicast = explained(host, "stock", "stock", "multicast")
    assert only_multicast.queues == []
    assert {why for _, _, why in reasons(only_multicast)} == {"it is sent as multicast only"}


def test_a_full_queue_says_that_it_would_refuse() -> None:
    host = make_host()
    declare(host, "full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    host.publisher.publish(note(), host.route("", "full"), 1)
    found = explained(host, "", "full")
    assert found.queues == ["full"]
    assert "full" in found.refusals["full"]


def test_further_keys_are_followed_too() -> None:
    host = furnished()
    found = explain_route(host, note(), host.route("", "a"), ("b", "nowhere"))
    assert found.queues == ["a", "b"]
    assert [edge.target for edge in found.edges] == ["a", "b", "nowhere"]


def test_an_explanation_is_bounded() -> None:
    host = make_host()
    host.declare_exchange("direct", "direct")
    (queue,) = declare(host, "q")
    for number in range(EDGES_MAX + 5):
        host.bind_queue(queue, "direct", str(number))
    found = explained(host, "direct", "0")
    assert (len(found.edges), found.left_out) == (EDGES_MAX, 5)
    assert found.edges[0].fits
    assert found.queues == ["q"]
