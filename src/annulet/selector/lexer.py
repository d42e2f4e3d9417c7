"""Cuts a selector's text into tokens (JMS 2.0 §3.8.1.1, with the literals and comments Artemis adds, §13)."""

from __future__ import annotations

import math
import re
from typing import Final

from annulet.selector.errors import SelectorError
from annulet.selector.values import INTEGER_MAX

IDENTIFIER: Final = "identifier"
TEXT: Final = "text"
NUMBER: Final = "number"
KEYWORD: Final = "keyword"
SYMBOL: Final = "symbol"
END: Final = "end"

KEYWORDS: Final = frozenset({"AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"})
"""Reserved whatever their case; in double quotes they are property names."""

HYPHENATED: Final = "hyphenated_props:"
CONVERTING: Final = "convert_string_expressions:"
PREFIXES: Final = (HYPHENATED, CONVERTING)

REMEDIES: Final = {
    "!=": "write <>",
    "==": "write =",
    "&&": "write AND",
    "||": "write OR",
    "!": "write NOT",
    "&": "write AND",
    "|": "write OR",
    "?": "a selector has no parameters: write the value",
    ";": "leave it out",
    "`": "quote property names with double quotes",
    "\u2019": "quote texts with straight single quotes",
    "\u2018": "quote texts with straight single quotes",
    "\u201c": "quote property names with straight double quotes",
    "\u201d": "quote property names with straight double quotes",
}
"""Operators of other languages that are often used by mistake, and their counterparts in selectors."""

DIGITS_MAX: Final = 20  # 2**64 - 1 has 20: longer literals are refused before anything is computed from them
_FOUND_LENGTH: Final = 30

_BLANK: Final = re.compile(r"(?:\s+|--[^\r\n]*|/\*.*?\*/)+", re.DOTALL)
_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$.]*")
_HYPHENATED_NAME: Final = re.compile(r"(?:[^\W\d]|\$)(?:[\w$.]|-+(?=[\w$]))*")
# possessive: a doubled quote is never read as the end of one text and the start of another
_QUOTED_NAME: Final = re.compile(r'"([^"]*(?:""[^"]*)*+)"')
_TEXT: Final = re.compile(r"'([^']*(?:''[^']*)*+)'")
_NUMBER_START: Final = re.compile(r"\.?[0-9]")
_HEXADECIMAL: Final = re.compile(r"0[xX]([0-9a-fA-F]+)[lL]?")
_APPROXIMATE: Final = re.compile(
    r"((?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+(?=[fFdD]))[fFdD]?"
)
_DECIMAL: Final = re.compile(r"([0-9]+)[lL]?")
_SYMBOL: Final = re.compile(r"<>|<=|>=|[-<>=+*/%(),]")
_HABIT: Final = re.compile(r"!=|==|&&|\|\|")
_RUN_ON: Final = re.compile(r"[\w$.]+")


def excerpt(source: str) -> str:
    """Return a part of a selector as one short line of an error."""
    shown = "".join(character if character.isprintable() else " " for character in source[:_FOUND_LENGTH])
    return shown + "..." if len(source) > _FOUND_LENGTH else shown


class Token:
    """One word of a selector. ``word`` is compared by the parser: keywords in capitals, symbols as written."""

    __slots__ = ("kind", "position", "source", "value", "word")

    def __init__(self, kind: str, source: str, position: int, *, word: str = "", value: str | int | float = "") -> None:
        self.kind = kind
        self.source = source  # as written
        self.position = position
        self.word = word  # empty for identifiers, texts and numbers
        self.value: str | int | float = value  # name, text or number

    @property
    def found(self) -> str:
        """The token as an error names it."""
        if self.kind == END:
            return "the end"
        return excerpt(self.source)


