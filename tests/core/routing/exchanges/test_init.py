"""The table of kinds."""

from __future__ import annotations

from annulet.core.routing import exchanges
from annulet.core.routing.routing_graph import STANDARD_EXCHANGES


def test_the_kinds_of_the_standard_are_there():
    assert set(exchanges.EXCHANGE_TYPES) == {"address", "direct", "fanout", "topic", "headers"}


def test_every_exchange_a_virtual_host_begins_with_has_a_kind():
    assert {kind for _, kind in STANDARD_EXCHANGES} <= set(exchanges.EXCHANGE_TYPES)


def test_every_kind_is_exported_and_is_an_exchange():
    for kind in exchanges.EXCHANGE_TYPES.values():
        assert issubclass(kind, exchanges.Exchange)
        assert getattr(exchanges, kind.__name__) is kind
