from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from annulet.cli.doctor import EXIT_NOT_CHECKED, EXIT_UNSOUND, Progress
from annulet.cli.main import main
from annulet.store.segments.segment import segment_name
from tests.store.data_directories import COUNT, fill


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


async def test_a_sound_directory_a_damaged_one_and_a_repair(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    data = str(tmp_path / "data")
    result = run(data)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == "sound"
    assert f"live messages {COUNT}" in result.output

    temporary = tmp_path / "data" / "messages" / "spare-1.unfinished"
    temporary.touch()
    assert temporary.name in run(data).output
    result = run(data, "--repair")
    assert (result.exit_code, temporary.exists()) == (0, False)
    assert f"removed  {temporary}" in result.output

    segment = tmp_path / "data" / "messages" / segment_name(1)
    content = bytearray(segment.read_bytes())
    content[500] ^= 1
    segment.write_bytes(content)
    result = run(data)
    assert result.exit_code == EXIT_UNSOUND
    assert "error    log-lost: 1 live messages cannot be read" in result.output
    assert "   -> start the broker: it serves all other messages" in result.output
    assert result.output.splitlines()[-1] == "1 errors, 0 warnings"
    document = json.loads(run(data, "--json").stdout)
    assert document["sound"] is False
    assert [finding["code"] for finding in document["findings"]] == ["log-lost"]
    assert document["figures"]["segments"][0]["damaged_bytes"] > 1000


async def test_no_room_to_look_has_an_exit_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await fill(tmp_path / "data")
    monkeypatch.setattr(shutil, "copyfile", full)
    result = run(str(tmp_path / "data"))
    assert result.exit_code == EXIT_NOT_CHECKED
    assert "warning  not-checked: catalogue.sqlite was not checked" in result.output
    (tmp_path / "data" / "letter.txt").touch()
    assert run(str(tmp_path / "data")).exit_code == EXIT_UNSOUND, "something else is wrong as well"


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none"), "--json", "--repair")
    assert result.exit_code == EXIT_UNSOUND
    document = json.loads(result.stdout)
    assert [finding["code"] for finding in document["findings"]] == ["no-directory"]
    assert document["removed"] == []


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress._last = 0.0
    progress(1, 2)
    assert capsys.readouterr().err == ""


async def test_a_lost_catalogue_is_rebuilt_and_messages_are_discarded(tmp_path: Path) -> None:
    await fill(tmp_path / "data")
    data = str(tmp_path / "data")
    (tmp_path / "data" / "catalogue.sqlite").unlink()
    result = run(data)
    assert result.exit_code == EXIT_UNSOUND
    assert "error    catalogue-missing" in result.output
    result = run(data, "--rebuild")
    assert result.exit_code == 0, result.output
    assert f"rebuilt queue work (id 1) of virtual host / with {COUNT} messages" in result.output
    assert "bindings, exchanges, users, permissions" in result.output
    assert "were not brought back; declare them again" in result.output
    assert "annulet doctor" not in result.output
    result = run(data, "--discard", "1")
    assert result.exit_code == EXIT_UNSOUND
    assert "queue 1 is 'work' in the catalogue" in result.output
    (tmp_path / "data" / "catalogue.sqlite").unlink()
    document = json.loads(run(data, "--discard", "1", "--json").stdout)
    assert document["changes"] == [f"discarded {COUNT} messages of queue 1"]
    assert document["figures"]["log"]["live_messages"] == 0
