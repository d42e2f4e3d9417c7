"""Arguments of a queue without effect: RabbitMQ's and a user's own, and misspelt ones that look like these.

RabbitMQ accepts any name and ignores unknown ones, and clients rely on it. A misspelt setting that is ignored loses
messages, so a name close to one of a setting is always refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.peers import ALIASES, DEAD_LETTER_SWITCH, LAST_VALUE_SWITCHES
from annulet.core.configuration.arguments.table import BY_NAME, PREFIX
from annulet.core.configuration.arguments.values import shown

REFUSE: Final = "refuse"
WARN: Final = "warn"
UNKNOWN_ARGUMENTS: Final = (WARN, REFUSE)
"""Treatment of an argument without effect: the queue is declared and the broker logs it, or refuses it."""

ACCEPT: Final = "accept"
"""Near misses are taken as well: for queues that were declared once, perhaps to a version with fewer settings."""

IDLE: Final = frozenset({"x-internal-purpose", "x-max-in-memory-bytes", "x-max-in-memory-length"})
"""RabbitMQ's arguments that change nothing here: bodies leave memory by the broker's own account."""

NEAR: Final = 0.8
"""Similarity without ``x-`` from which a name counts as a misspelt one (``difflib``): ``ringsize`` and ``max-lenght``
are above 0.9, ``max-prio`` is 0.8; names with only a common part, as ``retry-delay`` and ``expiry-delay``, are
below."""


def _settings() -> dict[str, str]:
    """Return the names with an effect, by their form without ``x-``."""
    aliases = [alias.name for alias in ALIASES.values() if alias.fields]
    names = [*(PREFIX + name for name in BY_NAME), *aliases, *LAST_VALUE_SWITCHES, DEAD_LETTER_SWITCH]
    return {name.removeprefix(PREFIX).lower(): name for name in reversed(names)}  # of two spellings the first


SETTINGS_BY_PLAIN_NAME: Final = _settings()


COMPARED_MAX: Final = 64
"""Arguments of one declaration that change nothing and are compared with the settings' names, 0.4 ms each.

A frame can contain thousands: later ones are accepted unchecked."""

REMEMBERED_NAMES: Final = 512
"""Names whose nearest setting is cached, because clients declare their queues repeatedly."""


@lru_cache(REMEMBERED_NAMES)
def near_miss(name: str) -> str:
    """Return the setting that ``name`` is nearly the name of; empty when it is none's."""
    plain = name.removeprefix(PREFIX).lower().replace("_", "-")
    found = get_close_matches(plain, SETTINGS_BY_PLAIN_NAME, n=1, cutoff=NEAR)
    return SETTINGS_BY_PLAIN_NAME[found[0]] if found else ""


def check_unknown(name: str, known: Iterable[str], unknown: str) -> None:
    """Refuse or accept an unknown name, depending on ``unknown``: REFUSE, WARN or ACCEPT.

    ``known`` are the names that a refusal compares it with. Raises :class:`InvalidArgument`.
    """
    if unknown == ACCEPT:
        return
    if name in IDLE:
        if unknown == WARN:
            return
        raise InvalidArgument(f"argument '{name}' changes nothing here; declare the queue without it")
    near = near_miss(name)
    if unknown == WARN and not near:
        return
    near = near or nearest(name, known)
    hint = f"did you mean '{near}'?" if near else "declare the queue without it"
    raise InvalidArgument(f"unknown queue argument {shown(name)}; {hint}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known argument most like ``name``, empty when none is."""
    names = list(known)
    found = get_close_matches(name, names, n=1) or get_close_matches(f"{PREFIX}{name}", names, n=1)
    return found[0] if found else ""
