from __future__ import annotations

import os
from pathlib import Path

import pytest

from annulet.store.database.catalogue import Catalogue
from annulet.store.database.history import History
from annulet.store.files.files import BUFFERS_PER_CALL, UNFINISHED_SUFFIX, OsFileSystem, create_private, write_durably


def test_buffers_beyond_one_call_arrive_in_order(tmp_path: Path) -> None:
    file = OsFileSystem().open(tmp_path / "a", create=True)
    buffers = [b"%06d" % number for number in range(2 * BUFFERS_PER_CALL + 3)]
    file.write(buffers, 5)
    file.sync()
    assert file.read(0, 1 << 20) == bytes(5) + b"".join(buffers)
    file.close()
    file.close()


@pytest.mark.parametrize("limit", [1, 7])
def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    whole = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, offset: whole(fd, [b"".join(parts)[:limit]], offset))
    file = OsFileSystem().open(tmp_path / "a", create=True)
    file.write([b"abc", b"defgh", b"ij"], 0)
    assert file.read(0, 100) == b"abcdefghij"
    file.close()


def test_allocated_space_is_zeros_and_reading_ends_at_the_end(tmp_path: Path) -> None:
    file = OsFileSystem().open(tmp_path / "a", create=True)
    file.allocate(100)
    assert file.size() == 100
    assert file.read(90, 50) == bytes(10)
    file.truncate(3)
    assert file.size() == 3
    file.close()


def test_directory_operations(tmp_path: Path) -> None:
    files = OsFileSystem()
    directory = tmp_path / "a" / "b"
    files.make_directory(directory)
    files.make_directory(directory)
    files.open(directory / "one", create=True).close()
    files.rename(directory / "one", directory / "two")
    files.sync_directory(directory)
    assert files.names(directory) == ["two"]
    files.remove(directory / "two")
    files.remove(directory / "two")
    assert files.names(directory) == []
    with pytest.raises(FileNotFoundError):
        files.open(directory / "two")
    assert len({files.identity() for _ in range(20)}) > 1


def test_reading_ahead_is_a_hint(tmp_path: Path) -> None:
    files = OsFileSystem()
    file = files.open(tmp_path / "f", create=True)
    file.write([b"abc"], 0)
    file.prefetch(0, 1 << 20)
    assert file.read(0, 10) == b"abc"
    file.close()


@pytest.mark.parametrize("kind", [Catalogue, History])
def test_databases_are_for_their_user_alone(tmp_path: Path, kind: type[Catalogue | History]) -> None:
    """With their journals, whatever the umask."""
    path = tmp_path / "file.sqlite"
    former = os.umask(0)
    try:
        database = kind(path)
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
        database.close()
    finally:
        os.umask(former)
    assert set(modes.values()) == {0o600}
    assert "file.sqlite-wal" in modes
    path.chmod(0o640)
    create_private(str(path))
    assert path.stat().st_mode & 0o777 == 0o600


class WithoutRename(OsFileSystem):
    """A disk that takes octets and refuses the rename."""

    def rename(self, old: Path, new: Path) -> None:
        raise OSError(28, "no space")


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    write_durably(path, b"first", OsFileSystem())
    with pytest.raises(OSError, match="no space"):
        write_durably(path, b"second", WithoutRename())
    assert path.read_bytes() == b"first"
    assert not path.with_name(path.name + UNFINISHED_SUFFIX).exists()
    write_durably(path, b"second", OsFileSystem())
    assert path.read_bytes() == b"second"
