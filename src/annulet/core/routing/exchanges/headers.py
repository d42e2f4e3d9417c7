"""Headers exchange: the binding's arguments are compared with the message's headers (AMQP 0-9-1 §3.1.3.4, RabbitMQ)."""

from __future__ import annotations

from typing import Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.steps import Steps
from annulet.core.message.message import PropertyValue
from annulet.core.routing.bindings import BINDING_ARGUMENTS, Binding
from annulet.core.routing.exchanges.exchange import Exchange

STEPS_AT_ONCE: Final = 1000
"""Conditions after which the steps of a message are asked: some 0.2 ms."""

MATCH_MODES: Final = ("all", "any", "all-with-x", "any-with-x")


def equal_values(left: PropertyValue, right: PropertyValue) -> bool:
    """Compare as RabbitMQ does: numbers by value whatever their width, truth values never equal numbers."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str) and isinstance(right, bytes):
        return left.encode() == right
    if isinstance(left, bytes) and isinstance(right, str):
        return left == right.encode()
    return left == right


class HeadersPattern:
    """The arguments of one binding, read once."""

    __slots__ = ("match_all", "wanted")

    def __init__(self, arguments: dict[str, PropertyValue]) -> None:
        mode = arguments.get("x-match", "all")
        if mode not in MATCH_MODES:
            raise InvalidArgument(f"invalid x-match field value {mode!r}; expected one of {', '.join(MATCH_MODES)}")
        assert isinstance(mode, str)
        self.match_all = mode.startswith("all")
        # arguments of the binding itself never count; other x- headers only in the x modes (RabbitMQ 3.10)
        self.wanted = [
            (name, value)
            for name, value in arguments.items()
            if name not in BINDING_ARGUMENTS and (mode.endswith("-with-x") or not name.startswith("x-"))
        ]

    def fits(self, headers: dict[str, PropertyValue]) -> bool:
        """Return whether the headers match. Without conditions ``all`` fits everything and ``any`` nothing."""
        for name, value in self.wanted:
            # a void value requires presence only (AMQP 0-9-1 §3.1.3.4)
            hit = name in headers and (value is None or equal_values(value, headers[name]))
            if hit != self.match_all:
                return hit
        return self.match_all


class HeadersExchange(Exchange):
    """Routes by headers; the routing key plays no part."""

    type_name = "headers"
    uses_headers = True

    def prepare(self) -> None:
        """Start without patterns."""
        self._patterns: dict[Binding, HeadersPattern] = {}

    def index(self, binding: Binding) -> None:
        """Read the binding's arguments. Raises :class:`InvalidArgument` for an unknown ``x-match``."""
        self._patterns[binding] = HeadersPattern(binding.arguments)

    def unindex(self, binding: Binding) -> None:
        """Drop the parsed arguments."""
        del self._patterns[binding]

    def match(self, routing_key: str, headers: dict[str, PropertyValue], steps: Steps | None = None) -> list[Binding]:
        """Return the bindings whose conditions are met. A step is one condition that is looked at, and each binding."""
        del routing_key
        found: list[Binding] = []
        taken = 0
        for binding, pattern in self._patterns.items():
            fits = match_all = pattern.match_all
            for name, value in pattern.wanted:  # as in HeadersPattern.fits, counted
                taken += 1
                hit = name in headers and (value is None or equal_values(value, headers[name]))
                if hit != match_all:
                    fits = hit
                    break
            if fits:
                found.append(binding)
            taken += 1
            if taken > STEPS_AT_ONCE and steps is not None:
                steps.take(taken)
                taken = 0
        if steps is not None:
            steps.take(taken)
        return found
