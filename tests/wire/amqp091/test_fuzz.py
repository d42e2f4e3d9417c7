"""Mutations of whole AMQP 0-9-1 sessions: the engine ends in order, answers whole frames and keeps its bounds."""

from __future__ import annotations

import pytest
from pamqp import commands, frame

from annulet.wire.amqp091.types.constants import FRAME_SIZE_TOLERANCE
from tests.wire.amqp091.recorder import Recorder, engine_with, frame_of, handshake, publish
from tests.wire.fuzzing import SOAK_INPUTS, TEST_INPUTS, fuzz

PIECE_OCTETS = 97
SESSIONS = [
    handshake(channels=2)
    + frame.marshal(commands.Queue.Declare(queue="q", arguments={"x-max-length": 3, "t": {"n": [1, "a"]}}), 1)
    + publish(b"first", delivery_mode=2)
    + publish(b"x" * 300, channel=2, exchange="other", headers={"a": 1})
    + frame.marshal(commands.Basic.Ack(7, True), 1)
    + frame.marshal(commands.Channel.Close(200, "bye", 0, 0), 1)
    + frame.marshal(commands.Connection.Close(200, "bye", 0, 0), 0),
    handshake()
    + frame.marshal(commands.Exchange.Declare(exchange="e", exchange_type="topic", arguments={"a": True}), 1)
    + frame.marshal(commands.Queue.Bind(queue="q", exchange="e", routing_key="a.#", arguments={"x": None}), 1)
    + frame.marshal(commands.Basic.Qos(0, 10, False), 1)
    + frame.marshal(commands.Basic.Consume(queue="q", consumer_tag="c", arguments={"x-priority": 5}), 1)
    + frame.marshal(commands.Basic.Get(queue="q"), 1)
    + publish(b"abcdefgh", room=3)
    + frame_of(8, 0, b"")
    + frame.marshal(commands.Tx.Select(), 1)
    + frame.marshal(commands.Confirm.Select(), 1)
    + frame.marshal(commands.Basic.Nack(1, False, True), 1),
]


def session_target(data: bytes) -> None:
    handler = Recorder()
    engine = engine_with(handler)
    for start in range(0, len(data), PIECE_OCTETS):
        engine.receive(data[start : start + PIECE_OCTETS])
        assert engine.unfinished_bytes <= engine.frame_limit + FRAME_SIZE_TOLERANCE + PIECE_OCTETS
    output = b"".join(engine.take_output())
    if not output.startswith(b"AMQP"):  # the answer to an unknown protocol header is no frame
        while output:
            size, _, _ = frame.unmarshal(output)
            output = output[size:]
    engine.connection_lost()
    assert len(handler.named("connection_closed")) == 1
    assert sorted(handler.named("open_channel")) == sorted(handler.named("close_channel"))


def test_a_thousand_mutations() -> None:
    for session in SESSIONS:
        session_target(session)
    fuzz(session_target, SESSIONS, TEST_INPUTS)


@pytest.mark.soak
def test_very_many_mutations() -> None:
    fuzz(session_target, SESSIONS, SOAK_INPUTS)
