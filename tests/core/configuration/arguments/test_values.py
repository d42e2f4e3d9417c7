"""Values: every way a peer may send one, and what is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments import values


@pytest.mark.parametrize(("value", "number"), [(5, 5), ("5", 5), (" +7 ", 7), ("-1", -1), (2**63, 2**63)])
def test_integers(value, number):
    assert values.read_integer("x-a", value) == number


@pytest.mark.parametrize("value", [True, 5.0, "five", "5.0", "", "1_000", "٣", "9" * 30, None, [1], b"5"])
def test_what_is_no_integer(value):
    with pytest.raises(InvalidArgument, match="argument 'x-a' must be an integer"):
        values.read_integer("x-a", value)


def test_limits_and_off():
    assert values.read_limit("x-a", 3, 1, 3, "messages", off=False) == 3
    assert values.read_limit("x-a", "-1", 1, 3, "messages", off=True) == -1
    with pytest.raises(InvalidArgument, match="'x-a' must be 1 to 3 messages, not -1"):
        values.read_limit("x-a", -1, 1, 3, "messages", off=False)
    with pytest.raises(InvalidArgument, match="must be 1 to 3 messages, or -1 for off, not 4"):
        values.read_limit("x-a", 4, 1, 3, "messages", off=True)
    with pytest.raises(InvalidArgument, match="must be at least 1 messages, or -1 for off, not 0"):
        values.read_limit("x-a", 0, 1, values.COUNT_MAX, "messages", off=True)


@pytest.mark.parametrize(
    ("value", "size"), [("10 KiB", 10240), ("1mib", 2**20), ("2GiB", 2**31), ("1TiB", 2**40), (7, 7), ("7", "7")]
)
def test_sizes(value, size):
    assert values.read_size("x-a", value) == size


def test_decimal_units_are_refused_because_peers_disagree_about_them():
    with pytest.raises(InvalidArgument, match="KiB, MiB, GiB or TiB, not '10 MB'"):
        values.read_size("x-a", "10 MB")


@pytest.mark.parametrize(("value", "number"), [(2, 2.0), (0.5, 0.5), ("1.5", 1.5)])
def test_factors(value, number):
    assert values.read_factor("x-a", value, 0.0, 2.0) == number


@pytest.mark.parametrize("value", [True, "two", math.nan, math.inf, "nan", "inf", -0.1, 2.1, None, "1" * 30])
def test_what_is_no_factor(value):
    with pytest.raises(InvalidArgument, match="argument 'x-a' must be"):
        values.read_factor("x-a", value, 0.0, 2.0)


@pytest.mark.parametrize(
    ("value", "truth"), [(True, True), (False, False), (1, True), (0, False), ("TRUE", True), ("0", False)]
)
def test_switches(value, truth):
    assert values.read_switch("x-a", value) is truth


@pytest.mark.parametrize("value", ["yes", 2, 1.0, "", None])
def test_what_is_no_switch(value):
    with pytest.raises(InvalidArgument, match="'x-a' must be true or false"):
        values.read_switch("x-a", value)


def test_choices():
    assert values.read_choice("x-a", "b", ("a", "b")) == "b"
    for wrong in ("c", 1, True, ["a"]):
        with pytest.raises(InvalidArgument, match="'x-a' must be 'a' or 'b'"):
            values.read_choice("x-a", wrong, ("a", "b"))


def test_names_fit_a_short_string():
    assert values.read_name("x-a", "ä" * 127, "a node", empty=False) == "ä" * 127
    assert values.read_name("x-a", "", "a node", empty=True) == ""
    with pytest.raises(InvalidArgument, match="at most 255 bytes; it has 256"):
        values.read_name("x-a", "ä" * 128, "a node", empty=False)
    for wrong in ("", 5, b"n"):
        with pytest.raises(InvalidArgument, match="must be the name of a node"):
            values.read_name("x-a", wrong, "a node", empty=False)


def test_texts():
    assert values.read_text("x-a", "a = 1") == "a = 1"
    with pytest.raises(InvalidArgument, match="must be a text, not 1"):
        values.read_text("x-a", 1)


@pytest.mark.parametrize(
    ("value", "weights"), [([1, 2], (1, 2)), (["3"], (3,)), ("1,2, 3", (1, 2, 3)), ([], ()), ("", ())]
)
def test_weights(value, weights):
    assert values.read_weights("x-a", value, 3, 10) == weights


@pytest.mark.parametrize("value", [[0], [11], [1, 1, 1, 1], [True], 5, "1,,2", {"a": 1}])
def test_what_are_no_weights(value):
    with pytest.raises(InvalidArgument, match="argument 'x-a' must"):
        values.read_weights("x-a", value, 3, 10)


@given(st.text() | st.binary() | st.lists(st.integers(), max_size=100))
def test_a_shown_value_stays_short(value):
    assert len(values.shown(value)) <= 60


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("a", ("a",)), (" a , b-c ", ("a", "b-c")), ("", ()), ([], ()), (["a, b", "c"], ("a, b", "c")),
        (["x" * 255], ("x" * 255,)),
    ],
)  # fmt: skip
def test_names_of_properties(value, names):
    assert values.read_properties("x-a", value, 2) == names


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "a list of names, or names with commas, not 5"), ("a,,b", "the name of a message property, not ''"),
        ([5], "the name of a message property, not 5"), ("a,b,c,d", "at most 3 names; it has 4"),
        (["a", "b", "a"], "must name 'a' once, not twice"), (["x" * 256], "at most 255 bytes; it has 256"),
    ],
)  # fmt: skip
def test_what_names_no_properties(value, words):
    with pytest.raises(InvalidArgument, match=words):
        values.read_properties("x-a", value, 3)
