"""The expressions a selector is made of, but those that compare.

Each can be evaluated, spelled, and asked for remarks on its operands. Conditions return ``True``, ``False`` or ``None``
for *unknown* (JMS 2.0 §3.8.1.2); other expressions return a value, or ``None`` if there is none. Nothing here raises
for any value a lookup returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mypy_extensions import mypyc_attr

from annulet.selector.lexer import is_plain_name
from annulet.selector.values import as_number, calculated, is_number, kind_name, negated, opposite, truth_of

Lookup: TypeAlias = Callable[[str], object]
"""Gives the value of a name, ``None`` when there is none."""

# Tighter binding has the higher number.
OR_LEVEL: Final = 1
AND_LEVEL: Final = 2
NOT_LEVEL: Final = 3
COMPARISON_LEVEL: Final = 4
SUM_LEVEL: Final = 5
PRODUCT_LEVEL: Final = 6
SIGN_LEVEL: Final = 7
PRIMARY_LEVEL: Final = 8

# The static type of an expression.
ANYTHING: Final = "anything"
TRUTH: Final = "condition"
NUMERIC: Final = "number"
TEXTUAL: Final = "text"


@mypyc_attr(allow_interpreted_subclasses=True)
class Expression:
    """One node of the tree: ``level`` is its binding strength, ``kind`` its static type, ``depth`` its height."""

    __slots__ = ("depth", "kind", "level", "parts")

    def __init__(self, level: int, kind: str, parts: tuple[Expression, ...] = ()) -> None:
        self.level = level
        self.kind = kind
        self.parts = parts
        self.depth: int = 1 + max([part.depth for part in parts], default=0)

    def evaluate(self, lookup: Lookup) -> object:
        """Return the value: ``bool`` or ``None`` for a condition."""
        return self.truth(lookup)

    def truth(self, lookup: Lookup) -> bool | None:
        """Return the value as a condition; unknown for other expressions."""
        raise NotImplementedError

    def text(self) -> str:
        """Spell the expression canonically; reading that gives an equal expression."""
        raise NotImplementedError

    def remark(self, values: list[object]) -> str:
        """Return remarks on the values of ``parts``, in their order; empty if there are none."""
        del values
        return ""


def spelled(expression: Expression, level: int) -> str:
    """Spell an operand, in parentheses when it binds less tightly than ``level``."""
    text = expression.text()
    return text if expression.level >= level else f"({text})"


def quoted(text: str) -> str:
    """Spell a text literal."""
    return "'" + text.replace("'", "''") + "'"


class Literal(Expression):
    """A text, a number or a truth value."""

    __slots__ = ("value",)

    def __init__(self, value: str | int | float) -> None:
        kind = TRUTH if isinstance(value, bool) else TEXTUAL if isinstance(value, str) else NUMERIC
        # a negative number is spelled with a sign
        super().__init__(SIGN_LEVEL if kind == NUMERIC else PRIMARY_LEVEL, kind)
        self.value: str | int | float = value

    def evaluate(self, lookup: Lookup) -> object:
        """Return the value itself."""
        del lookup
        return self.value

    def truth(self, lookup: Lookup) -> bool | None:
        """Return the value itself if it is a truth value."""
        del lookup
        return self.value if isinstance(self.value, bool) else None

    def text(self) -> str:
        """Spell the value; numbers in decimal."""
        if isinstance(self.value, bool):
            return "TRUE" if self.value else "FALSE"
        return quoted(self.value) if isinstance(self.value, str) else repr(self.value)


class Identifier(Expression):
    """A name whose value the lookup gives. As a condition it is unknown unless its value is a truth value."""

    __slots__ = ("converting", "name")

    def __init__(self, name: str, *, converting: bool = False) -> None:
        super().__init__(PRIMARY_LEVEL, ANYTHING)
        self.name = name
        self.converting = converting

    def evaluate(self, lookup: Lookup) -> object:
        """Look the name up."""
        return lookup(self.name)

    def truth(self, lookup: Lookup) -> bool | None:
        """Look the name up; anything but a truth value is unknown."""
        value = lookup(self.name)
        if isinstance(value, bool):
            return value
        return truth_of(value) if self.converting and isinstance(value, str) else None

    def text(self) -> str:
        """Return the name, quoted when it has to be."""
        return self.name if is_plain_name(self.name) else '"' + self.name.replace('"', '""') + '"'


class Sign(Expression):
    """Unary ``-`` or ``+`` of an expression that is not a literal."""

    __slots__ = ("converting", "minus", "operand")

    def __init__(self, operand: Expression, *, minus: bool, converting: bool) -> None:
        super().__init__(SIGN_LEVEL, NUMERIC, (operand,))
        self.operand = operand
        self.minus = minus
        self.converting = converting

    def evaluate(self, lookup: Lookup) -> object:
        """Return the operand or its opposite; nothing unless the operand is a number."""
        value = self.operand.evaluate(lookup)
        if self.converting:
            value = as_number(value)
        return opposite(value) if self.minus else opposite(opposite(value))

    def truth(self, lookup: Lookup) -> bool | None:
        """Return unknown: a number is no condition."""
        del lookup
        return None

    def text(self) -> str:
        """Spell the sign and the operand, never ``--``, which starts a comment."""
        operand = spelled(self.operand, SIGN_LEVEL)
        if not self.minus:
            return "+" + operand
        return "- " + operand if operand.startswith("-") else "-" + operand

    def remark(self, values: list[object]) -> str:
        """Say when the operand is no number."""
        return numbers_remark(values, converting=self.converting)


class Calculation(Expression):
    """``+ - * / %`` of two numbers."""

    __slots__ = ("converting", "left", "operator", "right")

    def __init__(self, operator: str, left: Expression, right: Expression, *, converting: bool) -> None:
        super().__init__(SUM_LEVEL if operator in {"+", "-"} else PRODUCT_LEVEL, NUMERIC, (left, right))
        self.operator = operator
        self.left = left
        self.right = right
        self.converting = converting

    def evaluate(self, lookup: Lookup) -> object:
        """Return the result, or nothing."""
        left, right = self.left.evaluate(lookup), self.right.evaluate(lookup)
        if self.converting:
            left, right = as_number(left), as_number(right)
        return calculated(self.operator, left, right)

    def truth(self, lookup: Lookup) -> bool | None:
        """Return unknown: a number is no condition."""
        del lookup
        return None

    def text(self) -> str:
        """Spell both sides; operators of one level are read from the left."""
        return f"{spelled(self.left, self.level)} {self.operator} {spelled(self.right, self.level + 1)}"

    def remark(self, values: list[object]) -> str:
        """Say when an operand is no number, or the divisor is 0."""
        odd = numbers_remark(values, converting=self.converting)
        divisor = as_number(values[1]) if self.converting else values[1]
        if not odd and self.operator in {"/", "%"} and divisor == 0:
            return "division by zero is unknown"
        return odd


def numbers_remark(values: list[object], *, converting: bool) -> str:
    """Say which of the values is no number where only numbers have a meaning."""
    for value in values:
        number = as_number(value) if converting else value
        if number is not None and not is_number(number):
            return f"{kind_name(number)} is no number"
    return ""


class Not(Expression):
    """``NOT``: unknown stays unknown."""

    __slots__ = ("operand",)

    def __init__(self, operand: Expression) -> None:
        super().__init__(NOT_LEVEL, TRUTH, (operand,))
        self.operand = operand

    def truth(self, lookup: Lookup) -> bool | None:
        """Return the opposite."""
        return negated(self.operand.truth(lookup))

    def text(self) -> str:
        """Spell the negation."""
        return f"NOT {spelled(self.operand, NOT_LEVEL)}"

    def remark(self, values: list[object]) -> str:
        """Say when the operand is no condition."""
        return conditions_remark(self.parts, values)


def conditions_remark(parts: tuple[Expression, ...], values: list[object]) -> str:
    """Say which of the values is no truth value where only conditions have a meaning."""
    for part, value in zip(parts, values, strict=True):
        if part.kind == ANYTHING and value is not None and not isinstance(value, bool):
            return f"{kind_name(value)} is no condition"
    return ""


class And(Expression):
    """``AND`` of two or more conditions: false as soon as one is false, else unknown if one is unknown."""

    __slots__ = ()

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        super().__init__(AND_LEVEL, TRUTH, parts)

    def truth(self, lookup: Lookup) -> bool | None:
        """Evaluate from the left until one is false."""
        outcome: bool | None = True
        for part in self.parts:
            value = part.truth(lookup)
            if value is False:
                return False
            if value is None:
                outcome = None
        return outcome

    def text(self) -> str:
        """Join the conditions."""
        return " AND ".join([spelled(part, NOT_LEVEL) for part in self.parts])

    def remark(self, values: list[object]) -> str:
        """Say when a part is no condition."""
        return conditions_remark(self.parts, values)


class Or(Expression):
    """``OR`` of two or more conditions: true as soon as one is true, else unknown if one is unknown."""

    __slots__ = ()

    def __init__(self, parts: tuple[Expression, ...]) -> None:
        super().__init__(OR_LEVEL, TRUTH, parts)

    def truth(self, lookup: Lookup) -> bool | None:
        """Evaluate from the left until one is true."""
        outcome: bool | None = False
        for part in self.parts:
            value = part.truth(lookup)
            if value is True:
                return True
            if value is None:
                outcome = None
        return outcome

    def text(self) -> str:
        """Join the conditions."""
        return " OR ".join([spelled(part, AND_LEVEL) for part in self.parts])

    def remark(self, values: list[object]) -> str:
        """Say when a part is no condition."""
        return conditions_remark(self.parts, values)
