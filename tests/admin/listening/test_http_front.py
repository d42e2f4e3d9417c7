from __future__ import annotations

import logging

import structlog

from annulet.admin.listening.http_front import REASON_CHARACTERS_MAX, LibraryLog
from annulet.broker.observing.limited_log import LINES_PER_SECOND, LimitedLog


def log() -> LibraryLog:
    return LibraryLog(LimitedLog(structlog.get_logger("test"), clock=lambda: 1.0))


def test_warnings_of_the_library_are_limited() -> None:
    made = log()
    with structlog.testing.capture_logs() as lines:
        for number in range(2 * LINES_PER_SECOND):
            made.warning("refused %s", number)
    assert [line["reason"] for line in lines] == [f"refused {number}" for number in range(LINES_PER_SECOND)]


def broken() -> None:
    raise ZeroDivisionError("a defect")


def test_an_exception_is_one_line_with_its_place() -> None:
    made = log()
    with structlog.testing.capture_logs() as lines:
        try:
            broken()
        except ZeroDivisionError as error:
            made.exception("Exception in ASGI application\n")
            made.error("the same", exc_info=error)
        made.error("x" * 1000)
    assert [line["reason"] for line in lines] == [
        "Exception in ASGI application",
        "the same",
        "x" * REASON_CHARACTERS_MAX,
    ]
    for line in lines[:2]:
        assert line["error"] == "ZeroDivisionError: a defect"
        assert line["place"].endswith(" test_an_exception_is_one_line_with_its_place")
        assert "exc_info" not in line
    assert "error" not in lines[2]


def test_information_is_left_out() -> None:
    made = log()
    with structlog.testing.capture_logs() as lines:
        made.info("accepted %s", "x")
        made.log(logging.DEBUG, "trace")
        made.log(logging.WARNING, "100% wrong")
    assert [line["reason"] for line in lines] == ["100% wrong"]
