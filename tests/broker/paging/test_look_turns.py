"""Turns for those who look at deep backlogs: short, fair, and out of the way of others' work."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from annulet.broker.paging.look_turns import (
    BROWSER_SHARE,
    CHARGED_MAX,
    IDLE_SECONDS,
    LOOK_SECONDS,
    SHARE,
    TURN_SECONDS,
    Scanning,
)
from annulet.core.searching.selector_walk import LOOK_MESSAGES


class Reader:
    """A consumer, of which only is asked whether it browses."""

    def __init__(self, copies: bool) -> None:
        self.copies = copies


class Looker:
    """A queue that has so many looks to take, of 1 ms each or of ``each`` seconds a message."""

    name = "q"

    def __init__(self, world: World, looks: int, each: float = 0.0, browsed: bool = True) -> None:
        self.consumers = [Reader(False), Reader(browsed)]
        self.world = world
        self.looks = looks
        self.each = each
        self.asked: list[int] = []

    def scan(self, now: int, messages: int) -> bool:
        assert now == 42
        self.asked.append(messages)
        self.world.seconds += self.each * messages if self.each else 0.001
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
    looks = round((TURN_SECONDS - LOOK_SECONDS) / 0.001)
    while world.called:
        assert world.step() == 0.0, "nobody else has work"
    assert world.log == [one] * looks + [two] * 3 + [one] * (8 - looks)
    assert world.scanning.figures() == (3, 1, 0), "one of three turns was cut, none was put off"


def test_who_has_a_turn_coming() -> None:
    world = World()
    looker, other = Looker(world, 8), Looker(world, 1)
    world.scanning.ask(looker)  # type: ignore[arg-type]
    asked = world.scanning.asked
    assert (asked(looker), asked(other)) == (True, False)  # type: ignore[arg-type]
    world.step()
    assert asked(looker), "it had one, and has more to look at"  # type: ignore[arg-type]
    while world.called:
        world.step()
    assert not asked(looker)  # type: ignore[arg-type]


def test_a_turn_that_ends_with_the_last_look_was_not_cut() -> None:
    looks = round((TURN_SECONDS - LOOK_SECONDS) / 0.001)
    figures = []
    for more in (-1, 0, 1):
        world = World()
        world.scanning.ask(Looker(world, looks + more))  # type: ignore[arg-type]
        while world.called:
            world.step()
        figures.append(world.scanning.figures())
    assert figures == [(1, 0, 0), (1, 0, 0), (2, 1, 0)]


def test_a_turn_ends_in_time_however_long_a_message_takes() -> None:
    for each in (0.000_05, 0.000_3, 0.002):
        world = World()
        looker = Looker(world, 60, each)
        world.scanning.ask(looker)  # type: ignore[arg-type]
        world.step()
        assert looker.asked[0] == LOOK_MESSAGES, "the first look finds out how long one takes"
        while world.called:
            start = world.seconds
            world.step()
            assert world.seconds - start < TURN_SECONDS + 1e-9
        assert looker.looks == 0


def test_looks_become_longer_again_where_messages_take_less() -> None:
    world = World()
    slow, quick = Looker(world, 10, 0.001), Looker(world, 20, 0.000_001)
    for looker in (slow, quick):
        world.scanning.ask(looker)  # type: ignore[arg-type]
        while world.called:
            world.step()
    assert slow.asked[-1] == 1
    assert quick.asked[-1] == LOOK_MESSAGES


def test_who_became_ready_during_a_turn_is_served_before_it_is_asked_whether_others_have_work() -> None:
    world = World()
    world.scanning.ask(Looker(world, 100))  # type: ignore[arg-type]
    world.step()
    looks = len(world.log)
    assert world.step() == 0.0, "the round in which they run, behind this call"
    assert len(world.log) == looks
    world.others += 2 * IDLE_SECONDS
    assert world.step() == 0.0
    assert len(world.log) == looks, "they have"
    rest = world.step()
    assert rest > 0
    assert len(world.log) == 2 * looks


def test_others_who_have_work_get_their_share_of_the_time() -> None:
    world = World()
    world.scanning.ask(Looker(world, 100))  # type: ignore[arg-type]
    world.step()
    start = world.seconds
    looks = len(world.log)
    world.others += 2 * IDLE_SECONDS
    assert [world.step(), world.step()] == [0.0, 0.0]
    assert len(world.log) == looks
    rest = world.step()
    assert world.scanning.figures() == (2, 2, 1), "put off once"
    assert abs(start / (start + rest) - SHARE) < 0.01
    assert world.seconds >= start + rest
    assert len(world.log) == 2 * looks


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
    assert world.scanning.figures() == (2, 0, 0), "nothing is left of what is broken"


def browsed(world: World, sending: float, others: float) -> float:
    """Have a browser look once, and send what it was shown; return how long its next turn waits behind these."""
    world.scanning.ask(Looker(world, 1))  # type: ignore[arg-type]
    world.step()
    world.others += sending + others
    world.scanning.charge(sending)
    world.scanning.ask(Looker(world, 1))  # type: ignore[arg-type]
    return world.step()


def test_what_is_sent_to_browsers_is_no_work_of_others() -> None:
    world = World()
    assert browsed(world, 5.0, 0.0) == 0.0
    assert (len(world.log), world.scanning.figures()[2]) == (2, 0)
    assert browsed(world, 5.0, 2 * IDLE_SECONDS) == 0.0
    assert (len(world.log), world.scanning.figures()[2]) == (3, 1), "put off"


def test_browsers_get_their_share_of_the_time_with_what_is_sent_to_them() -> None:
    world = World()
    browsed(world, 0.0, 2 * IDLE_SECONDS)
    looked = world.seconds
    rest = world.step()
    assert abs(looked / (looked + rest) - BROWSER_SHARE) < 0.01
    world = World()
    browsed(world, 0.02, 2 * IDLE_SECONDS)
    looked = world.seconds
    rest = world.step()
    assert abs((looked + 0.02) / (looked + 0.02 + rest) - BROWSER_SHARE) < 0.01


def test_selectors_that_wait_for_an_answer_keep_their_share() -> None:
    world = World()
    world.scanning.ask(Looker(world, 1, browsed=False))  # type: ignore[arg-type]
    world.step()
    assert not world.scanning.browsing
    looked = world.seconds
    world.others += 2 * IDLE_SECONDS
    world.scanning.ask(Looker(world, 1, browsed=False))  # type: ignore[arg-type]
    world.step()
    rest = world.step()
    assert abs(looked / (looked + rest) - SHARE) < 0.01


def test_what_browsers_are_sent_without_turns_does_not_add_up() -> None:
    world = World()
    world.scanning.ask(Looker(world, 1))  # type: ignore[arg-type]
    world.step()
    for _ in range(1000):  # arrivals, to a browser that follows
        world.seconds += 0.003
        world.others += 0.001
        world.scanning.charge(0.001)
    selecting = Looker(world, 10)
    world.scanning.ask(selecting)  # type: ignore[arg-type]
    assert world.step() == 0.0
    assert world.log[-1] is selecting, "it is not put off"


def test_however_much_browsers_are_sent_others_wait_so_long_at_most() -> None:
    world = World()
    browsed(world, 5.0, 2 * IDLE_SECONDS)
    world.others += 5.0
    world.scanning.charge(5.0)
    waited = 0.0
    while len(world.log) < 2:
        world.others += 2 * IDLE_SECONDS
        waited += world.step()
    assert abs(waited - CHARGED_MAX) < 1e-9


def test_it_is_known_whether_the_last_turn_was_for_browsers() -> None:
    world = World()
    world.scanning.ask(Looker(world, 100))  # type: ignore[arg-type]
    world.step()
    assert not world.scanning.browsing
    world = World()
    world.scanning.ask(Looker(world, 1))  # type: ignore[arg-type]
    world.step()
    world.seconds += CHARGED_MAX - 1e-6
    assert world.scanning.browsing
    world.seconds += 2e-6
    assert not world.scanning.browsing, "what is sent from then on was shown to them by no turn"
