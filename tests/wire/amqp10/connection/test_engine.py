from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp10.frames.frames import AMQP_HEADER, HEARTBEAT_FRAME
from annulet.wire.amqp10.frames.limits import HELD_OUTPUT_BYTES
from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Close,
    Detach,
    Disposition,
    End,
    encode_performative,
)
from annulet.wire.amqp10.frames.sasl import SaslInit
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import ConnectionFault, LinkFault, LocalProtocolError, SessionFault
from tests.wire.amqp10.recorder import (
    Recorder,
    attach_receiver,
    attach_sender,
    begin,
    condition_of,
    credit,
    engine_with,
    feed_variants,
    frame,
    frames,
    linked,
    login,
    open_frame,
    opened,
    sent,
    transfer,
)

HISTORY = b"".join(
    [
        AMQP_HEADER,
        open_frame(hostname="h"),
        begin(),
        attach_sender(),
        attach_receiver(),
        credit(5),
        b"".join(transfer(number, b"x" * number * 50) for number in range(4)),
        HEARTBEAT_FRAME,
        transfer(4, b"a", more=True),
        transfer(None, b"b"),
        begin(2),
        attach_sender("second", 3, 2),
        frame(Detach(0, closed=True)),
        frame(End()),
        frame(Close()),
    ]
)


def run(parts: list[bytes]) -> tuple[list[Any], bytes]:
    handler = Recorder()
    engine = engine_with(handler, require_sasl=False)

    def accept(link: Any, _: Any) -> None:
        engine.endpoints.accept_attach(link, source=link.source, target=link.target)
        if link.incoming:
            engine.credit.grant_credit(link, 10)

    handler.actions["attach"] = accept
    handler.actions["credit_changed"] = lambda link: engine.transfers.send_transfer(link, b"t", b"m", settled=True)
    handler.actions["delivery"] = lambda link, delivery: engine.transfers.settle_incoming(
        link.session, delivery.delivery_id, delivery.delivery_id, Accepted()
    )
    for part in parts:
        engine.receive(part)
    calls = [
        (name, [item.payload for item in arguments[1:2]] if name == "delivery" else None)
        for name, arguments, _ in handler.calls
    ]
    return calls, b"".join(engine.take_output())


