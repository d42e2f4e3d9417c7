from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from annulet.broker.observing.log_level import LOG_LEVEL_SECONDS_MAX, PACKAGE, LogLevels
from annulet.core.base.errors import InvalidArgument
from annulet.testing import VirtualClock


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    before = logging.getLogger(PACKAGE).level
    yield
    logging.getLogger(PACKAGE).setLevel(before)


def present() -> int:
    return logging.getLogger(PACKAGE).level


async def test_a_level_is_set_until_the_end_or_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    levels = LogLevels("info", clock)
    assert present() == logging.NOTSET
    levels.change("debug")
    assert (present(), levels.current, levels.until) == (logging.DEBUG, "debug", 0)
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda _seconds, call: call_later(0, call))
    levels.change("error", 10)
    assert (present(), levels.until) == (logging.ERROR, clock() + 10_000)
    await asyncio.sleep(0)  # the timer is due at once
    await asyncio.sleep(0)
    assert (present(), levels.current) == (logging.INFO, "info")
    levels.stop()
    assert present() == logging.NOTSET


async def test_a_new_configuration_wins_over_a_level_set_before() -> None:
    levels = LogLevels("info", VirtualClock())
    levels.change("debug", 100)
    assert not levels.configure("info")
    assert levels.current == "debug"
    assert levels.configure("warning")
    assert (levels.current, levels.configured, levels.until) == ("warning", "warning", 0)
    levels.change("debug")
    levels.restore()
    assert present() == logging.WARNING
    levels.stop()


async def test_wrong_levels_and_times_are_refused_by_name() -> None:
    levels = LogLevels("info", VirtualClock())
    with pytest.raises(InvalidArgument, match="field 'level' is 'loud'; give one of debug, info, warning, error"):
        levels.change("loud")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="field 'seconds' is 86401"):
        levels.change("debug", LOG_LEVEL_SECONDS_MAX + 1)
    assert levels.current == "info"
