"""The broker's clock."""

from __future__ import annotations

import time

from annulet.broker.settings.clock import system_clock


def test_the_clock_is_the_walls_in_milliseconds() -> None:
    before = int(time.time() * 1000)
    now = system_clock()
    assert before <= now <= int(time.time() * 1000) + 1
