from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import cast

import pytest

from annulet.demo import spark_run
from annulet.demo.spark_run import Queries, SparkFailedError, describe, standard_error_to, wait_until_moved

Moved = dict[str, tuple[int, int]]


class ScriptedQueries:
    """Reports the given progress, one step per look, the last one for ever."""

    def __init__(self, *counts: int, failing: bool = False) -> None:
        self.counts = list(counts)
        self.failing = failing

    def check(self) -> None:
        if self.failing and len(self.counts) == 1:
            raise SparkFailedError("the query of queue 'archive' ended: out of disk")

    def moved(self) -> Moved:
        count = self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]
        return dict.fromkeys(spark_run.QUERIES, (count, 1))


def wait(queries: ScriptedQueries, acknowledged: list[int], seen: list[Moved]) -> None:
    def next_acknowledged() -> dict[str, int]:
        return dict.fromkeys(spark_run.QUERIES, acknowledged.pop(0) if len(acknowledged) > 1 else acknowledged[0])

    wait_until_moved(
        10, cast("Queries", queries), acknowledged=next_acknowledged, look=seen.append, producing=lambda: False
    )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_run, "LOOK_SECONDS", 0)


def test_waits_for_the_last_acknowledgement() -> None:
    seen: list[Moved] = []
    acknowledged = [0, 9, 10]

    wait(ScriptedQueries(0, 4, 10), acknowledged, seen)

    assert len(seen) == 5  # two before all was moved, three until all was acknowledged
    assert acknowledged == [10]


def test_nothing_moving_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_run, "STALL_SECONDS", 0)

    with pytest.raises(SparkFailedError, match="nothing moved for 0 seconds: archive 4 of 10 in 1 batches"):
        wait(ScriptedQueries(4), [0], [])


def test_a_query_that_ended_is_an_error() -> None:
    with pytest.raises(SparkFailedError, match="out of disk"):
        wait(ScriptedQueries(1, 2, failing=True), [0], [])


def test_describe() -> None:
    assert describe({"archive": (1000, 3)}, 2000) == "archive 1,000 of 2,000 in 3 batches"


def test_children_write_their_standard_error_to_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with standard_error_to(tmp_path / "log"):
        subprocess.run(["sh", "-c", "echo noise >&2"], check=True)
    os.write(2, b"after\n")

    assert (tmp_path / "log").read_text() == "noise\n"
    assert capfd.readouterr().err == "after\n"
