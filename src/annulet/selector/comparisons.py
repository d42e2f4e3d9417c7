"""The conditions about values: comparisons, ``BETWEEN``, ``IN``, ``LIKE`` and ``IS NULL`` (JMS 2.0 §3.8.1.1)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from annulet.selector.expressions import (
    COMPARISON_LEVEL,
    NUMERIC,
    SUM_LEVEL,
    TEXTUAL,
    TRUTH,
    Expression,
    Identifier,
    Literal,
    Lookup,
    numbers_remark,
    quoted,
    spelled,
)
from annulet.selector.like import LikePattern
from annulet.selector.values import (
    alike,
    as_number,
    both,
    compared,
    equal,
    is_number,
    kind_name,
    matched_to,
    negated,
    ordered,
)

MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The same comparison with its sides exchanged."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Comparison(Expression):
    """``= <> < <= > >=``: unlike types are false; only numbers are ordered."""

    __slots__ = ("converting", "left", "operator", "right")

    def __init__(self, operator: str, left: Expression, right: Expression, *, converting: bool) -> None:
        super().__init__(COMPARISON_LEVEL, TRUTH, (left, right))
        self.operator = operator
        self.left = left
        self.right = right
        self.converting = converting

    def truth(self, lookup: Lookup) -> bool | None:
        """Compare both sides."""
        left, right = self.operands(self.left.evaluate(lookup), self.right.evaluate(lookup))
        return compared(self.operator, left, right)

    def operands(self, left: object, right: object) -> tuple[object, object]:
        """Return the values to compare, with texts converted under ``convert_string_expressions:``."""
        if not self.converting:
            return left, right
        if self.operator in {"=", "<>"}:
            return matched_to(left, right), matched_to(right, left)
        return as_number(left), as_number(right)

    def text(self) -> str:
        """Spell both sides."""
        return f"{spelled(self.left, SUM_LEVEL)} {self.operator} {spelled(self.right, SUM_LEVEL)}"

    def remark(self, values: list[object]) -> str:
        """Say when the sides do not compare."""
        left, right = self.operands(values[0], values[1])
        if left is None or right is None:
            return ""
        if self.operator in {"=", "<>"}:
            return "" if alike(left, right) else f"{kind_name(left)} is not compared with {kind_name(right)}"
        return numbers_remark([left, right], converting=False)


class TextComparison(Comparison):
    """``name = 'text'`` and ``name <> 'text'``, the commonest conditions, on a short path."""

    __slots__ = ("equality", "literal", "name")

    def __init__(self, operator: str, identifier: Identifier, literal: Literal, text: str) -> None:
        super().__init__(operator, identifier, literal, converting=False)
        self.name = identifier.name
        self.literal = text
        self.equality = operator == "="

    def truth(self, lookup: Lookup) -> bool | None:
        """Compare the value; no other type equals a text."""
        value = lookup(self.name)
        if isinstance(value, str):
            return (value == self.literal) is self.equality
        # NaN is the only present value that is unknown
        return None if value is None or value != value else False  # noqa: PLR0124


class NumberComparison(Comparison):
    """``name < 5`` and its five relatives on a short path."""

    __slots__ = ("code", "literal", "name")

    def __init__(self, operator: str, identifier: Identifier, literal: Literal, number: int | float) -> None:
        super().__init__(operator, identifier, literal, converting=False)
        self.name = identifier.name
        self.literal: int | float = number
        self.code = (">", "<", ">=", "<=", "=", "<>").index(operator)

    def truth(self, lookup: Lookup) -> bool | None:
        """Compare whole numbers here, everything else by the general rules."""
        value = lookup(self.name)
        if type(value) is not int:
            return compared(self.operator, value, self.literal)
        code = self.code
        if code < 2:
            return value > self.literal if code == 0 else value < self.literal
        if code < 4:
            return value >= self.literal if code == 2 else value <= self.literal
        return (value == self.literal) is (code == 4)


def comparison(operator: str, left: Expression, right: Expression, *, converting: bool) -> Comparison:
    """Return the comparison, on a short path where there is one. A literal on the left goes to the right."""
    if isinstance(left, Literal) and isinstance(right, Identifier):
        return comparison(MIRRORED[operator], right, left, converting=converting)
    if not converting and isinstance(left, Identifier) and isinstance(right, Literal):
        value = right.value
        if isinstance(value, str):
            if operator in {"=", "<>"}:
                return TextComparison(operator, left, right, value)
        elif not isinstance(value, bool):
            return NumberComparison(operator, left, right, value)
    return Comparison(operator, left, right, converting=converting)


class Between(Expression):
    """``BETWEEN low AND high``, bounds included: ``>= low AND <= high``; with ``NOT``: ``< low OR > high``."""

    __slots__ = ("converting", "high", "low", "opposite", "value")

    def __init__(
        self, value: Expression, low: Expression, high: Expression, *, opposite: bool, converting: bool
    ) -> None:
        super().__init__(COMPARISON_LEVEL, TRUTH, (value, low, high))
        self.value = value
        self.low = low
        self.high = high
        self.opposite = opposite
        self.converting = converting

    def truth(self, lookup: Lookup) -> bool | None:
        """Compare with both bounds; the value is looked up once."""
        value, low, high = self.value.evaluate(lookup), self.low.evaluate(lookup), self.high.evaluate(lookup)
        if self.converting:
            value, low, high = as_number(value), as_number(low), as_number(high)
        if not self.opposite:
            return both(ordered(">=", value, low), ordered("<=", value, high))
        return negated(both(negated(ordered("<", value, low)), negated(ordered(">", value, high))))

    def text(self) -> str:
        """Spell the value and its bounds."""
        word = "NOT BETWEEN" if self.opposite else "BETWEEN"
        bounds = f"{spelled(self.low, SUM_LEVEL)} AND {spelled(self.high, SUM_LEVEL)}"
        return f"{spelled(self.value, SUM_LEVEL)} {word} {bounds}"

    def remark(self, values: list[object]) -> str:
        """Say when one of the three is no number."""
        return numbers_remark(values, converting=self.converting)


class In(Expression):
    """``IN (...)``: equal to one of the literals; with ``NOT`` the opposite of that. Unknown for a missing value."""

    __slots__ = ("converting", "literals", "numbers", "opposite", "texts", "truths", "value")

    def __init__(self, value: Expression, literals: list[Literal], *, opposite: bool, converting: bool) -> None:
        super().__init__(COMPARISON_LEVEL, TRUTH, (value,))
        self.value = value
        self.literals = literals
        self.opposite = opposite
        self.converting = converting
        # one set per type: in Python 1 equals True
        self.texts = frozenset([literal.value for literal in literals if literal.kind == TEXTUAL])
        self.numbers = frozenset([literal.value for literal in literals if literal.kind == NUMERIC])
        self.truths = frozenset([literal.value for literal in literals if literal.kind == TRUTH])

    def truth(self, lookup: Lookup) -> bool | None:
        """Look for the value in the set of its type."""
        value = self.value.evaluate(lookup)
        if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
            return None
        return self.holds(value) is not self.opposite

    def holds(self, value: object) -> bool:
        """Return whether the present value equals one of the literals."""
        if self.converting:
            return any(
                equal(matched_to(value, literal.value), matched_to(literal.value, value)) for literal in self.literals
            )
        if isinstance(value, str):
            return value in self.texts
        if isinstance(value, bool):
            return value in self.truths
        return is_number(value) and value in self.numbers

    def text(self) -> str:
        """Spell the value and the list."""
        word = "NOT IN" if self.opposite else "IN"
        return f"{spelled(self.value, SUM_LEVEL)} {word} ({', '.join([literal.text() for literal in self.literals])})"

    def remark(self, values: list[object]) -> str:
        """Say when no literal of the list has the value's type."""
        value = values[0]
        if value is None or self.converting or any(alike(value, literal.value) for literal in self.literals):
            return ""
        return f"the list has nothing to compare with {kind_name(value)}"


