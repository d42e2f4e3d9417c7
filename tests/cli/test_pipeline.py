"""The command ``annulet pipeline``: exit codes, errors, signals, what it prints."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from annulet.cli import pipeline as command
from annulet.cli.main import main
from annulet.spark.pipeline.progress import BatchReport
from annulet.spark.pipeline.running import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS = """
[pipeline]
trigger = "TRIGGER"
[sources.ticks]
type = "rate"
rows_per_batch = 3
[sinks.screen]
type = "console"
input = "ticks"
sql = "SELECT count(*) AS ticks FROM batch"
"""


def write(folder: Path, trigger: str = "available-now") -> str:
    file = folder / "ticks.toml"
    file.write_text(TICKS.replace("TRIGGER", trigger))
    return str(file)


def share_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command use the tests' session, and leave it running."""

    @contextmanager
    def session(*_arguments: Any, **_options: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(command, "session", session)


def test_a_wrong_file_is_told_with_line_and_key_before_java_is_looked_for(tmp_path: Path) -> None:
    file = write(tmp_path, "now and then")

    result = CliRunner().invoke(main, ["pipeline", "run", file])

    assert result.exit_code == 2
    assert result.stderr.startswith(f"annulet pipeline: {file}:3: pipeline.trigger: 'now and then' is unknown; give")


def test_progress_is_one_line_a_batch_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    with command.Display("title") as display:
        display.report(BatchReport("orders", 3, 4000, 2.0, 60))
        display.show("text")

    assert capsys.readouterr().out == (
        "orders: batch 3, 4,000 rows, 2,000 rows/s, backlog 60, batch time 2.0 s\ntext\n"
    )


def test_a_terminal_shows_a_table_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    display = command.Display("title")
    console = Console(force_terminal=True, width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    monkeypatch.setattr(display, "_console", console)
    with display:
        display.report(BatchReport("orders", 3, 4000, 2.0, 60))
        display.report(BatchReport("orders", 4, 100, 1.0, None))
        display.show("text")
    text = console.export_text()
    console.file.close()

    assert "text" in text
    assert "4,100" in text


def test_signals_ask_for_a_stop_and_their_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with command.stop_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.stop.wait(10)
        assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_missing_packages_are_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "pyspark" else object())

    for arguments in (["run", write(tmp_path)], ["replay", "a", "--url", "u", "--to", "q", "--name", "n"]):
        result = CliRunner().invoke(main, ["pipeline", *arguments])
        assert result.exit_code == 1
        assert result.stderr == "annulet pipeline: pyspark is not installed; pip install 'annulet[spark]'\n"


def test_a_batch_that_was_cut_off_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    command.tell_cut_off(Outcome(rows=1, batches=1, stopped=True, cut_off=("query orders: it broke",)))

    assert capsys.readouterr().err == (
        "annulet pipeline: stopped within a batch, which the next run repeats: query orders: it broke\n"
    )


@pytest.mark.spark
def test_a_dry_run_prints_the_plan(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    share_session(spark, monkeypatch)

    result = CliRunner().invoke(main, ["pipeline", "run", write(tmp_path), "--dry-run"])

    assert result.exit_code == 0
    assert "source ticks: rate, 3 rows a batch\n  columns timestamp timestamp, value bigint\n" in result.output


@pytest.mark.spark
@pytest.mark.parametrize(("trigger", "code"), [("100 milliseconds", 0), ("available-now", 143)])
def test_a_stop_by_signal(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trigger: str, code: int
) -> None:
    share_session(spark, monkeypatch)

    def stop_once(_display: command.Display, batch: BatchReport) -> None:
        if batch.batch == 0:  # a second signal ends the process
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(command.Display, "report", stop_once)

    result = CliRunner().invoke(main, ["pipeline", "run", write(tmp_path, trigger)])

    assert result.exit_code == code, result.output
    assert "screen: batch 0\n ticks\n     3\n" in result.output
    assert "ticks: 3 rows in 1 batches" in result.output or trigger != "available-now"


@pytest.mark.spark
def test_a_query_that_fails_ends_with_1(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    share_session(spark, monkeypatch)
    file = Path(write(tmp_path))
    file.write_text(file.read_text().replace("count(*)", "raise_error('on purpose')"))

    result = CliRunner().invoke(main, ["pipeline", "run", str(file)])

    assert result.exit_code == 1
    assert result.stderr.startswith("annulet pipeline: query ticks: ")
    assert "on purpose" in result.stderr
