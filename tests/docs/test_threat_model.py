"""Each threat of the page has a test, and the test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
ROW = re.compile(
    r"^\| (?P<threat>[^|]+) \| [^|]+ \| `(?P<file>tests/[\w/]+\.py)::(?P<test>test_\w+)` \|$", re.MULTILINE
)
THREATS = [match.group("threat", "file", "test") for match in ROW.finditer(PAGE)]


def test_every_row_of_threats_names_a_test() -> None:
    tables = re.findall(r"^\| threat \| rule \| test \|\n\| --- \| --- \| --- \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert len(tables) == 5
    assert sum(table.count("\n") for table in tables) == len(THREATS) > 30
    assert len({threat for threat, _, _ in THREATS}) == len(THREATS)


@pytest.mark.parametrize(("threat", "file", "test"), THREATS, ids=[threat for threat, _, _ in THREATS])
def test_the_test_of_a_threat_is_there(threat: str, file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert test in names, threat


def test_the_policy_says_how_to_report_and_where_the_model_is() -> None:
    policy = (ROOT / "SECURITY.md").read_text()
    assert "private vulnerability report" in policy
    assert "(docs/threat-model.md)" in policy
    assert "(../SECURITY.md)" in PAGE
