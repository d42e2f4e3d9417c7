"""Names of addresses as clients write them."""

from __future__ import annotations

import pytest

from annulet.core.routing.address_names import (
    AddressPatterns,
    is_wildcard,
    names_management,
    parse_address_name,
    split_qualified,
)


@pytest.mark.parametrize(
    ("text", "kind", "name", "rest"),
    [
        ("orders", "node", "orders", ("", "", "")),
        ("news::mine", "queue", "mine", ("news", "", "")),
        ("::mine", "queue", "mine", ("", "", "")),
        ("/queues/a/b", "queue", "a/b", ("", "", "")),
        ("/queues/a%2Fb%25", "queue", "a/b%", ("", "", "")),
        ("/queues/100%", "queue", "100%", ("", "", "")),
        ("/exchanges/a%2Fb/k%2Fl", "exchange", "a/b", ("", "k/l", "")),
        ("/exchange/e%2F/k%2F", "exchange", "e%2F", ("", "k%2F", "")),
        ("/queue/a%2Fb", "queue", "a%2Fb", ("", "", "anycast")),
        ("/queue/a", "queue", "a", ("", "", "anycast")),
        ("/amq/queue/a", "queue", "a", ("", "", "")),
        ("queue://a", "node", "a", ("", "", "anycast")),
        ("topic://a.b", "node", "a.b", ("", "", "multicast")),
        ("/topic/a.b", "node", "a.b", ("", "", "multicast")),
        ("/exchanges/e/k/l", "exchange", "e", ("", "k/l", "")),
        ("/exchange/e", "exchange", "e", ("", "", "")),
        ("/queues/", "node", "/queues/", ("", "", "")),
        ("", "node", "", ("", "", "")),
    ],
)
def test_spellings(text, kind, name, rest):
    parsed = parse_address_name(text)
    assert (parsed.kind, parsed.name) == (kind, name)
    assert (parsed.address, parsed.routing_key, parsed.routing_type) == rest


def test_only_two_colons_qualify():
    assert split_qualified("a::b::c") == ("a", "b::c")
    assert split_qualified("a:b") is None


@pytest.mark.parametrize(("name", "wild"), [("a.b", False), ("a.*", True), ("#", True), ("a.b#", False), ("", False)])
def test_a_wildcard_is_a_whole_word(name, wild):
    assert is_wildcard(name) is wild


def test_patterns_are_found_by_the_names_that_fit():
    patterns = AddressPatterns()
    for pattern in ("news.#", "news.*", "*.sport", "news.#"):
        patterns.add(pattern)
    assert len(patterns) == 3
    assert sorted(patterns.fitting("news.sport")) == ["*.sport", "news.#", "news.*"]
    assert patterns.fitting("news") == ["news.#"]
    assert patterns.fitting("news.#") == ["news.*"]  # a name is not found by itself
    patterns.remove("news.#")
    patterns.remove("news.#")
    assert patterns.fitting("news") == []
    assert patterns.fitting("news.a.b") == []


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("$cbs", True),
        ("$management", True),
        ("/management", True),
        ("q/$management", True),
        ("management", False),
        ("$managements", False),
        ("q$management", False),
        ("", False),
    ],
)
def test_management_nodes_are_known_by_their_names(name, reserved):
    assert names_management(name) is reserved
