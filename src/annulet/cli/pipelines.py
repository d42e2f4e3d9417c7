"""``annulet pipeline`` with all its commands."""

from __future__ import annotations

from typing import Final

from annulet.cli.archive import archive, replay
from annulet.cli.pipeline import pipeline
from annulet.cli.what_if import report, what_if

COMMANDS: Final = (archive, replay, what_if, report)

for command in COMMANDS:
    pipeline.add_command(command)

__all__ = ["pipeline"]
