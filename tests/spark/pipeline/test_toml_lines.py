"""Lines of keys, whatever TOML is written like."""

from __future__ import annotations

import tomllib

import pytest

from annulet.spark.pipeline.toml_lines import line_of, lines_of

TEXT = '''# a comment
[pipeline]
name = "x"

[sources.a]
url = "u"
schema = """
queue = "not a key"
[not.a.table]
"""
list = [
  1,
  # [neither]
  2,
]
[sources."b.c"] # quoted
inline = { one = 1, two = { three = 3 } }
dotted.key = 1

[[array.of.tables]]
x = 1
'''


def test_each_key_has_its_line() -> None:
    places = lines_of(TEXT)

    assert places["pipeline", "name"] == 3
    assert places["sources", "a"] == 5
    assert places["sources", "a", "schema"] == 7
    assert places["sources", "a", "list"] == 11
    assert places["sources", "b.c", "inline", "two", "three"] == 17
    assert places["sources", "b.c", "dotted", "key"] == 18
    assert places["array", "of", "tables", "x"] == 21
    assert ("sources", "a", "queue") not in places
    assert not any("neither" in path or "not" in path for path in places)


def test_what_is_not_written_down_is_at_its_table() -> None:
    places = lines_of(TEXT)

    assert line_of(places, ("sources", "a", "missing")) == 5
    assert line_of(places, ("nothing", "at", "all")) == 1


def test_what_is_not_toml_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        lines_of("x = \n")


def test_separators_within_a_text_are_no_lines() -> None:
    assert lines_of('a = "x\u2028y\x85"\nb = 1\n') == {("a",): 1, ("b",): 2}