class Like(Expression):
    """``LIKE``: true for a text of the pattern's form, false for other present values. With ``NOT`` the opposite.

    Unknown for a text of more than ``longest`` characters, if the pattern has to be searched for in it: see
    :data:`annulet.selector.parser.SEARCH_STEPS_MAX`. 0 is no bound.
    """

    __slots__ = ("longest", "opposite", "pattern", "value")

    def __init__(self, value: Expression, pattern: LikePattern, *, opposite: bool) -> None:
        super().__init__(COMPARISON_LEVEL, TRUTH, (value,))
        self.value = value
        self.pattern = pattern
        self.opposite = opposite
        self.longest: int = 0

    def truth(self, lookup: Lookup) -> bool | None:
        """Match the value."""
        value = self.value.evaluate(lookup)
        if value is None:
            return None
        if not isinstance(value, str):
            return self.opposite
        if 0 < self.longest < len(value):
            return None
        return self.pattern.matches(value) is not self.opposite

    def text(self) -> str:
        """Spell the value, the pattern and its escape character."""
        word = "NOT LIKE" if self.opposite else "LIKE"
        escape = f" ESCAPE {quoted(self.pattern.escape)}" if self.pattern.escape else ""
        return f"{spelled(self.value, SUM_LEVEL)} {word} {quoted(self.pattern.pattern)}{escape}"

    def remark(self, values: list[object]) -> str:
        """Say when the value is no text, or a longer one than is searched."""
        value = values[0]
        if isinstance(value, str) and 0 < self.longest < len(value):
            return f"a text of {len(value)} characters is longer than the {self.longest} that this selector searches"
        odd = values[0] is not None and not isinstance(values[0], str)
        return f"{kind_name(values[0])} has no form that LIKE could match" if odd else ""


class IsNull(Expression):
    """``IS NULL`` and ``IS NOT NULL``: the only condition that is never unknown."""

    __slots__ = ("opposite", "value")

    def __init__(self, value: Expression, *, opposite: bool) -> None:
        super().__init__(COMPARISON_LEVEL, TRUTH, (value,))
        self.value = value
        self.opposite = opposite

    def truth(self, lookup: Lookup) -> bool | None:
        """Say whether there is a value."""
        return (self.value.evaluate(lookup) is None) is not self.opposite

    def text(self) -> str:
        """Spell the test."""
        return f"{spelled(self.value, SUM_LEVEL)} {'IS NOT NULL' if self.opposite else 'IS NULL'}"
