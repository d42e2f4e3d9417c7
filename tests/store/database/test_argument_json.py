"""Arguments as JSON: exactly what went in comes out, and equal arguments are equal text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.store.database.argument_json import dump_arguments, load_arguments

KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["$bytes", "$$bytes", "$", "", "x-ring-size"]))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=10),
    st.binary(max_size=10),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=5)


def typed(value):
    """A form in which 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return (type(value).__name__, value)


@given(TABLES)
def test_both_ways_values_and_types(table):
    assert typed(load_arguments(dump_arguments(table))) == typed(table)


@given(TABLES, st.randoms(use_true_random=False))
def test_the_order_of_fields_makes_no_difference(table, chance):
    items = list(table.items())
    chance.shuffle(items)
    assert dump_arguments(dict(items)) == dump_arguments(table)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "{}"),
        ({"x-ring-size": 100, "a": True}, '{"a":true,"x-ring-size":100}'),
        ({"k": b"\x00\xff"}, '{"k":{"$bytes":"AP8="}}'),
        ({"k": {"$bytes": "AP8="}}, '{"k":{"$$bytes":"AP8="}}'),
        ({"$bytes": b""}, '{"$$bytes":{"$bytes":""}}'),
    ],
)
def test_the_text_is_what_earlier_versions_wrote(arguments, text):
    """Files outlive the program: a change of this text needs a migration."""
    assert dump_arguments(arguments) == text
    assert load_arguments(text) == arguments


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_numbers_are_numbers(value):
    assert load_arguments(dump_arguments({"k": value})) == {"k": value}


@pytest.mark.parametrize("text", ["", "{", '{"k":', "ring=5"])
def test_a_damaged_text_is_an_error(text):
    with pytest.raises(json.JSONDecodeError):
        load_arguments(text)
