from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from annulet.cli import demo as command
from annulet.cli.main import main
from annulet.demo.outcome import Outcome
from annulet.demo.reconciliation import Check, QueueAccount

ACCOUNT = QueueAccount("archive", "FIFO", 2, 0, 0, 2, {}, 0)


def outcome(*checks: Check) -> Outcome:
    return Outcome([ACCOUNT], list(checks), {"EWR": []}, [Path("plots/overview.png")], {"total": 1.5})


def invoke(monkeypatch: pytest.MonkeyPatch, result: Outcome | BaseException, *arguments: str) -> tuple[int, str]:
    def run(limit: int | None, keep: Path | None, console: Console) -> Outcome:
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(command, "_run", run)
    monkeypatch.setattr(command.signal, "signal", lambda number, handler: None)
    finished = CliRunner().invoke(main, ["demo", *arguments])
    return finished.exit_code, finished.output


def test_exit_code_is_0_when_every_count_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = invoke(monkeypatch, outcome(Check("rows", 2, 2)))

    assert code == 0
    assert "All 1 counts fit: every message is accounted for." in output


def test_exit_code_is_1_and_the_mismatch_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = invoke(monkeypatch, outcome(Check("rows", 2, 2), Check("Parquet: rows", 2, 1, "missing: 7")))

    assert code == 1
    assert "1 of 2 counts do not fit:" in output
    assert "Parquet: rows: expected 2, found 1. missing: 7" in output


def test_json_is_written_for_a_mismatch_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "result.json"

    code, _ = invoke(monkeypatch, outcome(Check("rows", 2, 1)), "--json", str(file), "--limit", "2")

    document = json.loads(file.read_text())
    assert (code, document["fits"], document["limit"]) == (1, False, 2)
    assert document["checks"][0]["subject"] == "rows"


def test_an_error_is_one_message_and_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoke(monkeypatch, RuntimeError("no Java here")) == (1, "annulet demo: no Java here\n")


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = invoke(monkeypatch, KeyboardInterrupt())

    assert code == 130
    assert "interrupted" in output


def test_a_limit_of_0_is_refused() -> None:
    finished = CliRunner().invoke(main, ["demo", "--limit", "0"])

    assert finished.exit_code == 2
    assert "--limit" in finished.output


def test_sigterm_is_handled_as_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        command._terminate(15, None)


def test_show_prints_boards_books_times_and_pictures() -> None:
    console = Console(file=io.StringIO(), width=140)

    command.show(outcome(Check("rows", 2, 2)), console)

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for part in ("EWR: last departures", "archive", "total 1.5 s", "plots/overview.png"):
        assert part in text


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name in {"pyspark", "pika"} else object())
    monkeypatch.setattr(command.signal, "signal", lambda number, handler: None)
    finished = CliRunner().invoke(main, ["demo"])
    assert finished.exit_code == 1
    assert finished.output == (
        "annulet demo: pyspark, pika not installed; pip install 'annulet[demo]', or try annulet demo --small, which "
        "needs no Spark\n"
    )


def test_plots_that_are_left_out_have_a_reason() -> None:
    console = Console(file=io.StringIO(), width=140)
    drawn = outcome(Check("rows", 2, 2))
    drawn.pictures = []

    command.show(drawn, console)

    assert isinstance(console.file, io.StringIO)
    assert "Plots: left out, matplotlib is not installed; pip install matplotlib" in console.file.getvalue()
