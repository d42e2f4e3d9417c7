"""Fanout: everything that is bound."""

from __future__ import annotations

from annulet.core.routing.exchanges import FanoutExchange
from tests.core.routing.exchanges.helpers import bind, matched


def test_keys_and_headers_make_no_difference():
    exchange = FanoutExchange("e")
    assert matched(exchange, "k") == []
    bindings = [bind(exchange, "b", "x"), bind(exchange, "a", "y", a=1)]
    assert matched(exchange, "k", h=1) == matched(exchange) == ["b", "a"]
    exchange.remove(bindings[0])
    assert matched(exchange) == ["a"]


def test_the_answer_does_not_change_under_whoever_reads_it():
    exchange = FanoutExchange("e")
    first = bind(exchange, "a")
    answer = exchange.match("", {})
    bind(exchange, "b")
    assert answer == [first]
