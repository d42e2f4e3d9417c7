"""Reads a selector's text into a tree of expressions (JMS 2.0 §3.8.1), by operator precedence.

Beyond the standard, because Artemis and Broker-J take it or because people write it: ``%``, literals of every type in
the list of ``IN``, any value before ``IN``, ``LIKE`` and ``IS NULL``, comments, quoted names.
"""

from __future__ import annotations

import difflib
from typing import Final

from annulet.selector.comparisons import Between, In, IsNull, Like, comparison
from annulet.selector.errors import SelectorError
from annulet.selector.expressions import (
    AND_LEVEL,
    ANYTHING,
    COMPARISON_LEVEL,
    NOT_LEVEL,
    NUMERIC,
    OR_LEVEL,
    PRODUCT_LEVEL,
    SIGN_LEVEL,
    SUM_LEVEL,
    TEXTUAL,
    TRUTH,
    And,
    Calculation,
    Expression,
    Identifier,
    Literal,
    Not,
    Or,
    Sign,
)
from annulet.selector.lexer import END, IDENTIFIER, KEYWORD, NUMBER, TEXT, Lexer, Token
from annulet.selector.like import SEARCH_UNITS, LikePattern
from annulet.selector.values import INTEGER_MAX, INTEGER_MIN

LENGTH_MAX: Final = 16_384
"""Characters of a selector. A generated ``IN`` list of a thousand short texts fits."""

NESTING_MAX: Final = 50
"""Parentheses, ``NOT`` and signs inside each other: with all levels of precedence between them still half of the
interpreter's recursion limit."""

DEPTH_MAX: Final = 100
"""Levels of the finished tree, which is also the number of terms of one sum or product.

A chain of ``AND`` or ``OR`` is one level at any length.
"""

SEARCHES_MAX: Final = 8
"""``LIKE`` patterns with ``_`` between two ``%``. Each goes through a text character by character, 14 ms for 100,000
characters in pure Python; all other patterns are searched for by the C library."""

SEARCH_STEPS_MAX: Final = 65_536
"""Steps that the ``LIKE`` patterns of one selector may take for one message: some 16 ms in pure Python.

Patterns with text between two ``%`` count, together: the more a selector has of them and the longer they are, the
shorter is the longest text that they are searched for in. For a longer one they are unknown. One pattern with ``_`` is
searched for in texts of 64 KiB, one without in texts of two million characters, a hundred of them in 20,000.
"""

LEVELS: Final = {
    "OR": OR_LEVEL, "AND": AND_LEVEL,
    "=": COMPARISON_LEVEL, "<>": COMPARISON_LEVEL, "<": COMPARISON_LEVEL, "<=": COMPARISON_LEVEL,
    ">": COMPARISON_LEVEL, ">=": COMPARISON_LEVEL, "IS": COMPARISON_LEVEL, "NOT": COMPARISON_LEVEL,
    "BETWEEN": COMPARISON_LEVEL, "IN": COMPARISON_LEVEL, "LIKE": COMPARISON_LEVEL,
    "+": SUM_LEVEL, "-": SUM_LEVEL, "*": PRODUCT_LEVEL, "/": PRODUCT_LEVEL, "%": PRODUCT_LEVEL,
}  # fmt: skip
"""Binding strength of each infix operator; ``NOT`` precedes ``BETWEEN``, ``IN`` or ``LIKE`` there."""

OPERATOR_WORDS: Final = ("AND", "OR", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "NOT")
BODY_FUNCTIONS: Final = ("XPATH", "XQUERY")

_OPERAND: Final = "a property name, a literal or ("
_KIND_NAMES: Final = {TEXTUAL: "a text", NUMERIC: "a number", TRUTH: "a condition"}


