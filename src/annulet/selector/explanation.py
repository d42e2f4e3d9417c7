"""Why a selector matches or not: its expressions as a tree, each with the value it had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from annulet.selector.expressions import TRUTH, Expression, Literal, Lookup, conditions_remark, quoted
from annulet.selector.values import kind_name

SHOWN_LENGTH: Final = 80
"""Characters of a text that an explanation prints."""

INDENTATION: Final = "  "


@dataclass(frozen=True, slots=True)
class Explanation:
    """One expression with its value. ``str()`` prints it with all its parts, one a line, indented by depth."""

    expression: str
    """Canonical text."""
    value: object
    """Its value; ``None`` is *unknown* for a condition, *null* for other expressions."""
    condition: bool
    """Whether it is a condition; names are not, even if they are used as one."""
    remark: str
    """Remarks on the values of its parts, such as types that do not compare; mostly empty."""
    parts: tuple[Explanation, ...]
    """Its operands that are not literals, from left to right."""

    @property
    def verdict(self) -> str:
        """The value as text: ``true``, ``false``, ``unknown``, ``null``, a number, or a text in quotes."""
        if self.value is None:
            return "unknown" if self.condition else "null"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str):
            text = self.value if len(self.value) <= SHOWN_LENGTH else self.value[:SHOWN_LENGTH] + "..."
            return quoted(text)
        return repr(self.value) if isinstance(self.value, int | float) else kind_name(self.value)

    def __str__(self) -> str:
        """Return the tree, one expression a line."""
        lines: list[str] = []
        waiting = [(self, 0)]
        while waiting:
            item, depth = waiting.pop()
            remark = f" ({item.remark})" if item.remark else ""
            lines.append(f"{INDENTATION * depth}{item.expression}: {item.verdict}{remark}")
            waiting.extend((part, depth + 1) for part in reversed(item.parts))
        return "\n".join(lines)


def explain(expression: Expression, lookup: Lookup) -> Explanation:
    """Evaluate every part of a condition, also those a match would have skipped. Each name is looked up once."""
    values: dict[str, object] = {}

    def remembered(name: str) -> object:
        if name not in values:
            values[name] = lookup(name)
        return values[name]

    tree = _explained(expression, remembered)
    if tree.condition:
        return tree
    # a name that is the whole selector: its value differs from the selector's result
    return Explanation(
        expression=tree.expression,
        value=expression.truth(remembered),
        condition=True,
        remark=conditions_remark((expression,), [tree.value]),
        parts=(tree,),
    )


def _explained(expression: Expression, lookup: Lookup) -> Explanation:
    return Explanation(
        expression=expression.text(),
        value=expression.evaluate(lookup),
        condition=expression.kind == TRUTH,
        remark=expression.remark([part.evaluate(lookup) for part in expression.parts]),
        parts=tuple([_explained(part, lookup) for part in expression.parts if not isinstance(part, Literal)]),
    )
