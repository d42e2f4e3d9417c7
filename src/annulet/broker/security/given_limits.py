"""Limits that operators give to users and virtual hosts at run time, in RabbitMQ's names and meaning.

A negative value, and no value, mean no limit; 0 lets nothing in. Looked at when a connection, a channel or a queue is
made: existing ones stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument
from annulet.store.database.definitions import USER, VIRTUAL_HOST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.store.database.definitions import LimitRecord

MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"

LIMITS: Final = {USER: (MAX_CONNECTIONS, MAX_CHANNELS), VIRTUAL_HOST: (MAX_CONNECTIONS, MAX_QUEUES)}
"""The limits of each kind."""

VALUE_MOST: Final = (1 << 31) - 1
"""The highest limit: above any number of connections, channels or queues a process can have."""

UNLIMITED: Final = -1


class GivenLimits:
    """The limits of this moment. Belongs to the event loop; may be read from any thread."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], int] = {}

    def replace(self, records: Iterable[LimitRecord]) -> None:
        """Let these hold in place of all before."""
        self._values = {(record.kind, record.name, record.limit): record.value for record in records}

    def of_user(self, name: str, limit: str) -> int:
        """Return a limit of a user, :data:`UNLIMITED` without one."""
        return self._of(USER, name, limit)

    def of_host(self, name: str, limit: str) -> int:
        """Return a limit of a virtual host, :data:`UNLIMITED` without one."""
        return self._of(VIRTUAL_HOST, name, limit)

    def all_of(self, kind: str) -> dict[str, dict[str, int]]:
        """Return the limits of a kind by name of the user or virtual host."""
        found: dict[str, dict[str, int]] = {}
        for (of_kind, name, limit), value in sorted(self._values.items()):
            if of_kind == kind:
                found.setdefault(name, {})[limit] = value
        return found

    def _of(self, kind: str, name: str, limit: str) -> int:
        return max(UNLIMITED, self._values.get((kind, name, limit), UNLIMITED))


def check_limit(kind: str, limit: str, value: object) -> int:
    """Return the value of a limit that an operator gives. Raises :class:`InvalidArgument`."""
    if limit not in LIMITS[kind]:
        raise InvalidArgument(f"limit {limit!r} is unknown; take one of {', '.join(LIMITS[kind])}")
    if isinstance(value, bool) or not isinstance(value, int) or value > VALUE_MOST:
        raise InvalidArgument(
            f"limit '{limit}' is {value!r}; give a whole number up to {VALUE_MOST}, or -1 for no limit"
        )
    return max(UNLIMITED, value)
