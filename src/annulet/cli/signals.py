"""Exit codes of commands that a signal ends."""

from __future__ import annotations

from os import _exit as exit_without_clean_up
from typing import Final, NoReturn

EXIT_SIGNAL: Final = 128
"""Plus the signal's number: ended by a signal (the shell's convention)."""


def end_at_once(number: int) -> NoReturn:
    """End the process for a second signal ``number``, without any clean-up: the first one asked for that."""
    exit_without_clean_up(EXIT_SIGNAL + number)
