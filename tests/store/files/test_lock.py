from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.store.files.errors import DirectoryInUseError
from annulet.store.files.lock import LOCK_FILE, DirectoryLock

ROOT = Path(__file__).resolve().parents[3]
HOLDER = """
import sys
from annulet.store.files.lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_another_process_is_named_and_a_killed_one_does_not_count(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(DirectoryInUseError) as raised:
        DirectoryLock(tmp_path).acquire()
    assert str(tmp_path) in str(raised.value)
    assert str(process.pid) in str(raised.value)
    assert "another data directory" in str(raised.value)
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    with DirectoryLock(tmp_path) as lock:
        assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
        lock.acquire()
        with pytest.raises(DirectoryInUseError):
            DirectoryLock(tmp_path).acquire()
    DirectoryLock(tmp_path).acquire()


def test_the_directory_is_created(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path / "new" / "one"):
        assert (tmp_path / "new" / "one" / LOCK_FILE).exists()
