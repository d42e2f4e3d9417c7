from __future__ import annotations

import json
from pathlib import Path

import pytest

from annulet import __version__, testing
from annulet.store.database.catalogue import Catalogue
from annulet.store.files.data_format import (
    FORMAT_FILE,
    FORMAT_VERSION,
    UNFINISHED_BACKUP,
    UNVERSIONED,
    DataFormat,
    check_format,
    open_format,
    read_format,
)
from annulet.store.files.errors import FormatError


def test_a_fresh_directory_gets_the_present_format(tmp_path: Path) -> None:
    assert read_format(tmp_path) is None
    open_format(tmp_path)
    assert check_format(tmp_path) == DataFormat(FORMAT_VERSION, __version__)
    assert [path.name for path in tmp_path.iterdir()] == [FORMAT_FILE]


def test_a_directory_of_before_the_file_is_migrated_by_writing_it(tmp_path: Path) -> None:
    Catalogue(tmp_path / "catalogue.sqlite").close()
    assert read_format(tmp_path) == DataFormat(UNVERSIONED, "")
    open_format(tmp_path)
    assert read_format(tmp_path) == DataFormat(FORMAT_VERSION, __version__)


def test_a_newer_format_is_refused_with_what_to_do_and_nothing_is_written(tmp_path: Path) -> None:
    text = json.dumps({"format": FORMAT_VERSION + 1, "written_by": "9.1.0"})
    (tmp_path / FORMAT_FILE).write_text(text)
    with pytest.raises(FormatError, match=f"format {FORMAT_VERSION + 1}, written by Annulet 9.1.0; .*start Annulet 9"):
        open_format(tmp_path)
    assert (tmp_path / FORMAT_FILE).read_text() == text


def test_a_newer_directory_is_not_opened_by_a_compatible_one_twice(tmp_path: Path) -> None:
    """The file is written once: who wrote it first stays in it."""
    (tmp_path / FORMAT_FILE).write_text(json.dumps({"format": FORMAT_VERSION, "written_by": "0.0.1"}))
    open_format(tmp_path)
    assert read_format(tmp_path) == DataFormat(FORMAT_VERSION, "0.0.1")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"format": 1}', '{"format": "1", "written_by": ""}', '{"format": true, "written_by": ""}',
     '{"format": 0, "written_by": ""}', '{"format": 1, "written_by": 2}', "\x00" * 40],
)  # fmt: skip
def test_a_damaged_file_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / FORMAT_FILE).write_text(text)
    with pytest.raises(FormatError, match="cannot be understood; restore it from a backup, or"):
        check_format(tmp_path)


def test_an_unfinished_backup_is_no_data_directory(tmp_path: Path) -> None:
    open_format(tmp_path)
    (tmp_path / UNFINISHED_BACKUP).touch()
    with pytest.raises(FormatError, match=r"was not finished.*take the backup again"):
        check_format(tmp_path)


def times(directory: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.name != "lock"}


async def test_a_broker_writes_the_format_and_refuses_a_newer_one(tmp_path: Path) -> None:
    async with testing.broker(data_dir=tmp_path, http=False):
        assert read_format(tmp_path) == DataFormat(FORMAT_VERSION, __version__)
    (tmp_path / FORMAT_FILE).write_text(json.dumps({"format": 99, "written_by": "9.1.0"}))
    before = times(tmp_path)
    with pytest.raises(FormatError, match="format 99"):
        async with testing.broker(data_dir=tmp_path, http=False):
            pytest.fail("the broker must not start")
    assert times(tmp_path) == before
