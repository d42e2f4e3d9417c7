"""Timers that end connections with their token."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from annulet.broker.connections.login_ends import TIMER_SECONDS_MAX, LoginEnds
from annulet.broker.security.authentication import User
from annulet.testing import VirtualClock


class Timers:
    """The loop: timers that the test lets fire."""

    def __init__(self) -> None:
        self.made: list[tuple[float, Any]] = []

    def call_later(self, seconds: float, call: Any, *arguments: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(
            seconds, call, arguments, SimpleNamespace(_timer_handle_cancelled=lambda _: None, get_debug=lambda: False)
        )
        self.made.append((seconds, handle))
        return handle

    def fire(self) -> None:
        _, handle = self.made.pop(0)
        if not handle.cancelled():
            handle._run()


class Place:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        self.ends = LoginEnds(self.clock)
        self.ended: list[Any] = []
        self.ends.on_end = self.ended.append

    def connection(self, seconds: int) -> Any:
        user = User("alice", expires_at=self.clock() + seconds * 1000 if seconds else 0)
        return Connection(user, SimpleNamespace(loop=self.timers))


class Connection:
    def __init__(self, user: User | None, broker: Any) -> None:
        self.user, self.broker = user, broker


def test_a_connection_ends_with_its_token() -> None:
    place = Place()
    connection = place.connection(60)
    place.ends.watch(connection)
    assert place.timers.made[0][0] == 60
    place.clock.advance(60_000)
    place.timers.fire()
    assert place.ended == [connection]
    assert len(place.ends) == 0


def test_others_cost_nothing() -> None:
    place = Place()
    place.ends.watch(place.connection(0))
    place.ends.watch(Connection(None, None))
    assert not place.timers.made
    assert len(place.ends) == 0


def test_a_connection_that_is_gone_is_forgotten() -> None:
    place = Place()
    connection = place.connection(60)
    place.ends.watch(connection)
    place.ends.forget(connection)
    place.ends.forget(connection)
    place.timers.fire()
    assert not place.ended
    assert len(place.ends) == 0


def test_another_token_has_another_timer() -> None:
    place = Place()
    connection = place.connection(60)
    place.ends.watch(connection)
    connection.user = User("alice", expires_at=place.clock() + 90_000)
    place.ends.watch(connection)
    place.clock.advance(60_000)
    place.timers.fire()
    assert not place.ended
    place.clock.advance(30_000)
    place.timers.fire()
    assert place.ended == [connection]


def test_a_timer_has_a_bound_and_a_clock_may_be_set() -> None:
    place = Place()
    connection = place.connection(2 * TIMER_SECONDS_MAX)
    place.ends.watch(connection)
    assert place.timers.made[0][0] == TIMER_SECONDS_MAX
    place.timers.fire()
    assert not place.ended
    assert len(place.ends) == 1


def test_without_a_broker_nothing_is_ended() -> None:
    place = Place()
    ends = LoginEnds(place.clock)
    connection = place.connection(1)
    ends.watch(connection)
    place.clock.advance(1000)
    place.timers.fire()
    assert len(ends) == 0
    assert not place.ended
