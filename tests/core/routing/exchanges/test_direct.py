"""Direct: equal keys."""

from __future__ import annotations

import pytest

from annulet.core.routing.exchanges import DirectExchange
from tests.core.routing.exchanges.helpers import bind, matched


def test_only_the_same_key_matches():
    exchange = DirectExchange("e")
    bind(exchange, "q", "a.b")
    assert matched(exchange, "a.b") == ["q"]
    for other in ("a.*", "A.B", "a.b ", "a", ""):
        assert matched(exchange, other) == []


def test_queues_of_one_key_come_in_the_order_they_were_bound():
    exchange = DirectExchange("e")
    bindings = [bind(exchange, name, "k") for name in "cab"]
    assert matched(exchange, "k") == ["c", "a", "b"]
    exchange.remove(bindings[1])
    assert matched(exchange, "k") == ["c", "b"]


def test_the_empty_key_is_a_key():
    exchange = DirectExchange("e")
    bind(exchange, "q", "")
    assert matched(exchange, "") == ["q"]
    assert matched(exchange, "k") == []


def test_arguments_make_two_bindings_of_one_key():
    exchange = DirectExchange("e")
    first, second = bind(exchange, "q", "k"), bind(exchange, "q", "k", a=1)
    assert len(exchange.bindings) == 2
    exchange.remove(first)
    assert matched(exchange, "k") == ["q"]
    exchange.remove(second)
    assert matched(exchange, "k") == []
    with pytest.raises(KeyError):
        exchange.remove(second)
