"""An explanation shows every part with its value and says what is odd."""

from __future__ import annotations

from annulet.selector.explanation import SHOWN_LENGTH, Explanation, explain
from annulet.selector.parser import parse


def explained(text, **values):
    return explain(parse(text)[0], values.get)


def test_it_prints_each_part_with_its_value():
    tree = explained("color = 'red' AND (weight > 2500 OR NOT urgent)", color="blue", weight=3000)
    assert str(tree).splitlines() == [
        "color = 'red' AND (weight > 2500 OR NOT urgent): false",
        "  color = 'red': false",
        "    color: 'blue'",
        "  weight > 2500 OR NOT urgent: true",
        "    weight > 2500: true",
        "      weight: 3000",
        "    NOT urgent: unknown",
        "      urgent: null",
    ]


def test_it_says_which_types_do_not_compare():
    tree = explained("weight > 2500 OR size = 5 OR name", weight="3000", size="5", name=b"x")
    assert str(tree).splitlines() == [
        "weight > 2500 OR size = 5 OR name: unknown (a binary value is no condition)",
        "  weight > 2500: false (a text is no number)",
        "    weight: '3000'",
        "  size = 5: false (a text is not compared with a number)",
        "    size: '5'",
        "  name: a binary value",
    ]


def test_a_name_alone_is_explained_as_the_condition_it_stands_for():
    assert str(explained("urgent", urgent=True)) == "urgent: true\n  urgent: true"
    assert str(explained("urgent", urgent=1)) == "urgent: unknown (a number is no condition)\n  urgent: 1"
    assert str(explained("TRUE")) == "TRUE: true"


def test_it_is_data_as_well():
    tree = explained("a + 1 = 3", a=2)
    assert (tree.expression, tree.value, tree.condition, tree.remark) == ("a + 1 = 3", True, True, "")
    (total,) = tree.parts
    assert (total.expression, total.value, total.condition) == ("a + 1", 3, False)
    (name,) = total.parts
    assert (name.expression, name.value, name.parts) == ("a", 2, ())


def test_it_evaluates_what_a_match_would_skip_but_looks_each_name_up_once():
    asked = []

    def lookup(name):
        asked.append(name)

    tree = explain(parse("a = 1 AND b = 2 AND a = 3 AND (a > 1 OR b < 2)")[0], lookup)
    assert len(tree.parts) == 4
    assert sorted(asked) == ["a", "b"]


def test_values_are_shown_as_a_selector_would_spell_them():
    def shown(value, *, condition=False):
        return Explanation("x", value, condition, "", ()).verdict

    assert [shown(value) for value in (None, True, False, 1, 2.5, "it's", b"", [], {})] == [
        "null", "true", "false", "1", "2.5", "'it''s'", "a binary value", "a list", "a table",
    ]  # fmt: skip
    assert shown(None, condition=True) == "unknown"
    assert len(shown("x" * 10_000)) == SHOWN_LENGTH + 5
