"""The level of the broker's log, changed while it runs, for a time or until the end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from annulet.broker.observing.logging import LEVELS
from annulet.core.base.errors import InvalidArgument

if TYPE_CHECKING:
    from annulet.broker.settings.clock import Clock
    from annulet.broker.settings.configuration import LogLevel

LOG_LEVEL_SECONDS_MAX: Final = 24 * 3600
"""How long a level may be set for: a day; longer is a setting of the configuration."""

PACKAGE: Final = "annulet"
"""The logger of which all of the broker's are children; a program around it keeps its own level."""


class LogLevels:
    """The level of one process. Belongs to the event loop."""

    def __init__(self, configured: LogLevel, clock: Clock) -> None:
        self.configured = configured
        self.current = configured
        self.until = 0  # milliseconds since 1970 at which the configured level returns; 0: it does not
        self._clock = clock
        self._changed = False
        self._timer: asyncio.TimerHandle | None = None

    def change(self, level: LogLevel, seconds: int = 0) -> None:
        """Log from ``level`` on, for so many seconds; 0: until the end. Raises :class:`InvalidArgument`.

        ``debug`` has no protocol traces here, which are switched for each connection (:mod:`.traces`).
        """
        if level not in LEVELS:
            raise InvalidArgument(f"field 'level' is {level!r}; give one of {', '.join(LEVELS)}")
        if not 0 <= seconds <= LOG_LEVEL_SECONDS_MAX:
            raise InvalidArgument(f"field 'seconds' is {seconds}; give 1 to {LOG_LEVEL_SECONDS_MAX}, or 0 for no end")
        self._cancel()
        self._changed = True
        self.current = level
        logging.getLogger(PACKAGE).setLevel(LEVELS[level])
        if seconds:
            self.until = self._clock() + seconds * 1000
            self._timer = asyncio.get_running_loop().call_later(seconds, self.restore)

    def restore(self) -> None:
        """Return to the configured level."""
        self._cancel()
        self.current = self.configured
        logging.getLogger(PACKAGE).setLevel(LEVELS[self.configured])

    def configure(self, level: LogLevel) -> bool:
        """Take the level of a configuration that was read again, in place of any set before. Returns if it is new."""
        changed = level != self.configured
        self.configured = level
        if changed:
            self.change(level)
        return changed

    def stop(self) -> None:
        """Let the process have its own level again."""
        self._cancel()
        self.current = self.configured
        if self._changed:
            logging.getLogger(PACKAGE).setLevel(logging.NOTSET)

    def _cancel(self) -> None:
        self.until = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
