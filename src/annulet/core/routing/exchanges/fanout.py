"""Fanout exchange: every binding matches (AMQP 0-9-1 §3.1.3.2)."""

from __future__ import annotations

from annulet.core.base.steps import Steps
from annulet.core.message.message import PropertyValue
from annulet.core.routing.bindings import Binding
from annulet.core.routing.exchanges.exchange import Exchange


class FanoutExchange(Exchange):
    """Routes to all bindings, regardless of routing keys."""

    type_name = "fanout"

    def index(self, binding: Binding) -> None:
        """Need nothing: ``bindings`` is the index."""

    def unindex(self, binding: Binding) -> None:
        """Need nothing: ``bindings`` is the index."""

    def match(self, routing_key: str, headers: dict[str, PropertyValue], steps: Steps | None = None) -> list[Binding]:
        """Return all bindings."""
        del routing_key, headers, steps
        return list(self.bindings.values())
