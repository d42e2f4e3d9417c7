"""Declaring again what exists: the same is fine, everything else is refused by name, with both values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.arguments import describe
from annulet.core.errors import PreconditionFailed

if TYPE_CHECKING:
    from annulet.core.settings import QueueSettings


def _spell(value: object) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower()}'" if isinstance(value, bool) else f"'{value}'"


def require_same(argument: str, what: str, received: object, current: object) -> None:
    """Raise :class:`PreconditionFailed` in RabbitMQ's words when a redeclaration differs."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{argument}' for {what}: received {_spell(received)} but current is {_spell(current)}; "
            "declare it with the current value, passively, or delete it first"
        )


def require_same_settings(what: str, received: QueueSettings, current: QueueSettings) -> None:
    """Raise :class:`PreconditionFailed` naming the first setting that differs, by its canonical argument."""
    if received == current:
        return
    wanted, existing = describe(received), describe(current)
    for name in sorted({*wanted, *existing}):
        require_same(name, what, wanted.get(name), existing.get(name))
