"""The broker's log: events with key=value, for people or as JSON lines, the standard library's loggers included."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

from annulet.broker.observing.message_ids import identify
from annulet.broker.observing.recent_events import record

if TYPE_CHECKING:
    from structlog.typing import Processor

    from annulet.broker.settings.configuration import LogFormat, LogLevel

LEVELS: Final[dict[LogLevel, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

QUIET_LOGGERS: Final = ("asyncio", "uvicorn", "uvicorn.access", "uvicorn.error")
"""Libraries whose information is noise here; their warnings and errors are passed on."""


_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # locals are passwords and bodies of messages
)

OUR_OWN_TEXTS: Final = frozenset({"event", "exception", "stack"})
"""Values of several lines that no peer wrote: they keep their line ends."""


def set_up(log_format: LogFormat = "console", level: LogLevel = "info", stream: TextIO | None = None) -> None:
    """Send every event to ``stream`` (default: standard error). Called once by a program; libraries never call it.

    Console: time, level, event, key=value; coloured on a terminal only. JSON: one object a line with ``timestamp``
    (ISO 8601, UTC), ``level``, ``logger``, ``event``, ``id`` and the event's values.
    """
    target = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        identify,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            record,
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # a second set_up, as tests do, would not reach cached loggers
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[record, *shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format, target)],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):  # ours, of an earlier set_up
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[level])
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


def _renderers(log_format: LogFormat, stream: TextIO) -> list[Processor]:
    if log_format == "json":
        return [_TRACEBACKS, _plain_values, structlog.processors.JSONRenderer(sort_keys=False)]
    plain = structlog.dev.plain_traceback
    return [
        _printable_values,
        structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=30, exception_formatter=plain),
    ]


def _printable_values(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape what no terminal may get: peers choose names, and names could hold control sequences or line ends."""
    return {
        name: escaped(value) if isinstance(value, str) and name not in OUR_OWN_TEXTS else value
        for name, value in event.items()
    }


def escaped(text: str) -> str:
    """Return the text with everything that cannot be printed written as Python writes it: ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _plain_values(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Turn what JSON does not know (bytes, paths, addresses) into text, so that no event is lost to its values."""
    return {name: value if _is_plain(value) else str(value) for name, value in event.items()}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, dict))
