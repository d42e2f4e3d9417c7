"""Values of selectors: comparison and arithmetic that never raise. ``None`` is a missing value, and *unknown*.

JMS 2.0 §3.8.1.2: only values of like type compare; numbers are one type whatever their width, and comparing unlike
types is false, for ``<>`` too. Anything compared with a missing value is unknown.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeGuard

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**64 - 1
"""The range of integers in messages: long and unsigned long.

Integer results outside become approximate numbers, so that the cost of arithmetic stays bounded.
"""

_NUMBER_TEXT: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
_WHOLE_DIGITS: Final = 20


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; truth values are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def kind_name(value: object) -> str:
    """Return the common name of a value's type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, bytes):
        return "a binary value"
    return "a table" if isinstance(value, dict) else "a list"


def alike(left: object, right: object) -> bool:
    """Return whether two present values are of one type that has equality."""
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    if isinstance(left, str):
        return isinstance(right, str)
    if isinstance(left, int | float):
        return isinstance(right, int | float)
    return isinstance(left, bytes) and isinstance(right, bytes)


def equal(left: object, right: object) -> bool | None:
    """``=``: unknown when a value is missing or not a number (NaN), false when the types are unlike."""
    if left is None or right is None or left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
        return None
    return alike(left, right) and bool(left == right)


def different(left: object, right: object) -> bool | None:
    """``<>``: unknown when a value is missing or not a number (NaN), false when the types are unlike."""
    if left is None or right is None or left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
        return None
    return alike(left, right) and bool(left != right)


def ordered(operator: str, left: object, right: object) -> bool | None:
    """``<``, ``<=``, ``>`` and ``>=`` order numbers only (JMS 2.0 §3.8.1.2); false for other present values."""
    if left is None or right is None:
        return None
    if not is_number(left) or not is_number(right):
        return False
    if left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
        return None
    if operator == "<":
        return left < right
    if operator == "<=":
        return left <= right
    return left > right if operator == ">" else left >= right


def compared(operator: str, left: object, right: object) -> bool | None:
    """Apply one of the six comparisons."""
    if operator == "=":
        return equal(left, right)
    if operator == "<>":
        return different(left, right)
    return ordered(operator, left, right)


def both(left: bool | None, right: bool | None) -> bool | None:
    """Apply ``AND``: false when one side is false, unknown when one is unknown."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def negated(value: bool | None) -> bool | None:
    """Apply ``NOT``: unknown stays unknown."""
    return None if value is None else not value


def number_of(text: str) -> int | float | None:
    """Return the number a text spells in decimal, ``None`` when it spells none."""
    if _NUMBER_TEXT.fullmatch(text) is None:
        return None
    stripped = text.strip()
    if len(stripped) <= _WHOLE_DIGITS and stripped.lstrip("+-").isdigit():
        return int(stripped)
    value = float(stripped)
    return None if math.isinf(value) else value


def truth_of(text: str) -> bool | None:
    """Return the truth value a text spells, in any case; ``None`` when it spells none."""
    lowered = text.strip().lower()
    return lowered == "true" if lowered in {"true", "false"} else None


def matched_to(value: object, other: object) -> object:
    """Under ``convert_string_expressions:``, return a text that spells a value of ``other``'s type as that value."""
    if not isinstance(value, str):
        return value
    if isinstance(other, bool):
        truth = truth_of(value)
        return value if truth is None else truth
    if isinstance(other, int | float):
        number = number_of(value)
        return value if number is None else number
    return value


def as_number(value: object) -> object:
    """Under ``convert_string_expressions:``, return the number a text spells; any other value unchanged."""
    if not isinstance(value, str):
        return value
    number = number_of(value)
    return value if number is None else number


def calculated(operator: str, left: object, right: object) -> int | float | None:
    """Apply ``+ - * / %``. Division is never cut (7 / 2 is 3.5, as in Artemis), a remainder has the dividend's sign.

    Unknown when a side is no number, for division by zero, and when the result is not a number.
    """
    if not is_number(left) or not is_number(right):
        return None
    if right == 0 and operator in {"/", "%"}:
        return None
    try:
        if isinstance(left, int) and isinstance(right, int):
            value = _whole(operator, left, right)
        else:
            value = _approximate(operator, float(left), float(right))
    except (OverflowError, ValueError):
        return None  # a whole number beyond a double, or the remainder of an infinity: no value to go on with
    return None if math.isnan(value) else value


def opposite(value: object) -> int | float | None:
    """Apply unary ``-``; unknown for anything but a number."""
    if isinstance(value, float):  # 0 - 0.0 would lose the sign
        return None if math.isnan(value) else -value
    return calculated("-", 0, value)


def _whole(operator: str, left: int, right: int) -> int | float:
    if operator == "/":
        return left / right
    if operator == "+":
        value = left + right
    elif operator == "-":
        value = left - right
    elif operator == "*":
        value = left * right
    else:
        value = abs(left) % abs(right)
        if left < 0:
            value = -value
    return value if INTEGER_MIN <= value <= INTEGER_MAX else float(value)


def _approximate(operator: str, left: float, right: float) -> float:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left / right if operator == "/" else math.fmod(left, right)
