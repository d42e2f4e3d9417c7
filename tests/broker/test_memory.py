"""The memory alarm over readings the test gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.broker import memory
from annulet.broker.memory import MemoryAlarm, resident_bytes


def test_resident_set_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert resident_bytes() > 1 << 20
    monkeypatch.setattr(memory, "_STATM", tmp_path / "absent")
    assert resident_bytes() == 0


def test_alarm_begins_above_the_limit_and_ends_well_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0, 1000, 1001, 999, 951, 950, 1000, 2000])
    monkeypatch.setattr(memory, "resident_bytes", lambda: next(readings))
    alarm = MemoryAlarm(1000)
    assert [alarm.check() for _ in range(7)] == [False, True, True, True, False, False, True]
    assert (alarm.alarms, alarm.resident) == (2, 2000)
