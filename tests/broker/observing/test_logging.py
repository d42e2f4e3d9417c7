from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from annulet.broker.observing.logging import escaped, set_up
from annulet.broker.settings.configuration import LogFormat


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def test_json_lines_carry_event_values_level_and_time() -> None:
    stream = io.StringIO()
    set_up("json", stream=stream)
    structlog.get_logger("annulet.test").info("queue declared", queue="q", size=3, path=Path("a"), raw=b"x")
    line = json.loads(stream.getvalue())
    assert line["event"] == "queue declared"
    assert (line["queue"], line["size"], line["path"], line["raw"]) == ("q", 3, "a", "b'x'")
    assert (line["level"], line["logger"]) == ("info", "annulet.test")
    assert line["timestamp"].endswith("Z")


def test_loggers_of_the_standard_library_arrive_too() -> None:
    stream = io.StringIO()
    set_up("json", stream=stream)
    logging.getLogger("library").warning("count %d", 7, extra={"peer": "a"})
    line = json.loads(stream.getvalue())
    assert (line["event"], line["peer"], line["level"]) == ("count 7", "a", "warning")


def test_level_and_noise() -> None:
    stream = io.StringIO()
    set_up("json", "warning", stream=stream)
    structlog.get_logger("a").info("hidden")
    logging.getLogger("uvicorn.error").info("hidden")
    assert stream.getvalue() == ""
    set_up("json", "debug", stream=stream)
    logging.getLogger("uvicorn.error").info("hidden")
    structlog.get_logger("a").debug("shown")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["shown"]


def test_console_writes_one_line_without_colour_codes_into_a_file() -> None:
    stream = io.StringIO()
    set_up("console", stream=stream)
    structlog.get_logger("annulet").info("ready", amqp="127.0.0.1:5672")
    text = stream.getvalue()
    assert "ready" in text
    assert "amqp=127.0.0.1:5672" in text
    assert "\x1b" not in text
    assert text.count("\n") == 1


def test_exceptions_stay_readable_in_json() -> None:
    stream = io.StringIO()
    set_up("json", stream=stream)
    try:
        int("broken")
    except ValueError:
        structlog.get_logger("a").exception("failed")
    line = json.loads(stream.getvalue())
    assert line["exception"][0]["exc_value"].endswith("'broken'")


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_tracebacks_show_no_values_of_variables(log_format: LogFormat) -> None:
    stream = io.StringIO()
    set_up(log_format, stream=stream)

    def log_in(password: str) -> None:
        assert password
        raise ValueError("defect")

    try:
        log_in("SECRET".lower())  # no source line has it
    except ValueError:
        structlog.get_logger("a").exception("failed")
    assert "log_in" in stream.getvalue()
    assert "defect" in stream.getvalue()
    assert "secret" not in stream.getvalue()


def test_what_a_peer_chose_reaches_no_terminal_as_it_is() -> None:
    stream = io.StringIO()
    set_up("console", stream=stream)
    structlog.get_logger("a").warning("login refused", user="a\x1b[2J\n2026 [info] forged\ud800\u202eé")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "é" in text
    assert r"x1b[2J" in text


def test_tracebacks_keep_their_lines_on_the_console() -> None:
    stream = io.StringIO()
    set_up("console", stream=stream)
    try:
        int("broken")
    except ValueError:
        structlog.get_logger("a").exception("failed")
    assert len(stream.getvalue().splitlines()) > 3


def test_printable_text_is_left_alone() -> None:
    assert escaped("Grüße, 世界 a=b") == "Grüße, 世界 a=b"
    assert escaped("\0\t\x7f") == r"\x00\t\x7f"
