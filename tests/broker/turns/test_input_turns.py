from __future__ import annotations

import asyncio

from annulet.broker.turns.input_shares import INPUT_BYTES_FIRST
from annulet.broker.turns.input_turns import PIECE_BYTES, TURN_SECONDS, InputTurns, PacedInput


class Transport:
    """Says whether it is read."""

    def __init__(self) -> None:
        self.max_size = 0
        self.reading = True
        self.closing = False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing


class Bench:
    """Connections whose pieces take ``cost`` seconds each."""

    def __init__(self, cost: float = 0.0) -> None:
        self.now = 0.0
        self.cost = cost
        self.turns = InputTurns(clock=lambda: self.now)
        self.taken: list[tuple[str, bytes]] = []
        self.may_take = True
        self.may_read = True

    def connect(self, name: str) -> tuple[PacedInput, Transport]:
        def take(piece: bytes) -> None:
            self.now += self.cost
            self.taken.append((name, piece))

        transport = Transport()
        made = PacedInput(
            self.turns,
            transport,  # type: ignore[arg-type] # a stand-in
            take,
            lambda: self.may_read,
            lambda: self.may_take,
        )
        return made, transport

    def names(self) -> str:
        return "".join(name for name, _ in self.taken)


async def turn() -> None:
    await asyncio.sleep(0)


async def test_what_is_cheap_is_taken_at_once_in_pieces() -> None:
    bench = Bench()
    paced, transport = bench.connect("a")
    data = bytes(range(256)) * 20
    paced.received(data)
    assert b"".join(piece for _, piece in bench.taken) == data
    assert [len(piece) for _, piece in bench.taken] == [PIECE_BYTES, PIECE_BYTES, len(data) - 2 * PIECE_BYTES]
    assert (transport.reading, transport.max_size, bench.turns.cut, paced.left) == (True, INPUT_BYTES_FIRST, 0, False)


async def test_what_takes_long_waits_for_later_turns_and_is_not_read_meanwhile() -> None:
    bench = Bench(TURN_SECONDS)
    paced, transport = bench.connect("a")
    paced.received(bytes(3 * PIECE_BYTES))
    assert (len(bench.taken), transport.reading, paced.left) == (1, False, True)
    await turn()
    assert (len(bench.taken), transport.reading) == (2, False)
    await turn()
    assert (len(bench.taken), transport.reading, paced.left) == (3, True, False)
    assert bench.turns.cut == 1


async def test_connections_take_turns_and_share_the_time_of_one() -> None:
    bench = Bench(TURN_SECONDS / 2)
    (first, _), (second, _), (third, _) = (bench.connect(name) for name in "abc")
    for paced in (first, second, third):
        paced.received(bytes(2 * PIECE_BYTES))
    assert bench.names() == "aa", "two pieces are the time of a turn"
    await turn()
    assert bench.names() == "aabc"
    await turn()
    assert bench.names() == "aabcbc"


async def test_what_comes_while_pieces_are_left_waits_behind_them() -> None:
    bench = Bench(TURN_SECONDS)
    paced, _ = bench.connect("a")
    paced.received(b"1" * PIECE_BYTES + b"2")
    paced.received(b"3")
    assert b"".join(piece for _, piece in bench.taken) == b"1" * PIECE_BYTES
    await turn()
    assert b"".join(piece for _, piece in bench.taken) == b"1" * PIECE_BYTES + b"23"


async def test_pieces_that_may_not_be_taken_are_kept_and_hold_the_peer_back() -> None:
    bench = Bench()
    paced, transport = bench.connect("a")
    bench.may_take = False
    paced.received(b"x")
    assert (bench.taken, transport.reading, paced.paused) == ([], False, True)
    bench.may_take = True
    bench.may_read = False
    paced.go_on()
    assert (bench.names(), transport.reading, paced.paused) == ("a", False, False), "others do not let it be read"


async def test_an_end_forgets_what_is_left() -> None:
    bench = Bench(TURN_SECONDS)
    paced, transport = bench.connect("a")
    paced.received(bytes(3 * PIECE_BYTES))
    paced.end()
    await turn()
    paced.received(b"x")
    paced.go_on()
    assert (len(bench.taken), transport.reading) == (1, False)


async def test_what_raises_costs_its_time_all_the_same() -> None:
    turns = InputTurns(clock=iter([0.0, TURN_SECONDS]).__next__)

    def broken(piece: bytes) -> None:
        raise ZeroDivisionError

    paced = PacedInput(turns, Transport(), broken, lambda: True)  # type: ignore[arg-type] # a stand-in
    try:
        paced.received(b"x")
    except ZeroDivisionError:
        assert not turns.has_time()