def test_a_history_is_served_the_same_however_it_is_cut() -> None:
    whole = run([HISTORY])
    assert ("connection_closed", None) in whole[0]
    assert [payload for name, payload in whole[0] if name == "delivery"][-1] == [b"ab"]
    for parts in feed_variants(HISTORY).values():
        assert run(parts) == whole
    for cut in range(1, len(HISTORY), 5):
        assert run([HISTORY[:cut], HISTORY[cut:]]) == whole


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_frame_size", 511),
        ("channel_max", -1),
        ("channel_max", 65536),
        ("handle_max", 1 << 32),
        ("idle_time_out", -1),
        ("max_message_size", 0),
        ("incoming_window", 0),
        ("max_assembling_bytes", 0),
        ("max_unsettled", 0),
        ("max_link_bytes", 0),
        ("max_unauthenticated_bytes", 0),
    ],
)
def test_limits_out_of_range_are_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"{name} is {value}"):
        engine_with(Recorder(), **{name: value})


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x10\x00\x00\x02\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x02\x07\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x02\x01\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
    ],
)
def test_frames_that_cannot_be_end_the_connection_with_a_close(data: bytes, condition: str) -> None:
    engine, handler = opened()
    engine.receive(data + transfer())
    assert condition_of(engine, Close) == condition
    assert engine.closed
    assert handler.named("connection_closed")[0][0] == condition


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x53\x14\xff",
        b"\x00\x53\x14\xc0\x03\x01\xa1\x00",
        b"\x00\x53\x99\x45",
        b"\x00\x53\x18",
        b"\x00",
        encode_performative(Close()) + b"payload",
    ],
)
def test_bodies_that_cannot_be_decoded_close_the_connection_and_wait_for_the_peer(body: bytes) -> None:
    for way in ("whole", "octets"):
        engine, _ = linked()
        data = (len(body) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body
        for part in feed_variants(data)[way]:
            engine.receive(part)
        error = sent(engine, Close)[0].error
        assert error.condition == conditions.DECODE_ERROR
        assert error.description
        assert not engine.closed
        engine.receive(frame(Close()))
        assert engine.closed


def test_sasl_has_no_place_in_an_amqp_frame() -> None:
    engine, _ = linked()
    engine.receive(frame(SaslInit("PLAIN")))
    assert condition_of(engine, Close) == conditions.ILLEGAL_STATE


def test_a_frame_of_the_largest_size_is_taken_and_one_octet_more_is_not() -> None:
    for extra in (0, 1):
        engine, handler = linked(max_frame_size=1024)
        head = len(transfer(0, b""))
        data = transfer(0, bytes(1024 - head + extra))
        engine.receive(data[:8])
        assert engine.closed is bool(extra)  # by its size, before it is there
        assert engine.limit_hits == ({"max_frame_size": 1} if extra else {})
        engine.receive(data[8:])
        assert len(handler.deliveries()) == 1 - extra


def test_an_extended_header_is_skipped() -> None:
    engine, handler = linked()
    data = transfer(0, b"m")
    extended = (len(data) + 4).to_bytes(4, "big") + b"\x03" + data[5:8] + b"\xff\xff\xff\xff" + data[8:]
    engine.receive(extended + transfer(1))
    assert [delivery.payload for delivery in handler.deliveries()] == [b"m", b"m"]


def test_symbolic_descriptors_are_served() -> None:
    engine, handler = linked()
    data = transfer(0, b"m")
    symbol = b"amqp:transfer:list"
    body = b"\x00\xa3" + bytes((len(symbol),)) + symbol + data[11:]
    engine.receive((len(body) + 8).to_bytes(4, "big") + data[4:8] + body)
    assert len(handler.deliveries()) == 1


def test_heartbeats_of_the_peer_are_signs_of_life_and_nothing_else() -> None:
    engine, handler = opened()
    engine.received_since_check = False
    engine.receive(HEARTBEAT_FRAME)
    assert engine.received_since_check
    assert handler.order() == []
    assert engine.take_output() == []


def test_nothing_is_served_after_the_end() -> None:
    engine, handler = linked()
    engine.receive(frame(Close()))
    engine.take_output()
    told = handler.order()
    engine.receive(AMQP_HEADER + open_frame())
    assert handler.order() == told
    assert engine.take_output() == []


def test_an_incomplete_frame_in_many_chunks_is_served_once_whole() -> None:
    engine, handler = linked()
    data = transfer(0, bytes(5000))
    for position in range(len(data) - 1):
        engine.receive(data[position : position + 1])
        assert engine.unfinished_bytes == position + 1
    engine.receive(data[-1:])
    assert len(handler.deliveries()[0].payload) == 5000


def test_a_frame_cut_by_a_login_of_the_owner_is_served_when_the_answer_comes_from_within() -> None:
    handler = Recorder()
    engine = engine_with(handler)
    handler.actions["sasl_init"] = lambda *_: engine.sasl_outcome(0)
    engine.receive(login() + open_frame()[:5])
    engine.receive(open_frame()[5:] + begin())
    assert handler.order()[-2:] == ["connection_opened", "session_began"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LinkFault("amqp:precondition-failed", "full"), Detach),
        (SessionFault("amqp:precondition-failed", "full"), End),
        (ConnectionFault("amqp:precondition-failed", "full"), Close),
    ],
)
@pytest.mark.parametrize("method", ["delivery", "credit_changed", "disposition"])
def test_what_the_owner_raises_closes_as_much_as_it_says(method: str, error: Exception, kind: type[Any]) -> None:
    engine, handler = linked()
    engine.receive(credit(5))
    engine.transfers.send_transfer(handler.links["out"], b"t", b"m", settled=False)
    engine.take_output()
    handler.failures[method] = error
    data = {"delivery": transfer(), "credit_changed": credit(6), "disposition": frame(Disposition(True, 0))}[method]
    engine.receive(data)
    if method == "disposition" and kind is Detach:
        kind = End  # it is about no link
    assert condition_of(engine, kind) == "amqp:precondition-failed"


def test_a_link_fault_among_pipelined_transfers_leaves_the_others_alone() -> None:
    engine, handler = linked()
    engine.receive(attach_sender("other", 5))
    engine.credit.grant_credit(handler.links["other"], 5)
    failing = handler.links["in"]

    def fail(link: Any, _: Any) -> None:
        if link is failing:
            raise LinkFault("amqp:not-allowed", "no")

    handler.actions["delivery"] = fail
    engine.receive(transfer(0) + transfer(1) + transfer(2, handle=5) + transfer(3))
    assert [link.name for link, _ in handler.named("delivery")] == ["in", "other"]
    assert [type(item) for _, item in frames(engine)].count(Detach) == 1
    assert failing.session.mapped


@pytest.mark.parametrize("traced", [False, True])
def test_input_waits_while_nobody_takes_what_it_asked_for(traced: bool) -> None:
    """Tests of the owner show that it goes on when there is room."""
    engine, handler = opened(open_fields={"max_frame_size": 1 << 20})
    engine.receive(begin())
    engine.take_output()
    if traced:
        engine.output.trace = [].append  # type: ignore[assignment]
    large = {"large": "x" * (HELD_OUTPUT_BYTES // 4)}

    def accept(link: Any, _: Any) -> None:
        engine.endpoints.accept_attach(link, source=link.source, target=link.target, properties=large)

    def attached() -> list[int]:
        return [link.remote_handle for link, _ in handler.named("attach")]

    def held() -> bool:
        return engine.holding

    handler.actions["attach"] = accept
    attaches = [attach_receiver(f"l{number}", number) for number in range(11)]
    engine.receive(b"".join(attaches[:10]))
    assert attached() == list(range(4))
    assert held()
    engine.receive(attaches[10])  # what comes meanwhile waits too
    engine.go_on()
    assert attached() == list(range(4))
    for expected in (8, 11):
        engine.take_output()
        engine.go_on()
        assert attached() == list(range(expected))
    assert not held()
    assert engine.limit_hits == {"held_output_bytes": 2}
    engine.receive(attach_receiver("last", 20))
    assert attached()[-1] == 20
