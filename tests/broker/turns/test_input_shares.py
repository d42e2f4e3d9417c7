from __future__ import annotations

import asyncio
import socket
from typing import cast

import pytest
from pamqp import commands, frame

from annulet.broker.broker import Broker
from annulet.broker.turns.input_shares import (
    INPUT_BYTES_LARGE,
    INPUT_BYTES_LEAST,
    INPUT_BYTES_MAX,
    INPUT_SECONDS,
    INPUT_SECONDS_MAX,
    LARGE_SECONDS,
    LOOK_FRAMES_MAX,
    LOOK_SECONDS,
    InputShares,
)
from tests.broker.amqp091.peer import Peer, turns
from tests.broker.echo import connected


class Socket:
    """What is known of a transport here."""

    def __init__(self, size: int = INPUT_BYTES_MAX) -> None:
        self.max_size = size


def handled(inputs: InputShares, transport: Socket, size: int, seconds: float) -> int:
    """Have so much be handled in so many seconds; return how much may be read next."""
    inputs.computed = lambda: 7 + seconds
    inputs.handled(cast("asyncio.Transport", transport), size, 7.0)
    return transport.max_size


def near(size: int) -> object:
    return pytest.approx(size, abs=1)


def test_of_who_takes_long_less_is_read_at_once() -> None:
    """3,000 acknowledgements with the deliveries they made room for held the event loop for 14 ms."""
    inputs, client = InputShares(), Socket()
    assert handled(inputs, client, INPUT_BYTES_MAX, INPUT_SECONDS) == INPUT_BYTES_MAX
    assert inputs.reads_cut == 0
    assert handled(inputs, client, INPUT_BYTES_MAX, 4 * INPUT_SECONDS) == near(INPUT_BYTES_MAX // 4)
    assert handled(inputs, client, client.max_size, 1.1 * INPUT_SECONDS) == near(int(INPUT_BYTES_MAX / 4 / 1.1))
    assert inputs.reads_cut == 2


def test_a_single_question_that_takes_long_leaves_enough_to_be_worth_a_turn() -> None:
    inputs, client = InputShares(), Socket()
    assert handled(inputs, client, 100, 10 * INPUT_SECONDS) == INPUT_BYTES_LEAST
    assert handled(inputs, client, 100, 10 * INPUT_SECONDS) == INPUT_BYTES_LEAST
    assert inputs.reads_cut == 1


@pytest.mark.parametrize(("size", "part", "after"), [(16384, 0.49, 32768), (16384, 0.5, 16384), (16383, 0.1, 16384)])
def test_what_is_handled_quickly_again_may_be_more_with_each_full_read(size: int, part: float, after: int) -> None:
    assert handled(InputShares(), Socket(16384), size, part * INPUT_SECONDS) == after


def test_no_more_is_read_than_the_most() -> None:
    assert handled(InputShares(), Socket(), INPUT_BYTES_MAX, 1.01 * LARGE_SECONDS) == INPUT_BYTES_MAX
    assert handled(InputShares(), Socket(INPUT_BYTES_LARGE), INPUT_BYTES_LARGE, 0.0) == INPUT_BYTES_LARGE


def test_of_large_bodies_more_is_read_at_once_and_of_what_follows_them_is_not() -> None:
    inputs, client = InputShares(), Socket()
    assert handled(inputs, client, INPUT_BYTES_MAX, 0.9 * LARGE_SECONDS) == 2 * INPUT_BYTES_MAX
    assert handled(inputs, client, 2 * INPUT_BYTES_MAX, 1.8 * LARGE_SECONDS) == INPUT_BYTES_LARGE
    assert handled(inputs, client, INPUT_BYTES_LARGE - 1, 3 * LARGE_SECONDS) == INPUT_BYTES_LARGE
    assert handled(inputs, client, 2000, LARGE_SECONDS) == INPUT_BYTES_MAX
    assert inputs.reads_cut == 0


def test_connections_with_more_to_be_read_share_the_time_of_the_next_turn() -> None:
    inputs = InputShares()
    for _ in range(4):
        assert handled(inputs, Socket(), INPUT_BYTES_MAX, INPUT_SECONDS) == INPUT_BYTES_MAX
    handled(inputs, Socket(), INPUT_BYTES_MAX - 1, 0.0)
    inputs.turn_ended()
    assert handled(inputs, Socket(), INPUT_BYTES_MAX, INPUT_SECONDS) == near(INPUT_BYTES_MAX // 4)
    inputs.turn_ended()
    assert handled(inputs, Socket(), INPUT_BYTES_MAX, INPUT_SECONDS) == INPUT_BYTES_MAX


def test_what_a_transport_decrypts_comes_as_it_does() -> None:
    inputs = InputShares()
    inputs.handled(cast("asyncio.Transport", object()), 1 << 20, -60.0)
    inputs.handled(None, 1 << 20, -60.0)
    assert inputs.reads_cut == 0


@pytest.mark.parametrize("protocol", ["0-9-1", "other"])
async def test_connections_tell_how_long_they_took(broker: Broker, protocol: str) -> None:
    peer = await Peer(broker).open()
    other, transport = connected(broker)
    await turns()
    moments = iter([1.0, 1.0 + 2 * INPUT_SECONDS])
    broker.inputs.computed = lambda: next(moments)
    if protocol == "0-9-1":
        transport = peer.transport
        transport.max_size = INPUT_BYTES_MAX  # type: ignore[attr-defined]
        peer.receive(frame.marshal(commands.Channel.Open(), 1))
    else:
        transport.max_size = INPUT_BYTES_MAX  # type: ignore[attr-defined]
        other.data_received(b"asked")
    assert transport.max_size == INPUT_BYTES_LEAST  # type: ignore[attr-defined]
    assert broker.inputs.reads_cut == 1


async def test_a_turn_of_the_loop_ends_when_connections_are_written_to(broker: Broker) -> None:
    connection, transport = connected(broker)
    transport.max_size = 5  # type: ignore[attr-defined]
    for _ in range(3):
        connection.data_received(b"asked")
        transport.max_size = 5  # type: ignore[attr-defined]
    await turns()
    assert broker.inputs._sharing == 3
    connection.mark_dirty()
    await turns()
    assert broker.inputs._sharing == 1


async def test_what_is_left_in_the_socket_comes_with_the_next_turns(broker: Broker) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    size = theirs.send(bytes(64 << 10))
    theirs.close()
    inputs, reads = InputShares(), []

    class Slow(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)
            self.transport.max_size = 32 << 10  # type: ignore[attr-defined]
            self.ended = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:
            reads.append(len(data))
            inputs.computed = lambda: 2 * INPUT_SECONDS
            inputs.handled(self.transport, len(data), 0.0)

        def connection_lost(self, error: BaseException | None) -> None:
            self.ended.set_result(error)

    _, slow = await asyncio.get_running_loop().connect_accepted_socket(Slow, ours)
    await slow.ended
    assert sum(reads) == size
    assert reads[:3] == [32 << 10, 16 << 10, 8 << 10]


# ---------------------------------------------------------------------- what a turn has no time for


class Processor:
    """How long the loop's thread has computed, as a test says."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def __call__(self) -> float:
        return self.seconds


class Resting:
    """A connection that takes ``seconds`` for what rests."""

    def __init__(self, inputs: InputShares, processor: Processor, seconds: float) -> None:
        self.inputs, self.processor, self.seconds = inputs, processor, seconds
        self.ended = 0

    def end_rest(self) -> None:
        self.ended += 1
        began = self.inputs.begin()
        self.processor.seconds += self.seconds
        self.inputs.handled(None, 0, began)


def test_a_turn_has_time_for_input_until_it_is_spent() -> None:
    processor = Processor()
    inputs = InputShares(processor)
    began = inputs.begin()
    processor.seconds += 0.9 * INPUT_SECONDS_MAX
    assert inputs.look() >= 1
    processor.seconds += 0.2 * INPUT_SECONDS_MAX
    assert inputs.look() == 0
    inputs.handled(None, 0, began)
    assert not inputs.has_time()
    inputs.begin()
    assert inputs.look() == 0  # of another connection in the same turn
    inputs.turn_ended()
    inputs.begin()
    assert inputs.has_time()
    assert inputs.look() >= 1


def test_frames_that_take_long_are_followed_by_a_look_at_the_clock_sooner() -> None:
    processor = Processor()
    inputs = InputShares(processor)
    inputs.begin()
    processor.seconds += LOOK_SECONDS / 100
    assert inputs.look() == LOOK_FRAMES_MAX
    processor.seconds += 3.9 * LOOK_SECONDS
    assert inputs.look() == 8  # 32 steps took four times what they may
    processor.seconds += 3.9 * LOOK_SECONDS
    assert inputs.look() == 2
    processor.seconds += LOOK_SECONDS / 100
    assert inputs.look() == LOOK_FRAMES_MAX


async def test_connections_that_rest_go_on_in_turns_that_have_time() -> None:
    processor = Processor()
    inputs = InputShares(processor)
    clients = [Resting(inputs, processor, seconds) for seconds in (0.6 * INPUT_SECONDS_MAX,) * 5]
    for client in clients:
        inputs.rest(client)
    seen = []
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append([client.ended for client in clients])
    assert seen == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert inputs.rests == 5
