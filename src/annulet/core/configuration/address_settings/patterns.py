"""Patterns of addresses: words with wildcards, and which of two patterns is the more specific one.

``*`` matches exactly one word, ``#`` any number of words, including none (Artemis's wildcard syntax). Artemis compares
patterns with ``#`` by the length of their text; here their structure decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.values import NAME_BYTES_MAX, shown

LITERAL: Final = 0
SINGLE: Final = 1
END: Final = 2
ANY: Final = 3
"""The element at a place of a pattern, the more specific first.

The end of a pattern is more specific than ``#``, and less specific than another word.
"""

Specificity: TypeAlias = "tuple[int, tuple[int, ...], int, int, tuple[int, ...], str]"


@dataclass(frozen=True, slots=True)
class WildcardSyntax:
    """The characters of patterns. ``literal_markers`` are two that enclose a pattern to be taken as it is; empty: none.

    Raises :class:`InvalidArgument` for anything but single, different characters.
    """

    delimiter: str = "."
    any_words: str = "#"
    single_word: str = "*"
    literal_markers: str = ""

    def __post_init__(self) -> None:
        named = {"delimiter": self.delimiter, "any-words": self.any_words, "single-word": self.single_word}
        for name, value in named.items():
            if len(value) != 1:
                raise InvalidArgument(f"wildcard syntax: '{name}' must be one character, not {shown(value)}")
        if len(self.literal_markers) not in {0, 2}:
            raise InvalidArgument(
                "wildcard syntax: 'literal-match-markers' must be two characters or empty, not "
                f"{shown(self.literal_markers)}"
            )
        characters = [*named.values(), *self.literal_markers]
        if len(set(characters)) != len(characters):
            raise InvalidArgument(
                f"wildcard syntax: the characters {' '.join(characters)} must all be different; choose others"
            )


DEFAULT_SYNTAX: Final = WildcardSyntax()


class AddressPattern:
    """One pattern. ``specificity`` sorts patterns, the most specific first; it is a total order.

    First come patterns without wildcards, then those with ``*`` alone, then those with ``#``. Within a kind the words
    before the first ``#`` are compared from the left, a word before a wildcard; then the pattern with more given words,
    then the one with more required words is the more specific.
    """

    __slots__ = ("kinds", "literal", "specificity", "syntax", "text", "words")

    def __init__(self, text: str, syntax: WildcardSyntax = DEFAULT_SYNTAX) -> None:
        self.text = text
        self.syntax = syntax
        if not text or len(text.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
            raise InvalidArgument(
                f"address pattern {shown(text)} must have 1 to {NAME_BYTES_MAX} bytes; "
                f"'{syntax.any_words}' matches every address"
            )
        markers = syntax.literal_markers
        self.literal = bool(markers) and len(text) > 2 and text[0] == markers[0] and text[-1] == markers[1]
        self.words: tuple[str, ...] = (text[1:-1],) if self.literal else tuple(text.split(syntax.delimiter))
        self.kinds: tuple[int, ...] = (LITERAL,) if self.literal else tuple(map(self._kind_of, self.words))
        self.specificity = self._specificity()

    def _kind_of(self, word: str) -> int:
        if word == self.syntax.any_words:
            return ANY
        if word == self.syntax.single_word:
            return SINGLE
        for wildcard in (self.syntax.any_words, self.syntax.single_word):
            if wildcard in word:
                raise InvalidArgument(
                    f"address pattern {shown(self.text)}: '{wildcard}' stands for whole words; "
                    f"{shown(word)} mixes it with text"
                )
        return LITERAL

    def _specificity(self) -> Specificity:
        kinds = self.kinds
        rank = max(kinds)
        if self.literal:
            rank = -1  # a literal match names one address, whatever wildcards it contains
        first = kinds.index(ANY) if ANY in kinds else len(kinds)
        given = kinds.count(LITERAL)
        asked = len(kinds) - kinds.count(ANY)
        return (rank, (*kinds[:first], ANY), -given, -asked, (*kinds[first:], END), self.text)

    def matches(self, address: str) -> bool:
        """Return whether the pattern matches an address, whose own wildcard characters count as text."""
        if self.literal:
            return address == self.words[0]
        words = address.split(self.syntax.delimiter)
        if ANY not in self.kinds:
            return len(words) == len(self.words) and self._run_matches(words, 0, 0, len(words))
        return self._matches_with_any(words)

    def _run_matches(self, words: list[str], place: int, start: int, count: int) -> bool:
        """Return whether ``count`` words from ``place`` on match the pattern without ``#`` from ``start`` on."""
        return all(
            self.kinds[start + step] == SINGLE or self.words[start + step] == words[place + step]
            for step in range(count)
        )

    def _matches_with_any(self, words: list[str]) -> bool:
        """Match the words between two ``#`` as early as possible, which leaves most room for the rest."""
        runs: list[tuple[int, int]] = []
        start = 0
        for place, kind in enumerate((*self.kinds, ANY)):
            if kind == ANY:
                runs.append((start, place - start))
                start = place + 1
        (head, head_count), *middle, (tail, tail_count) = runs
        end = len(words) - tail_count
        if head_count > end or not self._run_matches(words, 0, head, head_count):
            return False
        if not self._run_matches(words, end, tail, tail_count):
            return False
        place = head_count
        for start, count in middle:
            while place + count <= end and not self._run_matches(words, place, start, count):
                place += 1
            if place + count > end:
                return False
            place += count
        return True
