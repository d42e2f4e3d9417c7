from __future__ import annotations

from pathlib import Path

import pytest

from annulet.store.files.files import OsFileSystem
from annulet.store.files.marks import PAYLOAD_MAX, SLOT_BYTES, Mark, MarkFile, decode_mark, encode_mark, load_mark
from tests.store.simulated_files import SimulatedFiles

PLACE = Path("/simulated/mark")


def test_a_mark_survives_and_any_flipped_bit_is_noticed() -> None:
    mark = Mark(7, b"payload")
    data = encode_mark(mark)
    assert decode_mark(data) == mark
    for place in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        assert decode_mark(bytes(flipped)) is None
    assert decode_mark(b"") is None
    assert encode_mark(Mark(1, bytes(PAYLOAD_MAX)))
    with pytest.raises(ValueError, match="65 bytes are too many; give at most 64"):
        encode_mark(Mark(1, bytes(PAYLOAD_MAX + 1)))


def test_the_newest_sound_slot_counts(tmp_path: Path) -> None:
    path, files = tmp_path / "mark", OsFileSystem()
    assert load_mark(path, files) is None
    marks = MarkFile(path, files)
    marks.begin(Mark(1, b"a"))
    assert load_mark(path, files) == Mark(1, b"a")
    marks.write(Mark(2, b"b"))
    marks.write(Mark(3, b"c"))
    assert load_mark(path, files) == Mark(3, b"c")
    content = bytearray(path.read_bytes())
    content[20] ^= 1  # the slot written last is the first one
    path.write_bytes(content)
    assert load_mark(path, files) == Mark(2, b"b")
    content[SLOT_BYTES + 20] ^= 1
    path.write_bytes(content)
    assert load_mark(path, files) is None
    marks.close()
    marks.close()


def test_begin_replaces_a_newer_mark_and_a_closed_file_takes_none(tmp_path: Path) -> None:
    path, files = tmp_path / "mark", OsFileSystem()
    for generation in (9, 3):
        marks = MarkFile(path, files)
        marks.begin(Mark(generation, b""))
        marks.close()
        marks.write(Mark(20, b""))
    assert load_mark(path, files) == Mark(3, b"")


@pytest.mark.parametrize("at", range(1, 6))
def test_a_disk_that_refuses_costs_the_mark_and_is_said_once(at: int, caplog: pytest.LogCaptureFixture) -> None:
    files = SimulatedFiles()
    files.fail_at = at
    marks = MarkFile(PLACE, files)
    marks.begin(Mark(1, b""))
    marks.write(Mark(2, b""))
    assert files.failed_operation
    assert caplog.text.count("cannot be written") == 1
