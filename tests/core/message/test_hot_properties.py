"""Codes of values, and what a selector demands of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.message.hot_properties import ABSENT, CODE_BYTES, UNKNOWN, VALUES_MAX, code_of, codes_of, terms_of
from annulet.selector.selector import compile_selector
from tests.core.deep_doubles import ALL, Deep
from tests.core.helpers import NOW, RecordingSession, make_message


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (-5, -5.0), (2**63, 2.0**63), (0, -0.0), ("a", "a")])
def test_equal_values_have_equal_codes(one: object, other: object) -> None:
    assert code_of(one) == code_of(other)


def test_values_that_differ_differ_as_a_rule() -> None:
    values = ["", "a", "b", "red", *range(-100, 100), *[number / 8 + 1 / 16 for number in range(200)], 2**40, 2**63]
    codes = {code_of(value) for value in values}
    assert len(codes) > len(values) - 6  # some have one hash: -1 and -2, 0 and the empty text, 4 and 2⁶³
    assert {len(code) for code in codes} == {CODE_BYTES}
    assert not codes & {UNKNOWN, ABSENT}


@pytest.mark.parametrize("value", [None, b"red", ["red"], {"red": 1}])
def test_what_equals_no_literal_is_absent(value: object) -> None:
    assert code_of(value) == ABSENT


def test_codes_of_messages_stand_one_behind_the_other() -> None:
    messages = [make_message(color="red", weight=2), make_message(color="blue"), make_message(weight=2.0)]
    assert codes_of(messages, ("weight", "color")) == [
        code_of(2) + ABSENT + code_of(2),
        code_of("red") + code_of("blue") + ABSENT,
    ]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("color = 'red'", [(1, ["red"])]),
        ("'red' = color", [(1, ["red"])]),
        ("weight = 2.0", [(0, [2])]),
        ("weight = -2", [(0, [-2])]),
        ("weight = TRUE", [(0, [True])]),
        ("weight IN (1, 'x', TRUE)", [(0, [1, "x", True])]),
        ("color = 'red' AND size > 5 AND weight = 1", [(1, ["red"]), (0, [1])]),
        ("color = 'red' AND color = 'blue'", [(1, ["red"]), (1, ["blue"])]),
        ("color <> 'red'", []),
        ("color NOT IN ('red')", []),
        ("NOT color = 'red'", []),
        ("color = 'red' OR weight = 1", []),
        ("weight > 1 AND color LIKE 'r%'", []),
        ("color = size", []),
        ("weight + 1 = 2", []),
        ("size = 5", []),
        ("convert_string_expressions: weight = 1", []),
        ("convert_string_expressions: weight IN (1)", []),
    ],
)
def test_what_a_selector_demands(text: str, terms: list[tuple[int, list[object]]]) -> None:
    coded = [(index, [code_of(value) for value in values]) for index, values in terms]
    assert terms_of(compile_selector(text), ("weight", "color")) == coded
    assert terms_of(compile_selector(text), ()) == []


def test_no_selector_demands_nothing() -> None:
    assert terms_of(None, ("color",)) == []


@pytest.mark.parametrize(("count", "demanded"), [(VALUES_MAX, 1), (VALUES_MAX + 1, 0)])
def test_a_long_list_is_not_searched_for(count: int, demanded: int) -> None:
    selector = compile_selector(f"weight IN ({', '.join(map(str, range(count)))})")
    assert len(terms_of(selector, ("weight",))) == demanded


def test_arrivals_are_asked_about_for_all_at_once_whoever_demands_a_hot_property() -> None:
    deep, hot, plain = Deep(), RecordingSession("hot"), RecordingSession("plain")
    deep.queue.update(replace(deep.queue.settings, hot_properties=("seven",)), NOW)
    deep.publish(40)
    deep.page_out(ALL)
    hot.consume(deep.queue, selector="seven = 4", messages=100)
    plain.consume(deep.queue, selector="seven > 4", messages=100)
    deep.take_turns()
    before = len(hot.received), len(plain.received)
    deep.publish(7)
    assert (len(hot.received), len(plain.received)) == (before[0] + 1, before[1] + 2), "without a turn"
