"""Every row of the Broker-J scenarios has a test that carries its number, and every row where we differ is in the docs.

A test carries an id in its name (``test_row_048_...``, ``test_q6_...``, ``test_b1_...``) or in a parameter's
(``id="036-shared"``). Rows are written with three digits there and without leading ones on the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
FOLDER = Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "differences" / "qpid.md"

ROWS = {str(number) for number in range(1, 101)}
QUIRKS = {f"Q{number}" for number in range(1, 22)}
"""Quirks and defects of Broker-J, numbered as in our specification of it."""

CHOICES = {f"B{number}" for number in range(1, 16)}
"""Rules of ours that are no row: choices of Broker-J we did not follow."""

DIFFERENT_ROWS = {
    "6", "8", "24", "37", "50", "51", "52", "59", "69", "71", "72", "73", "76", "78", "80", "81", "82", "83", "91",
    "92", "93", "95", "96", "99", "100",
}  # fmt: skip

PROVEN_ELSEWHERE = {
    "Q9": ("tests/core/host/test_dead_letter_scenarios.py", "test_a_target_that_refuses_publishers_takes_dead_letters"),
    "Q17": ("tests/scenarios/qpid/test_time.py", "test_row_068_a_new_limit_holds_for_what_is_there"),
    "Q18": ("tests/scenarios/qpid/test_entries.py", "test_row_006_nobody_takes_a_delivery_from_its_consumer"),
}

ROW_IN_NAME = re.compile(r"test_row_([0-9]{3})_")
OTHER_IN_NAME = re.compile(r"test_([qb][0-9]+)_")
ROW_IN_PARAMETER = re.compile(r"([0-9]{3})(?:-|$)")
TABLE_ROW = re.compile(r"^\| (?P<id>[QB]?[0-9]+) \| (?P<theirs>.+?) \| (?P<ours>.+?) \| (?P<why>.+?) \|$", re.MULTILINE)


def ids_of(source: str) -> Iterator[str]:
    """Yield the ids that the tests of a module carry."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        if row := ROW_IN_NAME.match(node.name):
            yield str(int(row[1]))
        elif other := OTHER_IN_NAME.match(node.name):
            yield other[1].upper()
        for decorator in node.decorator_list:
            yield from ids_in_parameters(decorator)


def ids_in_parameters(decorator: ast.expr) -> Iterator[str]:
    for node in ast.walk(decorator):
        if not isinstance(node, ast.keyword) or node.arg not in {"id", "ids"}:
            continue
        for constant in ast.walk(node.value):
            if isinstance(constant, ast.Constant) and (match := ROW_IN_PARAMETER.match(str(constant.value))):
                yield str(int(match[1]))


def proven() -> set[str]:
    return {found for path in sorted(FOLDER.glob("test_*.py")) for found in ids_of(path.read_text())}


def listed() -> list[str]:
    return [match["id"] for match in TABLE_ROW.finditer(PAGE.read_text())]


def test_every_row_has_a_test() -> None:
    assert sorted(ROWS - proven(), key=int) == []


def test_every_quirk_and_every_choice_has_a_test() -> None:
    assert sorted((QUIRKS | CHOICES) - PROVEN_ELSEWHERE.keys() - proven()) == []


@pytest.mark.parametrize("known", sorted(PROVEN_ELSEWHERE))
def test_what_is_proven_elsewhere_is_there(known: str) -> None:
    path, name = PROVEN_ELSEWHERE[known]
    names = {getattr(node, "name", "") for node in ast.parse((ROOT / path).read_text()).body}
    assert name in names


def test_no_test_carries_an_id_that_does_not_exist() -> None:
    assert sorted(proven() - ROWS - QUIRKS - CHOICES) == []


def test_the_page_lists_each_difference_once_and_nothing_else() -> None:
    assert sorted(listed()) == sorted(DIFFERENT_ROWS | QUIRKS | CHOICES)
    assert len(re.findall(r"^\| [QB]?[0-9]+ \|", PAGE.read_text(), re.MULTILINE)) == len(listed()), (
        "a column is missing"
    )


def test_ids_are_found_in_names_and_parameters() -> None:
    source = (
        '@pytest.mark.parametrize("a", [pytest.param(1, id="036-shared"), pytest.param(2, id="1000")])\n'
        '@pytest.mark.parametrize("b", [1, 2], ids=["084", "other"])\n'
        "def test_anything(a, b): ...\n"
        "async def test_row_006_rows(): ...\n"
        "def test_q12_quirk(): ...\n"
        "def helper_row_009_no_test(): ...\n"
        "def test_release_4(): ...\n"
    )
    assert sorted(ids_of(source)) == ["36", "6", "84", "Q12"]
