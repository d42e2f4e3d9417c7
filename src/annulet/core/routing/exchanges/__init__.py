"""Exchanges: one module per matching rule."""

from __future__ import annotations

from typing import Final

from annulet.core.routing.exchanges.address import Address
from annulet.core.routing.exchanges.direct import DirectExchange
from annulet.core.routing.exchanges.exchange import Exchange
from annulet.core.routing.exchanges.fanout import FanoutExchange
from annulet.core.routing.exchanges.headers import HeadersExchange
from annulet.core.routing.exchanges.topic import TopicExchange

EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    "address": Address,
    "direct": DirectExchange,
    "fanout": FanoutExchange,
    "headers": HeadersExchange,
    "topic": TopicExchange,
}
"""Node classes by the type name clients declare (AMQP 0-9-1 §3.1.3; ``address`` is ours)."""

__all__ = [
    "EXCHANGE_TYPES",
    "Address",
    "DirectExchange",
    "Exchange",
    "FanoutExchange",
    "HeadersExchange",
    "TopicExchange",
]
