"""Text for terminals: names of clients may contain control characters, which must not reach the terminal."""

from __future__ import annotations

import sys
import time
import unicodedata
from typing import Any, Final

KIBI: Final = 1024
UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86_400
CONTROLS: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})
"""Categories of characters that move the cursor, turn the direction, begin an escape sequence or break a line."""


def printable(text: str) -> str:
    r"""Return a text with its control characters written as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii") if unicodedata.category(character) in CONTROLS else character
        for character in text
    )


def cell(value: Any) -> str:
    """Return a value as the text of a table's cell: nothing for none, ``yes`` and ``no``, thousands apart."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict):
        return printable(", ".join(f"{name}={cell_of_member(member)}" for name, member in value.items()))
    if isinstance(value, list | tuple):
        return printable(", ".join(cell_of_member(member) for member in value))
    return printable(str(value))


def cell_of_member(value: Any) -> str:
    """Return a member of a list or object; integers without separators, as they are written in options."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else cell(value)


def counted(count: int, what: str) -> str:
    """Return a number of things: ``1 message``, ``2,000 messages``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def size_text(octets: int) -> str:
    """Return bytes in the largest unit that leaves at least one: ``1.5 KiB``."""
    if octets < KIBI:
        return f"{octets} B"
    power = 1
    while octets >= KIBI ** (power + 1) and power < len(UNITS):
        power += 1
    return f"{octets / KIBI**power:.1f} {UNITS[power - 1]}"


def duration_text(milliseconds: int) -> str:
    """Return a time as its two largest units: ``1 d 4 h``, ``4 min 7 s``."""
    seconds = max(0, milliseconds) // 1000
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min {seconds % MINUTE} s"
    if seconds < DAY:
        return f"{seconds // HOUR} h {seconds % HOUR // MINUTE} min"
    return f"{seconds // DAY} d {seconds % DAY // HOUR} h"


def time_text(milliseconds: int) -> str:
    """Return a time of this machine's zone, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def at_terminal() -> bool:
    """Return whether there is a terminal to ask at."""
    return sys.stdin.isatty()
