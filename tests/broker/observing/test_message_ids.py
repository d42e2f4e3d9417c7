"""Each line of the log has an identifier, each identifier a line of the page, and each text a place that logs it."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from annulet.broker.observing.logging import set_up
from annulet.broker.observing.message_ids import MESSAGE_IDS, identify

ROOT = Path(__file__).resolve().parent.parent.parent.parent
SOURCES = ROOT / "src" / "annulet"
APART = {"spark", "demo", "testing"}  # programs of their own, not the broker
METHODS = {"info", "warning", "error", "critical", "exception", "defect"}


@pytest.fixture
def logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def literals(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return [*literals(node.body), *literals(node.orelse)] if isinstance(node, ast.IfExp) else []


def logged(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield line and text of each call of a logger with a text in it; debug lines are for developers."""
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        owner = node.func.value
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if node.func.attr in METHODS and name.lower().endswith(("log", "logger")):
            for text in literals(node.args[0]):
                yield node.lineno, text


def test_each_line_has_an_identifier_and_each_text_is_logged_somewhere() -> None:
    found: list[tuple[str, str]] = []
    constants: set[str] = set()
    for path in sorted(SOURCES.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        if path.relative_to(SOURCES).parts[0] not in APART:
            found += [(f"{path.relative_to(ROOT)}:{line}", text) for line, text in logged(nodes)]
        if path.name != "message_ids.py":
            constants |= {
                node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    assert len(found) > 150
    missing = [f"{place}: {text!r}" for place, text in found if text not in MESSAGE_IDS]
    assert not missing, "give each a line in MESSAGE_IDS and docs/log-messages.md"
    assert MESSAGE_IDS.keys() - constants == set(), "no place logs these"


def test_the_page_has_each_line_and_no_other() -> None:
    page = (ROOT / "docs" / "log-messages.md").read_text()
    rows = set(re.findall(r"^\| ([A-Z]{3}-\d{4}) \| [a-z, ]+ \| (.*?) \| ", page, re.MULTILINE))
    assert rows == {(known, re.sub(r"%\w", "…", text)) for text, known in MESSAGE_IDS.items()}


def test_identifiers_of_our_own_mean_one_line() -> None:
    own = [known for known in MESSAGE_IDS.values() if known.startswith("ANN-") and known != "ANN-9001"]
    assert len(own) == len(set(own))
    assert {known for text, known in MESSAGE_IDS.items() if text.startswith("defect")} == {"ANN-9001"}


@pytest.mark.usefixtures("logging_restored")
def test_both_formats_have_it_whichever_logger_wrote_the_line() -> None:
    for log_format in ("json", "console"):
        stream = io.StringIO()
        set_up("json" if log_format == "json" else "console", "info", stream)
        structlog.get_logger("annulet.test").info("ready", version="1")
        logging.getLogger("annulet.store").info("message log: disk space in %s again", "/data")
        structlog.get_logger("annulet.test").info("of no identifier")
        lines = stream.getvalue().splitlines()
        if log_format == "json":
            assert [json.loads(line).get("id") for line in lines] == ["BRK-1004", MESSAGE_IDS[DISK], None]
            assert json.loads(lines[1])["event"] == "message log: disk space in /data again"
            assert list(json.loads(lines[0]))[:2] == ["event", "id"]
        else:
            assert "id=BRK-1004" in lines[0]
            assert f"id={MESSAGE_IDS[DISK]}" in lines[1]
            assert "id=" not in lines[2]


DISK = "message log: disk space in %s again"


def test_an_event_that_is_no_text_passes() -> None:
    assert identify(None, "info", {"event": ValueError("x")}).keys() == {"event"}
