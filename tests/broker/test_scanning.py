"""Turns for those who look at deep backlogs: short, fair, and out of the way of others' work."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from annulet.broker.scanning import IDLE_SECONDS, SHARE, TURN_SECONDS, Scanning


class Looker:
    """A queue that has so many looks to take, of 1 ms each."""

    name = "q"

    def __init__(self, world: World, looks: int) -> None:
        self.world = world
        self.looks = looks

    def scan(self, now: int) -> bool:
        assert now == 42
        self.world.seconds += 0.001
        self.world.log.append(self)
        self.looks -= 1
        return self.looks > 0


class World:
    """A loop that calls when it is told to, and its two clocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.others = 0.0  # what others have computed
        self.log: list[Looker] = []
        self.called: list[tuple[float, Any]] = []
        self.scanning = Scanning(
            self,  # type: ignore[arg-type]
            lambda: 42,
            seconds=lambda: self.seconds,
            worked=lambda: self.seconds + self.others,
        )

    def call_soon(self, callback: Any) -> Any:
        return self.call_later(0.0, callback)

    def call_later(self, delay: float, callback: Any) -> Any:
        self.called.append((delay, callback))
        return self  # as its own handle

    def cancel(self) -> None:
        self.called.clear()

    def step(self) -> float:
        """Do what was asked for last; return how long it wanted to wait."""
        delay, callback = self.called.pop()
        self.seconds += delay
        callback()
        return delay


def test_a_turn_ends_after_five_milliseconds_and_queues_take_turns() -> None:
    world = World()
    one, two = Looker(world, 8), Looker(world, 3)
    world.scanning.ask(one)  # type: ignore[arg-type]
    world.scanning.ask(two)  # type: ignore[arg-type]
    looks = round(TURN_SECONDS / 0.001)
    while world.called:
        assert world.step() == 0.0, "nobody else has work"
    assert world.log == [one] * looks + [two] * 3 + [one] * (8 - looks)


def test_others_who_have_work_get_their_share_of_the_time() -> None:
    world = World()
    world.scanning.ask(Looker(world, 100))  # type: ignore[arg-type]
    world.step()
    start = world.seconds
    world.others += 2 * IDLE_SECONDS
    assert world.step() == 0.0
    rest = world.step()
    assert abs(TURN_SECONDS / (TURN_SECONDS + rest) - SHARE) < 0.01
    assert world.seconds >= start + rest
    assert len(world.log) == 2 * round(TURN_SECONDS / 0.001)


def test_a_closed_one_gives_no_turn() -> None:
    world = World()
    looker = Looker(world, 5)
    world.scanning.ask(looker)  # type: ignore[arg-type]
    world.scanning.close()
    assert (world.called, world.log) == ([], [])
    world.scanning.close()


def test_a_defect_that_meets_one_queue_does_not_end_the_turns_of_others() -> None:
    world = World()
    broken, other = Looker(world, 5), Looker(world, 3)
    broken.name = "broken"
    broken.world = None  # type: ignore[assignment]
    world.scanning.ask(broken)  # type: ignore[arg-type]
    world.scanning.ask(other)  # type: ignore[arg-type]
    with capture_logs() as logs:
        while world.called:
            world.step()
    assert world.log == [other] * 3
    assert [(line["log_level"], line["queue"]) for line in logs] == [("error", "broken")]
