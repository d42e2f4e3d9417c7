"""``annulet pipeline archive`` and ``replay``: what they refuse, and a whole way there and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from annulet.cli import archive as command
from annulet.cli.main import main
from annulet.demo.ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert command.moment("2026-11-21T10:00") == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert command.moment("2026-11-21T10:00+01:00") == datetime(2026, 11, 21, 9, tzinfo=UTC)
    with pytest.raises(click.BadParameter, match="'noon' is no time; give ISO 8601"):
        command.moment("noon")


def test_triggers() -> None:
    assert command.trigger_text("5 seconds") == "5 seconds"
    with pytest.raises(click.BadParameter, match="'often' is no trigger"):
        command.trigger_text("often")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["archive", "a", "--url", "annulet://x"], "Missing option '--queue'"),
        (["archive", "a", "--queue", "q"], "Missing option '--url'"),
        (["archive", "a", "--url", "annulet://x", "--queue", "q", "--keep-days", "0"], "0 is not in the range x>=1"),
        (["replay", "a", "--url", "annulet://x", "--to", "q"], "Missing option '--name'"),
        (["replay", "a", "--url", "annulet://x", "--to", "q", "--name", "n", "--since", "noon"], "'noon' is no time"),
    ],
)
def test_wrong_options_are_told(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(main, ["pipeline", *arguments])

    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.spark
def test_nobody_there_and_no_archive_end_with_1_and_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextmanager
    def session(*_arguments: Any, **_options: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(command, "session", session)
    folder, url = str(tmp_path / "none"), f"annulet://127.0.0.1:{free_ports(1)[0]}"

    archived = CliRunner().invoke(
        main, ["pipeline", "archive", folder, "--url", url, "--queue", "q", "--retry-seconds", "0"]
    )
    replayed = CliRunner().invoke(main, ["pipeline", "replay", folder, "--url", url, "--to", "q", "--name", "n"])

    assert (archived.exit_code, replayed.exit_code) == (1, 1)
    assert archived.stderr.startswith("annulet pipeline: query q: no answer from the broker at")
    text = f"annulet pipeline: {folder}: holds no batch of annulet; give the folder that was written to\n"
    assert replayed.stderr == text
