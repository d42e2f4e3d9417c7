"""One definition of any kind, and what could not be taken from a document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

VIRTUAL_HOST: Final = "virtual host"
USER: Final = "user"
PERMISSION: Final = "permission"
VIRTUAL_HOST_LIMIT: Final = "virtual host limit"
USER_LIMIT: Final = "user limit"
GLOBAL_PARAMETER: Final = "global parameter"
POLICY: Final = "policy"
ADDRESS_SETTINGS: Final = "address settings"
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"
QUEUE_SETTINGS: Final = "queue settings"
DIVERT: Final = "divert"
BINDING: Final = "binding"

KINDS: Final = (
    VIRTUAL_HOST,
    USER,
    PERMISSION,
    VIRTUAL_HOST_LIMIT,
    USER_LIMIT,
    GLOBAL_PARAMETER,
    POLICY,
    ADDRESS_SETTINGS,
    EXCHANGE,
    QUEUE,
    QUEUE_SETTINGS,
    BINDING,
    DIVERT,
)
"""All kinds, in the order in which they are made: each needs only those before it. They are deleted backwards."""

TURN_SECONDS: Final = 0.004
"""Time of the loop for definitions, of each turn."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One definition. ``key`` tells it from the others of its kind; ``host`` is empty for kinds without one.

    ``value`` has what may differ while the key is the same.
    """

    kind: str
    host: str
    key: Key
    value: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name as people read it."""
        if self.kind == BINDING:
            source, _, destination, routing_key = self.key[:4]
            return f"{source} -> {destination}, key {routing_key!r}"
        return ": ".join(self.key)  # of a limit: whose it is, and which one

    @property
    def identity(self) -> tuple[str, str, Key]:
        """The key among all definitions."""
        return self.kind, self.host, self.key


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A part of a document that this broker cannot have, by name and reason."""

    kind: str
    host: str
    name: str
    reason: str
