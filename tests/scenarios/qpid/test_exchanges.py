"""Rows 84 to 90 of the Broker-J scenarios: exchanges of every kind, with filters and replaced keys."""

from __future__ import annotations

import pytest

from annulet.core.host.virtual_host import VirtualHost
from tests.core.helpers import NOW, RecordingEffects, make_message

FILTER = "x-filter-jms-selector"


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


@pytest.fixture
def queue(host):
    return host.declare_queue("q", now=NOW)


def reached(host, exchange, key="", **headers):
    return sorted(queue.name for queue in host.targets(make_message(**headers), host.route(exchange, key)))


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("a.*.#.b", ["a.c.d.b", "a.c.d.d.b", "a.c.b"], ["a.b"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["b"]),
        ("a.*.#.b.c.#.d", ["a.a.b.c.d"], ["a.c.b.b.c"]),
        ("#.#", ["", "a", "a.b"], []),
        ("#.*", ["a", "a.b"], [""]),
        ("*.#", ["a", "a.b"], [""]),
    ],
    ids=["084", "084-hash", "085", "hashes", "hash-star", "star-hash"],
)
def test_topics(host, queue, pattern, fitting, others):
    host.bind_queue(queue, "amq.topic", pattern)
    assert [reached(host, "amq.topic", key) for key in fitting] == [["q"]] * len(fitting)
    assert [reached(host, "amq.topic", key) for key in others] == [[]] * len(others)


@pytest.mark.parametrize(
    ("mode", "hits"),
    [("all", [False, True, True, False, False]), ("any", [True, True, True, True, False])],
    ids=["086", "087"],
)
def test_headers(host, queue, mode, hits):
    host.bind_queue(queue, "amq.headers", "", {"x-match": mode, "A": "1", "B": "2"})
    sent = [
        {"A": "1"},
        {"A": "1", "B": "2"},
        {"A": "1", "B": "2", "C": "3"},
        {"A": "1", "B": "x"},
        {"A": "x", "B": "x"},
    ]
    assert [bool(reached(host, "amq.headers", **headers)) for headers in sent] == hits


def test_row_088_headers_with_filters(host, queue):
    for value in "12":
        host.bind_queue(queue, "amq.headers", "", {"F": None, FILTER: f"F = '{value}'"})
    assert [reached(host, "amq.headers", F=value) for value in ("1", "2", "3")] == [["q"], ["q"], []]
    assert reached(host, "amq.headers", G="1") == []


@pytest.mark.parametrize("keys", [("a", "b"), ("a", "a")], ids=["089-two-keys", "089-one-key"])
def test_an_unfiltered_binding_wins(host, queue, keys):
    host.bind_queue(queue, "amq.fanout", keys[0], {FILTER: "F = '1'"})
    host.bind_queue(queue, "amq.fanout", keys[1])
    assert reached(host, "amq.fanout") == ["q"]
    host.unbind_queue(queue, "amq.fanout", keys[1])
    assert reached(host, "amq.fanout") == []
    assert reached(host, "amq.fanout", F="1") == ["q"]


def test_row_090_a_replacement_key_holds_from_there_on(host, queue):
    second = host.declare_queue("second", now=NOW)
    host.bind_exchange("amq.direct", "amq.topic", "a.*", {"x-replacement-routing-key": "other"})
    host.bind_queue(queue, "amq.direct", "a.b")
    host.bind_queue(second, "amq.direct", "other")
    assert reached(host, "amq.topic", "a.b") == ["second"]
    assert host.route("amq.topic", "a.b").static
