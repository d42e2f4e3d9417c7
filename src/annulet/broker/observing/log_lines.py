"""The newest lines of the broker's log in memory, for operators without a way to its standard error.

Lines of the broker's own loggers only: a program around it keeps its own. The level of the log holds here too.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from annulet.broker.observing.log_level import PACKAGE
from annulet.broker.observing.message_ids import MESSAGE_IDS

LOG_LINES_MAX: Final = 1000
"""Lines that are kept: hours of a quiet broker, and some 300 KB."""

LOG_LINE_CHARACTERS_MAX: Final = 2000
"""Characters of a line's values; longer ones are cut. All lines together have 8 MB at most."""

NOT_SHOWN: Final = frozenset({"event", "level", "logger", "id", "timestamp", "exc_info", "stack_info", "_record"})
"""Members of an event that have a place of their own, or none."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line: ``number`` counts from 1, ``at`` is in milliseconds since 1970, ``values`` are key=value."""

    number: int
    at: int
    level: str
    logger: str
    id: str
    event: str
    values: str


class LogLines(logging.Handler):
    """Keeps the newest lines. Threads may log; the lock of the handler orders them."""

    def __init__(self) -> None:
        super().__init__()
        self.newest = 0  # the number of the last line
        self._lines: deque[LogLine] = deque(maxlen=LOG_LINES_MAX)

    def start(self) -> None:
        """Take lines from now on."""
        logging.getLogger(PACKAGE).addHandler(self)

    def stop(self) -> None:
        """Take no more lines."""
        logging.getLogger(PACKAGE).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; called with the lock held."""
        given: dict[str, Any] = record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}
        identifier = given.get("id") or MESSAGE_IDS.get(str(record.msg), "")
        values = [f"{name}={value}" for name, value in given.items() if name not in NOT_SHOWN]
        error = record.exc_info[1] if record.exc_info else given.get("exc_info")
        if isinstance(error, BaseException):
            values.append(f"{type(error).__name__}: {error}")
        text = " ".join(values)
        if len(text) > LOG_LINE_CHARACTERS_MAX:
            text = f"{text[:LOG_LINE_CHARACTERS_MAX]} …"
        self.newest += 1
        self._lines.append(
            LogLine(
                self.newest,
                int(record.created * 1000),
                record.levelname.lower(),
                record.name,
                str(identifier),
                str(given["event"])[:LOG_LINE_CHARACTERS_MAX],
                text,
            )
        )

    def after(self, number: int, most: int = LOG_LINES_MAX, *, least_level: int = logging.NOTSET) -> list[LogLine]:
        """Return the newest lines behind a number, of a level or above, at most so many, the oldest first."""
        self.acquire()
        try:
            levels = logging.getLevelNamesMapping()
            fitting = (
                line
                for line in reversed(self._lines)
                if line.number > number and levels[line.level.upper()] >= least_level
            )
            return list(islice(fitting, most))[::-1]
        finally:
            self.release()
