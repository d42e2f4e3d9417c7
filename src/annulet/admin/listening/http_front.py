"""The shared state of all connections of the HTTP listeners, and their log, where lines caused by strangers are
limited."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.admin.listening.http_slots import HttpSlots
from annulet.broker.observing.limited_log import LimitedLog

if TYPE_CHECKING:
    from annulet.broker.broker import Broker

REASON_CHARACTERS_MAX: Final = 200
"""Characters of a text of uvicorn that are logged."""


class HttpFront:
    """The front of one broker's HTTP listeners. Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.slots = HttpSlots(broker.admission)
        self.strangers: Counter[str] = Counter()  # WebSockets that are not logged in, by address
        self.log = LimitedLog(structlog.get_logger(__name__))
        self.library_log: Any = LibraryLog(self.log)


class LibraryLog:
    """The logger given to uvicorn, without its information lines.

    Of its warnings and errors a peer causes as many as it likes, so they are limited.
    """

    level = logging.WARNING

    def __init__(self, log: LimitedLog) -> None:
        self._log = log

    def log(self, level: int, text: str, *values: object) -> None:
        """Leave out everything below a warning."""
        if level >= self.level:
            self.warning(text, *values)

    def info(self, text: str, *values: object) -> None:
        """Leave it out."""

    def warning(self, text: str, *values: object) -> None:
        """Log it, or count it."""
        self._log.warning("http request refused", reason=(text % values if values else text)[:REASON_CHARACTERS_MAX])

    def error(self, text: str, *values: object, **options: object) -> None:
        """Log it, or count it; an exception with its place, without a traceback."""
        given = options.get("exc_info")
        error = given if isinstance(given, BaseException) else None
        shown = (text % values if values else text).strip()[:REASON_CHARACTERS_MAX]
        self._log.defect("defect while answering over http", error, reason=shown)

    def exception(self, text: str, *values: object) -> None:
        """Log the exception being handled."""
        self.error(text, *values, exc_info=sys.exception())
