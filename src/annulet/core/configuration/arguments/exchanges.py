"""Arguments of an exchange declaration."""

from __future__ import annotations

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.values import Arguments


def parse_alternate_exchange(arguments: Arguments) -> str | None:
    """Read the arguments of an exchange; return its alternate exchange, ``None`` when it has none.

    Other arguments play no part, as in RabbitMQ. Raises :class:`InvalidArgument` when it is not a string, and for
    RabbitMQ's delayed exchange: there the exchange delays, here every queue does.
    """
    if "x-delayed-type" in arguments:
        raise InvalidArgument(
            "argument 'x-delayed-type' is not available: declare the exchange with its own type; queues keep messages "
            "with the header 'x-delay' until they are due"
        )
    value = arguments.get("alternate-exchange")
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"exchange argument 'alternate-exchange' must be the name of an exchange, not {value!r}")
    return value
