"""Headers: values, modes and what never counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.steps import Steps
from annulet.core.routing.exchanges import HeadersExchange
from annulet.core.routing.exchanges.headers import MATCH_MODES, HeadersPattern, equal_values
from tests.core.routing.exchanges.helpers import bind, matched


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True), (1, True, False), (0, False, False), (True, True, True), (False, False, True),
        (True, False, False), ("a", b"a", True), (b"a", "a", True), ("é", "é".encode(), True), ("1", 1, False),
        ("a", "A", False), (None, None, True), ("", b"", True), ([1, "a"], [1, "a"], True), ({"a": 1}, {"a": 2}, False),
    ],
)  # fmt: skip
def test_equality_of_values(left, right, equal):
    assert equal_values(left, right) is equal
    assert equal_values(right, left) is equal


@pytest.mark.parametrize(
    ("mode", "headers", "fits"),
    [
        ("all", {"a": 1, "b": 2}, True), ("all", {"a": 1}, False), ("all", {"a": 1, "b": 3}, False),
        ("all", {"a": 1, "b": 2, "c": 3}, True), ("any", {"a": 1}, True), ("any", {"b": 2}, True),
        ("any", {"a": 2, "b": 1}, False), ("any", {}, False),
    ],
)  # fmt: skip
def test_all_and_any(mode, headers, fits):
    assert HeadersPattern({"x-match": mode, "a": 1, "b": 2}).fits(headers) is fits


@pytest.mark.parametrize("mode", MATCH_MODES)
def test_headers_that_start_with_x_count_only_when_the_mode_says_so(mode):
    pattern = HeadersPattern({"x-match": mode, "x-a": 1, "b": 2})
    counts = mode.endswith("-with-x")
    assert pattern.fits({"x-a": 1, "b": 2})
    assert pattern.fits({"b": 2}) is (mode != "all-with-x")
    assert pattern.fits({"x-a": 1}) is (counts and mode.startswith("any"))


def test_all_is_the_mode_when_none_is_named():
    assert HeadersPattern({"a": 1}).match_all
    assert not HeadersPattern({"x-match": "any"}).fits({"a": 1})
    assert HeadersPattern({}).fits({"a": 1})


def test_a_void_condition_asks_for_presence():
    pattern = HeadersPattern({"a": None})
    assert pattern.fits({"a": 5})
    assert pattern.fits({"a": None})
    assert not pattern.fits({"b": 5})


@pytest.mark.parametrize("mode", ["some", "", 1, True, None, "ALL"])
def test_an_unknown_mode_is_refused_with_those_there_are(mode):
    with pytest.raises(InvalidArgument, match=r"invalid x-match field value .*all, any, all-with-x, any-with-x"):
        HeadersPattern({"x-match": mode})


def test_the_routing_key_plays_no_part():
    exchange = HeadersExchange("e")
    bind(exchange, "red", "k", colour="red")
    bind(exchange, "all", "other")
    assert matched(exchange, "unrelated", colour="red") == ["red", "all"]
    assert matched(exchange, "k", colour="blue") == ["all"]


def test_what_tells_the_binding_something_is_never_compared():
    exchange = HeadersExchange("h")
    bind(exchange, "q", x_match="all-with-x", x_filter_jms_selector="a = 1", x_kind="1")
    assert matched(exchange, **{"x-kind": "1"}) == ["q"]
    assert matched(exchange, a=1) == []


VALUES = st.sampled_from([None, 0, 1, 1.0, True, "a", b"a", "", "b"])
TABLES = st.dictionaries(st.sampled_from(["a", "b", "c", "x-d"]), VALUES, max_size=4)


@given(st.lists(st.tuples(st.sampled_from(MATCH_MODES), TABLES), max_size=6), TABLES)
def test_a_match_is_that_of_the_definition_and_counts_what_it_compares(patterns, headers):
    exchange = HeadersExchange("e")
    expected = []
    for number, (mode, wanted) in enumerate(patterns):
        bind(exchange, str(number), x_match=mode, **wanted)
        counted = {name: value for name, value in wanted.items() if mode.endswith("-with-x") or name[:2] != "x-"}
        hits = [
            name in headers and (value is None or equal_values(value, headers[name])) for name, value in counted.items()
        ]
        if all(hits) if mode.startswith("all") else any(hits):
            expected.append(str(number))
    steps = Steps(1000)
    assert [binding.destination_name for binding in exchange.match("", headers, steps)] == expected
    assert len(patterns) <= 1000 - steps.left <= sum(len(wanted) + 1 for _, wanted in patterns)
