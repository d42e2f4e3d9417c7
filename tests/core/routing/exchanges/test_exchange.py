"""What all kinds of exchange have in common."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.routing.exchanges import EXCHANGE_TYPES, Exchange, HeadersExchange
from tests.core.routing.exchanges.helpers import bind, matched


@pytest.mark.parametrize("kind", EXCHANGE_TYPES.values(), ids=EXCHANGE_TYPES)
def test_bindings_come_and_go(kind):
    exchange = kind("e")
    bindings = [bind(exchange, name, key) for name in "ab" for key in ("k", "")]
    assert list(exchange.bindings.values()) == bindings
    for binding in bindings:
        assert binding.key in exchange.bindings
        exchange.remove(binding)
        assert binding.key not in exchange.bindings
    assert matched(exchange, "k") == matched(exchange, "") == []


@pytest.mark.parametrize("kind", EXCHANGE_TYPES.values(), ids=EXCHANGE_TYPES)
def test_two_exchanges_share_nothing(kind):
    first, second = kind("1"), kind("2")
    bind(first, "q", "k")
    assert matched(second, "k") == []
    first.arguments["a"] = 1
    assert second.arguments == {}


@pytest.mark.parametrize(("name", "kind"), EXCHANGE_TYPES.items())
def test_the_name_clients_declare_is_the_kinds_own(name, kind):
    exchange = kind("e")
    assert exchange.type_name == name
    assert exchange.uses_headers is (name == "headers")


def test_a_refused_binding_leaves_nothing_behind():
    exchange = HeadersExchange("e")
    with pytest.raises(InvalidArgument):
        bind(exchange, "q", x_match="none")
    assert exchange.bindings == {}
    assert matched(exchange) == []


def test_it_says_its_kind_and_name():
    assert repr(HeadersExchange("orders")) == "<HeadersExchange 'orders'>"


def test_the_base_class_routes_nothing():
    exchange = Exchange("e")
    with pytest.raises(NotImplementedError):
        bind(exchange, "q")
    with pytest.raises(NotImplementedError):
        exchange.match("k", {})
    assert exchange.bindings == {}
