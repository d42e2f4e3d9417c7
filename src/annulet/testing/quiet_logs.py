"""Keep the log of a broker off the standard output of a test.

A program that has not configured structlog prints each line. While a broker of the test kit runs in such a program,
the lines go to the loggers of the standard library instead, where pytest captures them. A program with a configuration
of its own keeps it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import EventDict, WrappedLogger

_lock = threading.Lock()
_users = [0]  # brokers that run with our configuration

RESERVED: Final = frozenset(vars(logging.makeLogRecord({}))) - {"exc_info", "stack_info"} | {"message", "asctime"}
"""Attributes of the standard library's records: it refuses values of a line with these names."""


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Send the log to the standard library's loggers inside the block."""
    with _lock:
        if _users[0] or not structlog.is_configured():
            _users[0] += 1
            ours = True
            if _users[0] == 1:
                _configure()
        else:
            ours = False
    try:
        yield
    finally:
        if ours:
            with _lock:
                _users[0] -= 1
                if not _users[0]:
                    structlog.reset_defaults()


def _rename_reserved(_logger: WrappedLogger, _method: str, line: EventDict) -> EventDict:
    return {f"{key}_" if key in RESERVED else key: value for key, value in line.items()}


def _configure() -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.format_exc_info,
            _rename_reserved,
            structlog.stdlib.render_to_log_kwargs,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logging.getLogger("annulet").addHandler(logging.NullHandler())  # else warnings without any handler are printed
