"""The memory alarm over readings the test gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from annulet.broker.paging import memory
from annulet.broker.paging.memory import MemoryAlarm, resident_bytes


def test_resident_set_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert resident_bytes() > 1 << 20
    monkeypatch.setattr(memory, "_STATM", tmp_path / "absent")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert resident_bytes() == 0, "as in a process without /proc"


def test_the_resident_set_is_of_now_and_read_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    resident_bytes()
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened again"))
    before = resident_bytes()
    held = bytearray(b"x") * (64 << 20)
    assert resident_bytes() - before > len(held) // 2


def test_alarm_begins_above_the_limit_and_ends_well_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0, 1000, 1001, 999, 951, 950, 1000, 2000])
    monkeypatch.setattr(memory, "resident_bytes", lambda: next(readings))
    alarm = MemoryAlarm(1000)
    assert [alarm.check() for _ in range(7)] == [False, True, True, True, False, False, True]
    assert (alarm.alarms, alarm.resident) == (2, 2000)


def test_freed_memory_is_asked_back_while_the_alarm_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0, 1001, 1001, 1001, 1001, 1001, 900])
    monkeypatch.setattr(memory, "resident_bytes", lambda: next(readings))
    asked: list[bool] = []
    monkeypatch.setattr(memory, "give_back_freed", lambda: asked.append(True) or True)
    alarm = MemoryAlarm(1000)
    assert [alarm.check() for _ in range(memory.TRIM_CHECKS)] == [True] * memory.TRIM_CHECKS
    assert not asked
    assert not alarm.check()
    assert (asked, alarm.resident) == ([True], 900)


def test_the_c_library_is_asked_where_it_can_do_it() -> None:
    assert memory.give_back_freed() in (True, False)


def test_what_is_left_counts_from_the_limit() -> None:
    alarm = MemoryAlarm(1 << 50)
    assert alarm.limit - 2 * resident_bytes() < alarm.left() < alarm.limit
    alarm.limit = 1
    assert alarm.left() < 0


@pytest.mark.parametrize(("bodies", "lacking"), [(900, []), (901, [1]), (1000, [100])])
def test_a_limit_below_what_bodies_may_take_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, bodies: int, lacking: list[int]
) -> None:
    monkeypatch.setattr(memory, "resident_bytes", lambda: 100)
    alarm = MemoryAlarm(1000 + memory.BESIDE_BODIES)
    with structlog.testing.capture_logs() as lines:
        alarm.expect(bodies)
    assert [line["lacking"] for line in lines] == lacking
    assert all("body_budget" in line["remedy"] for line in lines)


def test_threads_share_arenas_where_the_library_can() -> None:
    """In a process of its own: the setting stays. Sixteen threads that allocate at once have two arenas."""
    program = (
        "import ctypes, threading\n"
        "from annulet.broker.paging.memory import share_arenas\n"
        "assert share_arenas()\n"
        "gate = threading.Barrier(16)\n"
        "def work():\n"
        "    kept = [bytes(100_000)]\n"
        "    gate.wait()\n"
        "threads = [threading.Thread(target=work) for _ in range(16)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "ctypes.CDLL(None).malloc_stats()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("Arena ") <= 2


def test_large_blocks_go_back_when_they_are_freed() -> None:
    """In a process of its own. Without the setting the second block stays: the library has learned from the first."""
    program = (
        "import ctypes\n"
        "from annulet.broker.paging import memory\n"
        "assert memory.give_back_large()\n"
        "def mapped():\n"
        "    block = ctypes.create_string_buffer(memory.LARGE_BLOCK_BYTES)\n"
        "    ctypes.memset(block, 1, len(block))\n"
        "    grown = memory.resident_bytes()\n"
        "    del block\n"
        "    return grown - memory.resident_bytes()\n"
        "mapped()\n"
        "assert mapped() > memory.LARGE_BLOCK_BYTES // 2\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
