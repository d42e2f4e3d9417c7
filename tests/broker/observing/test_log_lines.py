"""The newest lines of the log: what a line has, its bounds, and which are asked for."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from annulet.broker.observing.log_lines import LOG_LINE_CHARACTERS_MAX, LOG_LINES_MAX, LogLines
from annulet.broker.observing.logging import set_up

LOGGER = "annulet.broker.test"


@pytest.fixture
def lines() -> Iterator[LogLines]:
    before = logging.getLogger().level
    set_up("json", "info", stream=io.StringIO())
    kept = LogLines()
    kept.start()
    yield kept
    kept.stop()
    structlog.reset_defaults()
    logging.getLogger().setLevel(before)


def test_a_line_has_its_parts(lines: LogLines) -> None:
    structlog.get_logger(LOGGER).warning("queue created", queue="a\nb", vhost="/")
    [line] = lines.after(0)
    assert (line.number, line.level, line.logger, line.id) == (1, "warning", LOGGER, "QUE-1001")
    assert (line.event, line.values) == ("queue created", "queue=a\nb vhost=/")
    assert line.at > 1_700_000_000_000


def test_errors_and_lines_of_the_standard_library_are_there(lines: LogLines) -> None:
    logging.getLogger(LOGGER).error("it failed for %s", "q", exc_info=ValueError("no such thing"))
    [line] = lines.after(0)
    assert (line.event, line.values) == ("it failed for q", "ValueError: no such thing")


def test_other_loggers_and_lower_levels_are_not_kept(lines: LogLines) -> None:
    structlog.get_logger(LOGGER).debug("too much")
    logging.getLogger("of.another.program").error("not ours")
    assert lines.after(0) == []
    lines.stop()
    structlog.get_logger(LOGGER).error("after the end")
    assert lines.newest == 0


def test_lines_are_bounded(lines: LogLines) -> None:
    log = structlog.get_logger(LOGGER)
    log.info("long", value="x" * 3 * LOG_LINE_CHARACTERS_MAX)
    assert len(lines.after(0)[0].values) < LOG_LINE_CHARACTERS_MAX + 10
    for number in range(LOG_LINES_MAX):
        log.info("one", number=number)
    assert [line.number for line in lines.after(0)] == list(range(2, LOG_LINES_MAX + 2))
    assert lines.newest == LOG_LINES_MAX + 1


def test_those_behind_a_number_and_of_a_level_are_asked_for(lines: LogLines) -> None:
    log = structlog.get_logger(LOGGER)
    for number in range(1, 7):
        (log.info if number % 2 else log.error)("one")
    assert [line.number for line in lines.after(2)] == [3, 4, 5, 6]
    assert [line.number for line in lines.after(0, 2)] == [5, 6]
    assert [line.number for line in lines.after(0, least_level=logging.WARNING)] == [2, 4, 6]
