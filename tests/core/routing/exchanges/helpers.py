"""Bindings for one exchange, without a virtual host."""

from __future__ import annotations

from annulet.core.routing.bindings import Binding
from tests.core.helpers import make_queue


def bind(exchange, name, routing_key="", **arguments):
    """Add a binding to a queue of this name and return it."""
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    binding = Binding(exchange, make_queue(name=name), None, routing_key, named)
    exchange.add(binding)
    return binding


def matched(exchange, routing_key="", **headers):
    """Names of the queues a message reaches, in order."""
    return [binding.destination_name for binding in exchange.match(routing_key, headers)]
