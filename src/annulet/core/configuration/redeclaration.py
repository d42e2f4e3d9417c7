"""Redeclaration: the same settings are accepted, others are refused by name, with both values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.errors import PreconditionFailed
from annulet.core.configuration.arguments import describe
from annulet.core.configuration.arguments.table import BY_NAME, PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.base.settings import QueueSettings


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


def require_same_settings(
    what: str, received: QueueSettings, declared: QueueSettings, current: QueueSettings, origins: Mapping[str, str]
) -> None:
    """Raise :class:`PreconditionFailed` naming the first setting that differs, by its canonical argument.

    A setting may be given as it was ``declared``, and as it is ``current``: an operator, a policy or an address setting
    may have changed it since. ``origins`` has the source of the value in force, by field.
    """
    if received == declared:
        return
    wanted, first, now = describe(received), describe(declared), describe(current)
    for name in sorted({*wanted, *first}):
        value = wanted.get(name)
        if value in (first.get(name), now.get(name)):
            continue
        if now.get(name) == first.get(name):
            require_same(name, what, value, now.get(name))
        setting = BY_NAME.get(name.removeprefix(PREFIX))
        origin = "" if setting is None else f", by {origins.get(setting.field, 'default')}"
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {what}: received {_spell(value)} but current is {_spell(now.get(name))}"
            f"{origin}, and it was declared with {_spell(first.get(name))}; declare it with one of these, passively, "
            "or delete it first"
        )
