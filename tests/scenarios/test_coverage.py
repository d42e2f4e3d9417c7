"""Every row of the Artemis scenarios has a test that carries its id, and every row where we differ is in the docs.

A test carries an id in its name (``test_r6_r7_...``, ``test_b1_...``) or in a parameter's (``id="R4-apart"``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "tests" / "scenarios" / "artemis"
PAGE = ROOT / "docs" / "differences" / "artemis.md"

ROWS = {"R": 22, "L": 19, "N": 7, "G": 7, "X": 2, "P": 4, "S": 5, "E": 6, "D": 7, "U": 6, "A": 5, "M": 3}
"""How many rows each group of the scenario table has."""

DIFFERENT_ROWS = {"R4", "R17", "R18", "R19", "R22", "L12", "L16", "L17", "G5", "E5", "D3", "D7", "A4", "M1"}
CHOICES = {f"B{number}" for number in range(1, 30)}
"""Rules of ours that are no row: defects and choices of Artemis we did not follow."""

PROVEN_ELSEWHERE = {
    "B2": ("tests/durability/test_queue_restart.py", "test_counters_continue_and_count_what_came_back_once"),
    "B28": ("tests/clients/test_memory_alarm.py", "test_publishers_are_blocked_and_told_and_consumers_go_on"),
    "B29": ("tests/crash/test_full_disk.py", "test_a_full_disk_refuses_publishes_and_serves_consumers"),
}

IN_NAME = re.compile(r"test_((?:[a-z][0-9]+_)+)")
IN_PARAMETER = re.compile(r"[A-Z][0-9]+(?=-|$)")
TABLE_ROW = re.compile(r"^\| (?P<id>[A-Z][0-9]+) \| (?P<theirs>.+?) \| (?P<ours>.+?) \| (?P<why>.+?) \|$", re.MULTILINE)


def every_row() -> set[str]:
    return {f"{group}{number}" for group, count in ROWS.items() for number in range(1, count + 1)}


def ids_of(source: str) -> Iterator[str]:
    """Yield the ids that the tests of a module carry."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        match = IN_NAME.match(node.name)
        if match:
            yield from match[1].upper().rstrip("_").split("_")
        for decorator in node.decorator_list:
            yield from ids_in_parameters(decorator)


def ids_in_parameters(decorator: ast.expr) -> Iterator[str]:
    for node in ast.walk(decorator):
        if isinstance(node, ast.keyword) and node.arg == "id" and isinstance(node.value, ast.Constant):
            match = IN_PARAMETER.match(str(node.value.value))
            if match:
                yield match[0]


def proven() -> set[str]:
    return {found for path in sorted(FOLDER.glob("test_*.py")) for found in ids_of(path.read_text())}


def listed() -> list[str]:
    return [match["id"] for match in TABLE_ROW.finditer(PAGE.read_text())]


def test_every_row_has_a_test() -> None:
    assert len(every_row()) == 93
    assert sorted(every_row() - proven()) == []


def test_every_choice_has_a_test() -> None:
    assert sorted(CHOICES - PROVEN_ELSEWHERE.keys() - proven()) == []


@pytest.mark.parametrize("known", sorted(PROVEN_ELSEWHERE))
def test_what_is_proven_elsewhere_is_there(known: str) -> None:
    path, name = PROVEN_ELSEWHERE[known]
    names = {getattr(node, "name", "") for node in ast.parse((ROOT / path).read_text()).body}
    assert name in names


def test_no_test_carries_an_id_that_does_not_exist() -> None:
    assert sorted(proven() - every_row() - CHOICES) == []


def test_the_page_lists_each_difference_once_and_nothing_else() -> None:
    assert sorted(listed()) == sorted(DIFFERENT_ROWS | CHOICES)
    assert len(re.findall(r"^\| [A-Z][0-9]", PAGE.read_text(), re.MULTILINE)) == len(listed()), "a row lacks a column"


def test_ids_are_found_in_names_and_parameters() -> None:
    source = (
        '@pytest.mark.parametrize("a", [pytest.param(1, id="R4-apart"), pytest.param(2, id="other")])\n'
        "def test_anything(a): ...\n"
        "async def test_r6_r17_rows(): ...\n"
        "def helper_r9_no_test(): ...\n"
        "def test_release_4(): ...\n"
    )
    assert sorted(ids_of(source)) == ["R17", "R4", "R6"]
