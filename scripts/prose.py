"""Plain technical English: which sentences of a text refer to a person or a thing without its name.

``What is left waits``, ``whoever publishes`` and ``nobody reads it`` make readers look for the thing that is meant.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

WORDS_LEAST: Final = 4  # shorter ones are titles, or cells of tables

BEGINS: Final = re.compile(r"(?:who|what|whoever|whatever|whom)\b", re.IGNORECASE)
PERSONS: Final = re.compile(r"\b(?:who|whoever|whom|nobody|somebody|everybody)\b", re.IGNORECASE)
CLAUSES: Final = re.compile(
    r"\bwhat (?:is|was|are|has|had|have|came|comes|waits|stands|cannot|may|can|does|it)\b", re.IGNORECASE
)
LITERALS: Final = re.compile(r"`+[^`]*`+")
LINKS: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
FENCED: Final = re.compile(r"```.*?```", re.DOTALL)
HEADINGS: Final = re.compile(r"^#+ .*$", re.MULTILINE)
ENDS: Final = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\|")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text without its literals and the targets of its links."""
    prose = LINKS.sub(r"\1", LITERALS.sub("X", text))
    for sentence in ENDS.split(prose):
        words = sentence.split()
        if len(words) >= WORDS_LEAST:
            yield " ".join(words)


def indirect(sentence: str) -> bool:
    """Return whether a sentence refers to a person or a thing without its name."""
    return any((BEGINS.match(sentence), PERSONS.search(sentence), CLAUSES.search(sentence)))


def prose_of_page(page: str) -> str:
    """Return a page without its code; headings may be questions."""
    return HEADINGS.sub("\n", FENCED.sub("\n\n", page))


def prose_of_module(source: str) -> Iterator[str]:
    """Yield the docstrings of a module, those of attributes too, and its comments: lines below each other as one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = token.line.lstrip().startswith("#")
        if not alone or token.start[0] != last + 1:
            yield " ".join(lines)
            lines = []
        lines.append(token.string.lstrip("#: "))
        last = token.start[0] if alone else 0
    yield " ".join(lines)
