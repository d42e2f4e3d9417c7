"""Arguments that are paths."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from annulet.cli.local_path import LocalPath
from annulet.cli.main import main


def test_a_path_is_a_path_and_a_uri_is_refused() -> None:
    kind = LocalPath(file_okay=False)
    assert kind.convert("out/x", None, None) == Path("out/x")
    assert kind.convert(Path("out"), None, None) == Path("out")
    with pytest.raises(click.BadParameter, match="is a URI"):
        kind.convert("s3a://bucket/out", None, None)


ARCHIVE = ["--url", "annulet://guest:guest@127.0.0.1:1/", "--queue", "q"]
REPLAY = ["--url", "annulet://guest:guest@127.0.0.1:1/", "--to", "q", "--name", "again"]


@pytest.mark.parametrize(
    "command",
    [
        ["pipeline", "archive", "s3a://bucket/out", *ARCHIVE],
        ["pipeline", "archive", "file:///srv/out", *ARCHIVE],
        ["pipeline", "replay", "s3a://bucket/out", *REPLAY],
        ["pipeline", "what-if", "s3a://bucket/out", "--vary", "ring-size=1,2"],
        ["pipeline", "what-if", ".", "--vary", "ring-size=1,2", "--plots", "s3a://bucket/out"],
        ["pipeline", "what-if", ".", "--vary", "ring-size=1,2", "--json", "s3a://bucket/out"],
        ["pipeline", "report", "s3a://bucket/out"],
        ["backup", "s3a://bucket/out"],
        ["doctor", "s3a://bucket/out"],
    ],
)
def test_commands_refuse_uris_and_leave_nothing_behind(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(main, command)
    assert outcome.exit_code == 2, outcome.output
    assert "is a URI" in outcome.output
    assert list(tmp_path.iterdir()) == []


def test_serve_refuses_a_uri_as_its_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(main, ["serve", "--data", "s3a://bucket/out"])
    assert outcome.exit_code == 2, outcome.output
    assert "--data: 's3a://bucket/out' is a URI" in outcome.output
    assert list(tmp_path.iterdir()) == []
