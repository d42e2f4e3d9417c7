from __future__ import annotations

import json

import pytest

from annulet.cli.remote.output import Output, member_of

ITEMS = [{"name": "a", "n": 1000, "x": {"y": True}}, {"name": "b[red]", "n": 5}]
COLUMNS = [("name", "name"), ("number", "n"), ("y", "x.y")]


def test_a_table_has_the_columns_and_json_all_members(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).items(ITEMS, COLUMNS)
    assert capsys.readouterr().out == "name    number    y\na        1,000  yes\nb[red]       5\n"
    Output(as_json=True).items(ITEMS, COLUMNS)
    assert json.loads(capsys.readouterr().out) == ITEMS


def test_an_empty_list_has_titles_and_an_empty_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).items([], COLUMNS)
    assert capsys.readouterr().out == "name  number  y\n"
    Output(as_json=True).items([], COLUMNS)
    assert capsys.readouterr().out == "[]\n"


def test_members_leave_out_what_has_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).members({"a": 0, "b": "", "c": {"x": 5}, "d": None})
    assert capsys.readouterr().out == "field  value\na      0\nc      x=5\n"


def test_done_is_a_line_or_facts(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).done("it is\x1b", name="x")
    Output(as_json=True).done("it is", name="x")
    assert capsys.readouterr().out == 'it is\\x1b\n{\n  "name": "x"\n}\n'
    Output(as_json=True).json_line({"a": 1})
    assert capsys.readouterr().out == '{"a": 1}\n'


def test_members_of_members() -> None:
    assert member_of({"a": {"b": 1}}, "a.b") == 1
    assert member_of({"a": 5}, "a.b") is None
