from __future__ import annotations

import pytest

from annulet.wire.amqp10.connection.output import COPY_PAYLOAD_OCTETS, encode_state, make_error
from annulet.wire.amqp10.frames.frames import HEARTBEAT_FRAME
from annulet.wire.amqp10.frames.limits import MAX_DESCRIPTION_OCTETS
from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Close,
    Error,
    Modified,
    Rejected,
    TransactionalState,
    encode_performative,
)
from tests.wire.amqp10.recorder import Recorder, credit, engine_with, frame, linked, opened, transfer


def test_errors_are_cut_to_whole_characters_and_absent_without_a_condition() -> None:
    assert make_error("", "text") is None
    assert make_error("amqp:not-found", "text", {"a": 1}) == Error("amqp:not-found", "text", {"a": 1})
    cut = make_error("amqp:not-found", "x" + "ü" * MAX_DESCRIPTION_OCTETS)
    assert cut is not None
    assert cut.description == "x" + "ü" * ((MAX_DESCRIPTION_OCTETS - 1) // 2)
    lone = make_error("amqp:not-found", "a\ud800b")
    assert lone is not None
    assert lone.description == "a?b"


@pytest.mark.parametrize("state", [Accepted(), Rejected(Error("a", "b")), Modified(True), TransactionalState(b"x")])
def test_states_are_encoded_as_everywhere_else(state: object) -> None:
    assert encode_state(state) == encode_performative(state)
    assert encode_state(None) == b"\x40"


def test_a_heartbeat_is_an_empty_frame_and_only_sent_while_open() -> None:
    engine = engine_with(Recorder())
    engine.heartbeat()
    assert engine.take_output() == []
    engine, _ = opened()
    lines: list[str] = []
    engine.output.trace = lines.append
    engine.heartbeat()
    assert engine.output_size == 8
    assert engine.take_output() == [HEARTBEAT_FRAME]
    assert lines == ["-> #0 empty frame"]
    engine.close()
    engine.take_output()
    engine.heartbeat()
    assert engine.take_output() == []


@pytest.mark.parametrize("size", [COPY_PAYLOAD_OCTETS, COPY_PAYLOAD_OCTETS + 1])
def test_long_payloads_are_not_copied(size: int) -> None:
    engine, handler = linked()
    engine.receive(credit(5))
    payload = bytes(size)
    engine.transfers.send_transfer(handler.links["out"], b"t", payload, settled=True)
    waiting = engine.output_size
    parts = engine.take_output()
    assert waiting == sum(map(len, parts))
    assert any(part is payload for part in parts) is (size > COPY_PAYLOAD_OCTETS)
    assert engine.output_size == 0


def test_the_trace_shows_every_frame_of_both_directions_without_changing_them() -> None:
    outputs = []
    lines: list[str] = []
    for traced in (False, True):
        engine, handler = linked()
        if traced:
            engine.output.trace = lines.append
        engine.receive(transfer(0, b"body") + credit(5))
        engine.transfers.send_transfer(handler.links["out"], b"t", b"answer", settled=False)
        engine.transfers.settle_incoming(handler.links["in"].session, 0, 0, Accepted())
        first = b"".join(engine.take_output())
        engine.heartbeat()
        engine.receive(HEARTBEAT_FRAME + frame(Close()))
        outputs.append(first + b"".join(engine.take_output()))
        assert len(handler.deliveries()) == 1
    assert outputs[0] == outputs[1]
    starts = ["<- #0 transfer(", "<- #0 flow(", "-> #0 transfer(", "-> #0 disposition(", "-> #0 empty frame"]
    starts += ["<- #0 empty frame", "<- #0 close(", "-> #0 close("]
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))
    assert "6 octets" in lines[2]
    assert "accepted" in lines[3]
