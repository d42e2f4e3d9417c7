"""The folders of one run: in a temporary place, or where the user wants to keep them."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PLOTS: Final = Path("demo-output")
"""Where the pictures go when nothing else is kept."""


class WorkspaceError(RuntimeError):
    """A folder cannot be used; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Context manager: makes the folders, and removes them at the end unless ``kept``."""

    root: Path
    plots: Path
    kept: bool

    @classmethod
    def open(cls, keep: Path | None) -> Self:
        """Choose the folders. ``keep`` must be absent or empty, since older data would spoil every count.

        Raises :class:`WorkspaceError`.
        """
        try:
            if keep is None:
                PLOTS.mkdir(exist_ok=True)
                return cls(Path(tempfile.mkdtemp(prefix="annulet-demo-")), PLOTS, kept=False)
            keep.mkdir(parents=True, exist_ok=True)
            if any(keep.iterdir()):
                raise WorkspaceError(f"--keep {keep}: the folder is not empty; name a new one, or empty it first")
        except OSError as error:
            raise WorkspaceError(
                f"{error.filename or keep}: {error.strerror}; choose a folder you can write"
            ) from error
        return cls(keep.resolve(), keep.resolve() / "plots", kept=True)

    def __enter__(self) -> Self:
        for folder in (self.plots, self.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.kept:
            shutil.rmtree(self.root, ignore_errors=True)  # a temporary folder that stays is no reason to fail

    @property
    def broker(self) -> Path:
        """The broker's data directory."""
        return self.root / "broker"

    @property
    def broker_log(self) -> Path:
        """The broker's log."""
        return self.root / "broker.log"

    @property
    def spark_log(self) -> Path:
        """The standard error of Java and Spark's Python workers."""
        return self.root / "spark.log"

    @property
    def parquet(self) -> Path:
        """The archived departures, partitioned by month and origin."""
        return self.root / "parquet"

    @property
    def checkpoints(self) -> Path:
        """Spark's checkpoints."""
        return self.root / "checkpoints"

    @property
    def warehouse(self) -> Path:
        """Spark's warehouse; nothing is put there, but Spark wants to know a place."""
        return self.root / "warehouse"
