"""Direct exchange: the routing key equals the binding's (AMQP 0-9-1 §3.1.3.1)."""

from __future__ import annotations

from annulet.core.base.steps import Steps
from annulet.core.message.message import PropertyValue
from annulet.core.routing.bindings import Binding
from annulet.core.routing.exchanges.exchange import Exchange


class DirectExchange(Exchange):
    """Routes by equality of the routing key. Binding arguments play no part."""

    type_name = "direct"

    def prepare(self) -> None:
        """Start without keys."""
        self._by_key: dict[str, dict[Binding, None]] = {}  # in the order the bindings were made

    def index(self, binding: Binding) -> None:
        """File the binding under its routing key."""
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def unindex(self, binding: Binding) -> None:
        """Remove the binding; its routing key is removed with the last one."""
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]

    def match(self, routing_key: str, headers: dict[str, PropertyValue], steps: Steps | None = None) -> list[Binding]:
        """Return the bindings of exactly this key."""
        del headers, steps
        return list(self._by_key.get(routing_key, ()))
