"""Timers of the event loop that run when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest

from annulet.broker.broker import Broker


class Due(NamedTuple):
    """What was asked of the loop."""

    seconds: float
    callback: Callable[[], object]
    handle: asyncio.TimerHandle


class Timers:
    """Takes the timers that a broker and its connections ask for from now on; those of asyncio itself run as ever."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.due: list[Due] = []
        self._later = broker.loop.call_later
        monkeypatch.setattr(broker.loop, "call_later", self._call_later)

    def _call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        if str(getattr(callback, "__module__", "")).startswith("asyncio"):
            return self._later(seconds, callback, *args)
        loop = asyncio.get_running_loop()
        handle = asyncio.TimerHandle(loop.time() + seconds, callback, (), loop)
        assert not args, "no timer of the broker has arguments"
        self.due.append(Due(seconds, callback, handle))
        return handle

    @property
    def waiting(self) -> list[float]:
        """The seconds of all that are not cancelled."""
        return [due.seconds for due in self.due if not due.handle.cancelled()]

    def of(self, owner: object) -> list[Due]:
        """Return those that call a method of an object, also if they were cancelled."""
        return [due for due in self.due if getattr(due.callback, "__self__", None) is owner]

    def fire(self, owner: object = None) -> float:
        """Run the newest timer, or the newest of an object; return its delay in seconds."""
        seconds, callback, _ = (self.of(owner) if owner is not None else self.due)[-1]
        callback()
        return seconds
