"""The latest events of this process with an identifier, as its log has them, whatever level the log shows."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from annulet.broker.observing.message_ids import MESSAGE_IDS
from annulet.core.base.reply_names import is_reply_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from structlog.typing import EventDict

EVENTS_MAX: Final = 5000
"""Events that are kept: some minutes at the most lines a second that clients can cause, and 5 MB."""

CHARACTERS_MAX: Final = 256
"""Of one value, which a peer may have chosen."""

KINDS: Final = {
    "BRK": "broker",
    "MNG": "broker",
    "MST": "broker",
    "VHT": "virtual-host",
    "CON": "connection",
    "QUE": "queue",
    "EXH": "exchange",
    "BND": "binding",
    "SUB": "consumer",
    "SND": "sender",
    "CHN": "queue",
    "QUE-1016": "operation",
    "QUE-1017": "operation",
    "ANN-4021": "operation",
    "ANN-1": "broker",
    "ANN-2": "access",
    "ANN-3": "client",
    "ANN-4": "resource",
    "ANN-5": "storage",
    "ANN-6": "bulk",
    "ANN-9": "defect",
}
"""The kind of an event by its identifier, or by how this begins."""

KIND_NAMES: Final = tuple(sorted(set(KINDS.values())))

QUEUE_NAMES: Final = ("queue", "destination", "target")
"""Names under which events have a queue. One of direct reply-to is in no event: its name is the right to answer."""

HOST_NAMES: Final = ("vhost", "virtual_host", "host")
"""Names under which events have their virtual host."""


@cache
def kind_of(identifier: str) -> str:
    """Return the kind of events with an identifier, of which there are some hundred."""
    for length in (8, 5, 3):
        if found := KINDS.get(identifier[:length]):
            return found
    return "broker"


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    ``number``: ascending, over restarts too. ``at``: milliseconds since 1970. ``host``: of a virtual host, else empty.
    """

    number: int
    at: int
    id: str
    text: str
    level: str
    host: str
    values: dict[str, str | int | float | bool | None]

    @property
    def kind(self) -> str:
        """Its kind, one of :data:`KIND_NAMES`."""
        return kind_of(self.id)


class RecentEvents:
    """Keeps the latest events. Any thread may note one; the event loop reads.

    Numbers go on from the time of the start, in microseconds, so that a cursor of an earlier run is below all of them.
    """

    def __init__(self, most: int = EVENTS_MAX, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.forgotten = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=most)
        self._start = self._last = clock() // 1000

    def note(self, text: str, level: str, values: dict[str, Any], *, pattern: str = "") -> None:
        """Keep an event of the log, if it has an identifier: by its text, or by the ``pattern`` of its text."""
        known = MESSAGE_IDS.get(pattern or text)
        if known is None or any(is_reply_name(str(values.get(name, ""))) for name in QUEUE_NAMES):
            return
        host = next((str(values[name]) for name in HOST_NAMES if values.get(name)), "")
        kept = {name: _short(value) for name, value in values.items() if name not in HOST_NAMES and name[:1] != "_"}
        with self._lock:
            self._last += 1
            self.forgotten += len(self._events) == self._events.maxlen
            self._events.append(Event(self._last, self._clock() // 1_000_000, known, text, level, host, kept))

    def after(self, cursor: int) -> tuple[list[Event], int]:
        """Return the events behind a cursor, the number of one, and how many behind it are forgotten."""
        with self._lock:
            first = self._last - len(self._events) + 1
            found = list(islice(self._events, max(0, cursor - first + 1), None))
            return found, max(0, first - max(cursor, self._start) - 1)

    @property
    def last(self) -> int:
        """The number of the latest event: the cursor for those to come."""
        return self._last


NO_VALUES: Final = frozenset({"event", "exc_info", "exception", "stack", "level", "logger", "id", "timestamp"})
"""Members of a log line that are no values of its event."""

EVENTS: Final = RecentEvents()
"""Of this process."""


def record(_logger: Any, method: str, event: EventDict) -> EventDict:
    """Keep an event that is about to be logged, before the level of the log decides."""
    text, foreign = event.get("event"), event.get("_record")
    if isinstance(text, str):
        pattern = foreign.msg if isinstance(foreign, logging.LogRecord) and isinstance(foreign.msg, str) else ""
        level = foreign.levelname.lower() if isinstance(foreign, logging.LogRecord) else method
        EVENTS.note(
            text, level, {name: value for name, value in event.items() if name not in NO_VALUES}, pattern=pattern
        )
    return event


def _short(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}..."