def parse(text: str) -> tuple[Expression, bool]:
    """Return the condition of ``text``, and whether it has the prefix ``convert_string_expressions:``.

    Raises:
        SelectorError: ``text`` is no selector, longer than :data:`LENGTH_MAX` or nested too deep.
    """
    if len(text) > LENGTH_MAX:
        raise SelectorError(
            text, LENGTH_MAX, f"found {len(text)} characters, expected at most {LENGTH_MAX}; shorten the selector"
        )
    lexer = Lexer(text)
    parser = Parser(text, lexer.tokens(), converting=lexer.converting)
    return parser.selector(), lexer.converting


def bound_searches(likes: list[Like]) -> None:
    """Tell the patterns of a selector up to which length of a text they are searched for."""
    units = sum([like.pattern.units for like in likes])
    for like in likes:
        if like.pattern.units:
            like.longest = SEARCH_STEPS_MAX * SEARCH_UNITS // units


class Parser:
    """Walks the tokens once, from left to right."""

    def __init__(self, text: str, tokens: list[Token], *, converting: bool) -> None:
        self.text = text
        self.tokens = tokens
        self.converting = converting
        self.index = 0
        self.token = tokens[0]
        self.nesting = 0
        self.searches = 0  # patterns of LIKE that are slow on long texts
        self.likes: list[Like] = []

    def selector(self) -> Expression:
        """Read everything. Raises :class:`SelectorError`."""
        start = self.token
        if start.kind == END:
            raise self._error(
                start, "found nothing, expected a condition; leave an empty selector out to match everything"
            )
        condition = self._expression(OR_LEVEL)
        if self.token.kind != END:
            raise self._unexpected("an operator or the end")
        self._need_condition(condition, start, "")
        bound_searches(self.likes)
        return condition

    # reading ----------------------------------------------------------------------------------------------------

    def _advance(self) -> Token:
        token = self.token
        self.index += 1
        self.token = self.tokens[self.index]
        return token

    def _take(self, word: str, expected: str) -> None:
        if self.token.word != word:
            raise self._unexpected(expected)
        self._advance()

    def _error(self, token: Token, problem: str) -> SelectorError:
        return SelectorError(self.text, token.position, problem)

    def _unexpected(self, expected: str) -> SelectorError:
        token = self.token
        hint = ""
        before = self.tokens[self.index - 1] if self.index else token
        if token.kind == IDENTIFIER:
            near = difflib.get_close_matches(token.source.upper(), OPERATOR_WORDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
        elif before.kind == IDENTIFIER and before.source.upper() in BODY_FUNCTIONS:
            hint = "; selectors see properties, not bodies"
        elif before.kind == IDENTIFIER and token.word == "(":
            hint = "; selectors have no functions"
        elif token.word == "NULL":
            hint = "; write IS NULL or IS NOT NULL"
        elif token.kind == KEYWORD:
            hint = f'; {token.word} is reserved, as a property name it needs double quotes: "{token.source}"'
        return self._error(token, f"found {token.found}, expected {expected}{hint}")

    def _built(self, expression: Expression, token: Token) -> Expression:
        if expression.depth > DEPTH_MAX:
            raise self._error(
                token, f"found more than {DEPTH_MAX} levels of operators, expected fewer; split the selector or use IN"
            )
        return expression

    # expressions ------------------------------------------------------------------------------------------------

    def _expression(self, lowest: int) -> Expression:
        """Read an operand and the operators behind it that bind at least as tight as ``lowest``."""
        start = self.token
        left = self._prefix(lowest)
        compared = False
        while True:
            token = self.token
            level = LEVELS.get(token.word, 0)
            if level < lowest or level == 0:
                return left
            if level == COMPARISON_LEVEL and compared:
                raise self._error(
                    token,
                    f"found {token.found} behind a comparison, expected AND, OR or the end; comparisons do not chain",
                )
            compared = compared or level == COMPARISON_LEVEL
            if level < NOT_LEVEL:
                left = self._logical(token, level, left, start)
            elif level == COMPARISON_LEVEL:
                left = self._comparison(left, start)
            else:
                left = self._calculation(token, level, left, start)
            self._built(left, token)

    def _prefix(self, lowest: int) -> Expression:
        token = self.token
        if token.word not in {"NOT", "-", "+", "("}:
            return self._primary()
        if self.nesting == NESTING_MAX:
            raise self._error(
                token,
                f"found more than {NESTING_MAX} of ( NOT - + inside each other, expected fewer; simplify the selector",
            )
        self.nesting += 1
        if token.word == "NOT":
            expression = self._negation(lowest)
        elif token.word == "(":
            self._advance()
            expression = self._expression(OR_LEVEL)
            self._take(")", "an operator or )")
        else:
            expression = self._sign()
        self.nesting -= 1
        return self._built(expression, token)

    def _negation(self, lowest: int) -> Expression:
        token = self._advance()
        if lowest > NOT_LEVEL:
            raise self._error(token, f"found NOT, expected {_OPERAND}; put the negation in parentheses")
        start = self.token
        operand = self._expression(NOT_LEVEL)
        self._need_condition(operand, start, "NOT")
        return Not(operand)

    def _sign(self) -> Expression:
        token = self._advance()
        start = self.token
        operand = self._expression(SIGN_LEVEL)
        if isinstance(operand, Literal) and operand.kind == NUMERIC:
            assert not isinstance(operand.value, str)
            value = -operand.value if token.word == "-" else operand.value
            if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
                raise self._error(token, f"found a whole number below {INTEGER_MIN}, expected at least that")
            return Literal(value)
        self._need_number(operand, start, f"the sign {token.word}")
        return Sign(operand, minus=token.word == "-", converting=self.converting)

    def _primary(self) -> Expression:
        token = self.token
        if token.kind == IDENTIFIER:
            self._advance()
            assert isinstance(token.value, str)
            return Identifier(token.value, converting=self.converting)
        literal = self._literal()
        if literal is None:
            raise self._unexpected(_OPERAND)
        return literal

    def _literal(self) -> Literal | None:
        token = self.token
        if token.kind in {TEXT, NUMBER}:
            return Literal(self._advance().value)
        if token.word in {"TRUE", "FALSE"}:
            return Literal(self._advance().word == "TRUE")
        return None

    def _logical(self, token: Token, level: int, left: Expression, start: Token) -> Expression:
        word = token.word
        self._need_condition(left, start, word)
        parts: list[Expression] = []
        self._collect(parts, left, word)
        while self.token.word == word:
            self._advance()
            start = self.token
            right = self._expression(level + 1)
            self._need_condition(right, start, word)
            self._collect(parts, right, word)
        return And(tuple(parts)) if word == "AND" else Or(tuple(parts))

    def _collect(self, parts: list[Expression], part: Expression, word: str) -> None:
        """Add a part, or the parts of one that was the same operator in parentheses: both are associative."""
        if isinstance(part, And if word == "AND" else Or):
            parts.extend(part.parts)
        else:
            parts.append(part)

    def _calculation(self, token: Token, level: int, left: Expression, start: Token) -> Expression:
        self._need_number(left, start, token.word)
        self._advance()
        start = self.token
        right = self._expression(level + 1)
        self._need_number(right, start, token.word)
        return Calculation(token.word, left, right, converting=self.converting)

    # conditions about values ------------------------------------------------------------------------------------

    def _comparison(self, left: Expression, start: Token) -> Expression:
        opposite = self.token.word == "NOT"
        if opposite:
            self._advance()
            if self.token.word not in {"BETWEEN", "IN", "LIKE"}:
                raise self._unexpected("BETWEEN, IN or LIKE behind NOT")
        token = self._advance()
        if token.word == "BETWEEN":
            return self._between(left, start, opposite=opposite)
        if token.word == "IN":
            return In(left, self._list(), opposite=opposite, converting=self.converting)
        if token.word == "LIKE":
            return self._like(left, start, opposite=opposite)
        if token.word == "IS":
            return self._is_null(left)
        return self._order(token, left, start)

    def _order(self, token: Token, left: Expression, start: Token) -> Expression:
        behind = self.token
        right = self._expression(SUM_LEVEL)
        if token.word not in {"=", "<>"}:
            self._need_number(left, start, token.word)
            self._need_number(right, behind, token.word)
        return comparison(token.word, left, right, converting=self.converting)

    def _between(self, left: Expression, start: Token, *, opposite: bool) -> Expression:
        self._need_number(left, start, "BETWEEN")
        start = self.token
        low = self._expression(SUM_LEVEL)
        self._need_number(low, start, "BETWEEN")
        self._take("AND", "AND and the upper bound of BETWEEN")
        start = self.token
        high = self._expression(SUM_LEVEL)
        self._need_number(high, start, "BETWEEN")
        return Between(left, low, high, opposite=opposite, converting=self.converting)

    def _list(self) -> list[Literal]:
        self._take("(", "( and the list of IN")
        literals: list[Literal] = []
        while True:
            minus = self.token.word == "-"
            sign = self._advance() if self.token.word in {"-", "+"} else None
            if sign is not None and self.token.kind != NUMBER:
                raise self._unexpected("a number behind the sign")
            literal = self._literal()
            if literal is None:
                raise self._unexpected("a literal in the list of IN")
            if minus:
                assert sign is not None
                assert not isinstance(literal.value, str)
                if isinstance(literal.value, int) and -literal.value < INTEGER_MIN:
                    raise self._error(sign, f"found a whole number below {INTEGER_MIN}, expected at least that")
                literal = Literal(-literal.value)
            literals.append(literal)
            if self.token.word != ",":
                break
            self._advance()
        self._take(")", ", or ) in the list of IN")
        return literals

    def _like(self, left: Expression, start: Token, *, opposite: bool) -> Expression:
        if left.kind not in {ANYTHING, TEXTUAL}:
            raise self._wrong_kind(left, start, "LIKE", "a text")
        pattern = self.token
        if pattern.kind != TEXT:
            raise self._unexpected("the pattern of LIKE, a text such as 'a%'")
        self._advance()
        escape = ""
        if self.token.word == "ESCAPE":
            self._advance()
            literal = self.token
            if literal.kind != TEXT or len(str(literal.value)) != 1:
                raise self._unexpected("one character in quotes behind ESCAPE, such as '\\'")
            escape = str(self._advance().value)
        try:
            compiled = LikePattern(str(pattern.value), escape)
        except ValueError as error:
            raise self._error(pattern, f"{error}, expected %, _ or another character behind it") from error
        self.searches += int(compiled.searches)
        if self.searches > SEARCHES_MAX:
            raise self._error(
                pattern,
                f"found more than {SEARCHES_MAX} patterns of LIKE with _ between two %, expected fewer; "
                "leave out the _, or split the selector",
            )
        like = Like(left, compiled, opposite=opposite)
        self.likes.append(like)
        return like

    def _is_null(self, left: Expression) -> Expression:
        opposite = self.token.word == "NOT"
        if opposite:
            self._advance()
        self._take("NULL", "NULL" if opposite else "NULL or NOT NULL behind IS")
        return IsNull(left, opposite=opposite)

    # checks of operands ---------------------------------------------------------------------------------------

    def _need_condition(self, expression: Expression, start: Token, what: str) -> None:
        if expression.kind not in {ANYTHING, TRUTH}:
            raise self._wrong_kind(expression, start, what, "a condition such as color = 'red'")

    def _need_number(self, expression: Expression, start: Token, what: str) -> None:
        allowed = {ANYTHING, NUMERIC, TEXTUAL} if self.converting else {ANYTHING, NUMERIC}
        if expression.kind not in allowed:
            raise self._wrong_kind(expression, start, what, "a number")

    def _wrong_kind(self, expression: Expression, start: Token, what: str, needed: str) -> SelectorError:
        found = _KIND_NAMES[expression.kind]
        hint = "; texts and conditions compare with = and <> only" if what in {"<", "<=", ">", ">=", "BETWEEN"} else ""
        place = f" as operand of {what}" if what else ""
        return self._error(start, f"found {found}{place}, expected {needed}{hint}")
