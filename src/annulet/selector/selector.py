"""Compiled selectors, shared by all users of the same condition."""

from __future__ import annotations

from typing import Final

from annulet.selector.comparisons import Comparison, In, Like, TextComparison
from annulet.selector.explanation import Explanation, explain
from annulet.selector.expressions import And, Expression, Identifier, Literal, Lookup
from annulet.selector.lexer import CONVERTING
from annulet.selector.like import SEARCH_UNITS
from annulet.selector.parser import SEARCH_STEPS_MAX, parse

SHORT_HEADER: Final = 1024
"""Octets of properties up to which finding one costs no more than an expression."""

NAMES_ONE_BY_ONE: Final = 4
"""Properties of one long header that count as looked for; for more of them all are decoded at once."""

CACHE_SIZE: Final = 1024
"""Texts the cache keeps, the most recently used ones. Users of an evicted selector keep it."""


class Selector:
    """A compiled condition over named values. Immutable; get one from :func:`compile_selector`."""

    __slots__ = ("_condition", "_expressions", "_names", "_search_units", "canonical", "identifiers", "text")

    def __init__(self, text: str, condition: Expression, canonical: str) -> None:
        self.text = text
        """The text it was first compiled from; other users may have written it differently."""
        self.canonical = canonical
        """The one spelling of all equivalent texts: no comments, no needless parentheses, keywords in capitals."""
        self.identifiers: frozenset[str] = identifiers_of(condition)
        """Every name the condition looks up, without quotes."""
        self._condition = condition
        expressions = expressions_of(condition)
        self._expressions = len(expressions)
        self._names = sum([isinstance(item, Identifier) for item in expressions])
        self._search_units = sum([item.pattern.units for item in expressions if isinstance(item, Like)])

    def steps_for(self, size: int) -> int:
        """Return how many steps an evaluation takes at most for a message with ``size`` octets of properties.

        A step is some 0.25 µs in pure Python: an expression, or what reading and searching for that long need.
        """
        steps = self._expressions
        if size > SHORT_HEADER:
            steps += min(self._names, NAMES_ONE_BY_ONE) * ((size - SHORT_HEADER) >> 3)
        if self._search_units:
            steps += min(SEARCH_STEPS_MAX, size * self._search_units // SEARCH_UNITS)
        return steps

    @property
    def required_texts(self) -> list[tuple[str, str]]:
        """Names and the texts they must be equal to for the condition to be true; often none.

        The terms of the top-level ``AND``: necessary, not sufficient.
        """
        parts = _required(self._condition)
        return [(part.name, part.literal) for part in parts if isinstance(part, TextComparison) and part.equality]

    @property
    def required_values(self) -> list[tuple[str, list[str | int | float]]]:
        """Names and the values of which they must be equal to one for the condition to be true; often none.

        As :attr:`required_texts`, with numbers, truth values and lists of ``IN``. Equal values have equal hashes,
        whatever their types (1 and 1.0).
        """
        found: list[tuple[str, list[str | int | float]]] = []
        for part in _required(self._condition):
            if isinstance(part, In):
                if isinstance(part.value, Identifier) and not part.converting and not part.opposite:
                    found.append((part.value.name, [literal.value for literal in part.literals]))
            elif isinstance(part, Comparison) and part.operator == "=" and not part.converting:
                name, literal = part.left, part.right  # a literal is always on the right, see comparison()
                if isinstance(name, Identifier) and isinstance(literal, Literal):
                    found.append((name.name, [literal.value]))
        return found

    def matches(self, lookup: Lookup) -> bool:
        """Return whether the condition is true for the values ``lookup`` gives; *unknown* does not match.

        ``lookup`` is called with names of :attr:`identifiers`, possibly several times with one, and returns ``None``
        for a missing value. Its exceptions are passed on; the condition itself raises nothing.
        """
        return self._condition.truth(lookup) is True

    def evaluate(self, lookup: Lookup) -> bool | None:
        """Return the condition's value; ``None`` is *unknown* (JMS 2.0 §3.8.1.2)."""
        return self._condition.truth(lookup)

    def explain(self, lookup: Lookup) -> Explanation:
        """Return every sub-expression with its value; ``str()`` of it is for people."""
        return explain(self._condition, lookup)

    def __repr__(self) -> str:
        return f"<Selector {self.canonical}>"


def _required(condition: Expression) -> tuple[Expression, ...]:
    """Return the necessary terms of the condition."""
    return condition.parts if isinstance(condition, And) else (condition,)


def identifiers_of(expression: Expression) -> frozenset[str]:
    """Return the names an expression looks up."""
    return frozenset([item.name for item in expressions_of(expression) if isinstance(item, Identifier)])


def expressions_of(expression: Expression) -> list[Expression]:
    """Return an expression with all its parts."""
    found = [expression]
    for item in found:
        found.extend(item.parts)
    return found


class SelectorCache:
    """Selectors by text and by canonical text, bounded to ``size`` texts; the least recently used one is evicted
    first."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self.size = size
        self._selectors: dict[str, Selector] = {}  # the order of a dictionary is the order of use

    def __len__(self) -> int:
        """Return the number of texts kept."""
        return len(self._selectors)

    def get(self, text: str) -> Selector:
        """Return the selector of a text. Raises :class:`SelectorError`, and remembers no failure."""
        selector = self._selectors.pop(text, None)
        if selector is None:
            condition, converting = parse(text)
            canonical = f"{CONVERTING} {condition.text()}" if converting else condition.text()
            selector = self._selectors.pop(canonical, None) or Selector(text, condition, canonical)
            self._keep(canonical, selector)
        self._keep(text, selector)
        return selector

    def _keep(self, text: str, selector: Selector) -> None:
        self._selectors[text] = selector
        while len(self._selectors) > self.size:
            del self._selectors[next(iter(self._selectors))]


_CACHE: Final = SelectorCache()


def compile_selector(text: str) -> Selector:
    """Return the selector of ``text``. Equal texts, and texts that differ in spelling only, give the same object.

    Raises:
        SelectorError: ``text`` is not a selector; it has the position, the text found and the expected one.
    """
    return _CACHE.get(text)
