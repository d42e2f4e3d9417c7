from __future__ import annotations

import asyncio

from annulet.broker.network.paced_handshake import STARTS_MAX, HandshakePace, PacedHandshake
from annulet.broker.turns.input_turns import TURN_SECONDS, InputTurns
from tests.broker.amqp091.peer import RecordingTransport, turns


class Tls(asyncio.BufferedProtocol):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.taken = b""
        self.buffer = bytearray(100)
        self.told: list[str] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        assert sizehint > 0
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.taken += bytes(self.buffer[:nbytes])

    def eof_received(self) -> bool:
        self.told.append("eof")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Socket(RecordingTransport):
    """A transport whose protocol may be replaced."""

    def get_protocol(self) -> object:
        return self.protocol

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol


def between(turns_of_input: InputTurns) -> tuple[PacedHandshake, Socket, Tls]:
    transport, tls, paced = Socket(), Tls(), PacedHandshake(turns_of_input)
    transport.set_protocol(tls)
    paced.step_in(transport)  # type: ignore[arg-type]
    assert transport.protocol is paced
    return paced, transport, tls


async def test_what_comes_is_handed_on_as_far_as_turns_have_time() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.7 * TURN_SECONDS
        return now

    paces = InputTurns(clock=clock)
    made = [between(paces) for _ in range(6)]
    for paced, _, _ in made:
        paced.data_received(b"hello" * 30)
    done = [sum(bool(tls.taken) for _, _, tls in made)]
    for _ in range(3):
        await turns(1)
        done.append(sum(bool(tls.taken) for _, _, tls in made))
    assert done == [2, 4, 6, 6]
    assert [tls.taken for _, _, tls in made] == [b"hello" * 30] * 6
    assert [transport.reading for _, transport, _ in made] == [True] * 6


async def test_it_leaves_when_the_handshake_is_over_and_all_is_handed_on() -> None:
    paced, transport, tls = between(InputTurns(clock=lambda: 0.0))
    paced.data_received(b"hello")
    paced.finish()
    assert transport.protocol is tls
    assert tls.taken == b"hello"


async def test_what_came_with_the_end_of_the_handshake_is_handed_on_before_it_leaves() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += TURN_SECONDS
        return now

    paced, transport, tls = between(InputTurns(clock=clock))
    paced.data_received(b"x" * 5000)
    paced.finish()
    assert transport.protocol is paced
    assert len(tls.taken) < 5000
    await turns()
    assert transport.protocol is tls
    assert len(tls.taken) == 5000
    assert transport.reading


async def test_what_happens_to_the_socket_is_told_to_tls() -> None:
    paced, _, tls = between(InputTurns())
    paced.pause_writing()
    paced.resume_writing()
    assert paced.eof_received()
    paced.connection_lost(None)
    assert tls.told == ["pause", "resume", "eof", "lost"]
    paced.data_received(b"late")
    assert tls.taken == b""


async def test_it_stays_away_when_the_handshake_is_over_before() -> None:
    transport, tls, paced = Socket(), Tls(), PacedHandshake(InputTurns())
    transport.set_protocol(tls)
    paced.finish()
    paced.step_in(transport)  # type: ignore[arg-type]
    assert transport.protocol is tls


async def test_very_many_handshakes_begin_in_several_turns() -> None:
    """A8: OpenSSL's objects for 100 connections that came in one turn held the loop for 100 ms."""
    pace, begun = HandshakePace(InputTurns()), []
    for number in range(2 * STARTS_MAX + 1):
        pace.begin(lambda number=number: begun.append(number))
    counts = [len(begun)]
    for _ in range(2):
        await turns(1)
        counts.append(len(begun))
    assert counts == [STARTS_MAX, 2 * STARTS_MAX, 2 * STARTS_MAX + 1]
    assert begun == sorted(begun)
    await turns()
    pace.begin(lambda: begun.append(-1))
    assert begun[-1] == -1
