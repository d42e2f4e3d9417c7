from __future__ import annotations

import asyncio

from annulet.bulk.bounds.call_bounds import (
    CALLS_MAX,
    SERVED_STRANGERS_MAX,
    STRANGER_SECONDS,
    CallsUnderWay,
    StrangersServed,
)


class Loop:
    """A clock, and the one timer that is set by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timer: list[object] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, work: object) -> Loop:
        self.timer = [when, work]
        return self

    def cancel(self) -> None:
        self.timer = []

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        if self.timer:
            when, work = self.timer
            assert isinstance(when, float)
            assert callable(work)
            if when <= self.now:
                work()


class Peer:
    def __init__(self, strangers: StrangersServed) -> None:
        self.running = 0
        self.did: list[str] = []
        self._strangers = strangers

    def serve(self) -> None:
        self.did.append("served")

    def give_way(self) -> None:
        self.did.append("gave way")
        self._strangers.leave(self)

    def enter(self) -> Peer:
        self._strangers.enter(self)
        return self


def full() -> tuple[Loop, StrangersServed, list[Peer]]:
    """As many strangers as are served at once."""
    loop = Loop()
    strangers = StrangersServed(loop)  # type: ignore[arg-type]
    peers = [Peer(strangers).enter() for _ in range(SERVED_STRANGERS_MAX)]
    assert all(peer.did == ["served"] for peer in peers)
    assert not loop.timer
    return loop, strangers, peers


def test_one_more_stranger_waits_until_another_leaves() -> None:
    _, strangers, peers = full()
    later = [Peer(strangers).enter() for _ in range(2)]
    assert (later[0].did, len(strangers)) == ([], SERVED_STRANGERS_MAX)
    strangers.leave(peers[5])
    assert [peer.did for peer in later] == [["served"], []]
    strangers.leave(later[1])
    strangers.leave(later[0])
    assert (later[1].did, len(strangers)) == ([], SERVED_STRANGERS_MAX - 1)


def test_the_stranger_that_kept_the_server_waiting_longest_gives_way() -> None:
    loop, strangers, peers = full()
    peers[0].running = 1
    later = Peer(strangers).enter()
    loop.pass_by(STRANGER_SECONDS * 0.9)
    assert (later.did, peers[1].did) == ([], ["served"])
    loop.pass_by(STRANGER_SECONDS * 0.2)
    assert (later.did, peers[0].did, peers[1].did) == (["served"], ["served"], ["served", "gave way"])
    assert not loop.timer
    assert len(strangers) == SERVED_STRANGERS_MAX


def test_strangers_that_the_server_works_for_stay() -> None:
    loop, strangers, peers = full()
    for peer in peers:
        peer.running = 1
    later = Peer(strangers).enter()
    loop.pass_by(STRANGER_SECONDS * 2)
    assert later.did == []
    peers[7].running = 0
    loop.pass_by(STRANGER_SECONDS)
    assert (later.did, peers[7].did) == (["served"], ["served", "gave way"])


class Caller:
    def __init__(self, calls: CallsUnderWay) -> None:
        self.refused: list[str] = []
        self._calls = calls

    def refuse(self, limit: str, reason: str) -> None:
        self.refused += [limit, reason]
        self._calls.note(self, 0)


def test_the_connection_with_the_most_calls_ends_beyond_the_bound() -> None:
    calls = CallsUnderWay()
    large, small, late = (Caller(calls) for _ in range(3))
    calls.note(small, 2)
    calls.note(large, CALLS_MAX - 3)
    calls.note(late, 1)
    assert calls.count == CALLS_MAX
    calls.note(late, 2)
    assert (large.refused[0], small.refused, late.refused) == ("bulk_calls_max", [], [])
    assert "more than 2048 calls" in large.refused[1]
    assert calls.count == 4
    calls.note(late, 0)
    calls.note(late, 0)
    assert calls.count == 2


async def test_a_timer_of_a_real_loop_serves_too() -> None:
    strangers = StrangersServed(asyncio.get_running_loop())
    for _ in range(SERVED_STRANGERS_MAX):
        Peer(strangers).enter()
    later = Peer(strangers).enter()
    async with asyncio.timeout(30):
        while not later.did:  # noqa: ASYNC110 - the loop's timer does it
            await asyncio.sleep(STRANGER_SECONDS / 10)
    assert later.did == ["served"]
