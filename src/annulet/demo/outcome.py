"""The result of a run, with Spark or without, as the command shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from annulet.demo.reconciliation import Check, QueueAccount
    from annulet.demo.what_if import Trial


@dataclass(slots=True)
class Outcome:
    """The result of a run: the books, every comparison, the boards, seconds by phase, and the pictures' files."""

    accounts: list[QueueAccount]
    checks: list[Check]
    boards: Mapping[str, Sequence[Mapping[str, Any]]]  # the departures on each, oldest first
    pictures: list[Path]
    phases: dict[str, float]
    parquet_rows: dict[str, int] = field(default_factory=dict)  # by their queue
    trials: list[Trial] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)  # some records of the loss ledger, the newest first

    @property
    def fits(self) -> bool:
        """Whether every comparison does."""
        return all(check.fits for check in self.checks)


@dataclass(slots=True)
class Phases:
    """Seconds by phase, in the order in which they ended. Phases may overlap: two of them run side by side."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Measure one phase."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - started