class Lexer:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.converting = False
        self.hyphenated = False

    def tokens(self) -> list[Token]:
        """Return all tokens; the last one is the end.

        Raises:
            SelectorError: a character, number, text or comment that no selector has.
        """
        self._read_prefixes()
        found: list[Token] = []
        while True:
            blank = _BLANK.match(self.text, self.position)
            if blank is not None:
                self.position = blank.end()
            if self.position == len(self.text):
                found.append(Token(END, "", self.position))
                return found
            token = self._read()
            self.position += len(token.source)
            found.append(token)

    def error(self, problem: str, position: int = -1) -> SelectorError:
        """Return an error at a position, by default the current one."""
        return SelectorError(self.text, self.position if position < 0 else position, problem)

    def _read_prefixes(self) -> None:
        while True:
            blank = _BLANK.match(self.text, self.position)
            start = self.position if blank is None else blank.end()
            if self.text.startswith(HYPHENATED, start) and not self.hyphenated:
                self.hyphenated = True
                self.position = start + len(HYPHENATED)
            elif self.text.startswith(CONVERTING, start) and not self.converting:
                self.converting = True
                self.position = start + len(CONVERTING)
            else:
                return

    def _read(self) -> Token:
        first = self.text[self.position]
        if first == "'":
            return self._text()
        if first == '"':
            return self._quoted_name()
        if _NUMBER_START.match(self.text, self.position) is not None:
            return self._number()
        name = (_HYPHENATED_NAME if self.hyphenated else _NAME).match(self.text, self.position)
        if name is not None:
            return self._word(name[0])
        return self._symbol()

    def _word(self, source: str) -> Token:
        if source.upper() in KEYWORDS:
            return Token(KEYWORD, source, self.position, word=source.upper())
        if source + ":" in PREFIXES and self.text.startswith(":", self.position + len(source)):
            raise self.error(f"found {source}: again, expected it once, before everything else")
        return Token(IDENTIFIER, source, self.position, value=source)

    def _text(self) -> Token:
        match = _TEXT.match(self.text, self.position)
        if match is None:
            raise self.error("found a text without end, expected a closing '; a ' inside a text is written twice")
        return Token(TEXT, match[0], self.position, value=match[1].replace("''", "'"))

    def _quoted_name(self) -> Token:
        match = _QUOTED_NAME.match(self.text, self.position)
        if match is None:
            raise self.error('found a quoted property name without end, expected a closing "')
        if not match[1]:
            raise self.error("found \"\", expected a property name in the quotes; an empty text is ''")
        return Token(IDENTIFIER, match[0], self.position, value=match[1].replace('""', '"'))

    def _number(self) -> Token:
        value: int | float
        match = _HEXADECIMAL.match(self.text, self.position)
        if match is not None:
            value = self._integer(match[1].lstrip("0") or "0", 16)
        else:
            match = _APPROXIMATE.match(self.text, self.position)
            if match is not None:
                value = float(match[1])
                if math.isinf(value):
                    raise self.error(
                        "found a number beyond the range of a double, expected at most 1.7976931348623157e308"
                    )
            else:
                match = _DECIMAL.match(self.text, self.position)
                assert match is not None, "the caller saw a digit"
                value = self._decimal(match[1])
        rest = _RUN_ON.match(self.text, match.end())
        if rest is not None:
            source = self.text[self.position : rest.end()]
            raise self.error(
                f"found {excerpt(source)}, expected a number such as 57, 0x39, 071, 5.7 or 57e-1, then a blank"
            )
        return Token(NUMBER, match[0], self.position, value=value)

    def _decimal(self, digits: str) -> int:
        if digits[0] != "0":
            return self._integer(digits, 10)
        wrong = next((index for index, digit in enumerate(digits) if digit in "89"), -1)
        if wrong >= 0:
            raise self.error(
                f"found the digit {digits[wrong]} in a number that starts with 0, expected 0 to 7: it is octal",
                self.position + wrong,
            )
        return self._integer(digits.lstrip("0") or "0", 8)

    def _integer(self, digits: str, base: int) -> int:
        # 64 bits are 16, 20 or 22 digits; texts longer than that are too large whatever they say
        value = int(digits, base) if len(digits) <= DIGITS_MAX + 2 else INTEGER_MAX + 1
        if value > INTEGER_MAX:
            raise self.error(f"found a whole number above {INTEGER_MAX}, expected at most 64 bits; write it as 1e20 is")
        return value

    def _symbol(self) -> Token:
        habit = _HABIT.match(self.text, self.position)
        match = _SYMBOL.match(self.text, self.position) if habit is None else None
        if match is None:
            found = self.text[self.position] if habit is None else habit[0]
            if self.text.startswith("/*", self.position):
                raise self.error("found a comment without end, expected a closing */")
            shown = found if found.isprintable() else repr(found)
            raise self.error(f"found {shown}, expected an operator, a name or a literal; {self._remedy(found)}")
        if match[0] == "/" and self.text.startswith("/*", self.position):
            raise self.error("found a comment without end, expected a closing */")
        return Token(SYMBOL, match[0], self.position, word=match[0])

    def _remedy(self, found: str) -> str:
        return REMEDIES.get(
            found, "a property name with other characters than letters, digits, _ $ . needs double quotes"
        )


def is_plain_name(name: str) -> bool:
    """Return whether a property name needs no quotes in a selector without prefix."""
    return _NAME.fullmatch(name) is not None and name.upper() not in KEYWORDS
