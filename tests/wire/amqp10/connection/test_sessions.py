from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp10.connection.states import SessionState
from annulet.wire.amqp10.frames.performatives import Accepted, Begin, Close, Disposition, End, Error, Flow, Transfer
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import SessionFault
from tests.wire.amqp10.recorder import (
    attach_sender,
    begin,
    condition_of,
    credit,
    feed_variants,
    frame,
    frames,
    linked,
    opened,
    sent,
    transfer,
)


@pytest.mark.parametrize("way", ["whole", "octets", "pieces"])
def test_begin_and_end_are_answered(way: str) -> None:
    engine, handler = opened(handle_max=9, incoming_window=50)
    for part in feed_variants(begin(3, handle_max=7) + frame(End(), 3) + begin(3))[way]:
        engine.receive(part)
    answer = Begin(3, 0, 50, 0x7FFFFFFF, 9)
    assert frames(engine) == [(3, answer), (3, End()), (3, answer)]
    assert handler.order() == ["session_began", "session_ended", "session_began"]
    assert handler.sessions[0].handle_max == 7
    assert handler.sessions[0].state is SessionState.UNMAPPED
    assert handler.sessions[1].mapped


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (begin(0) + begin(0), conditions.ILLEGAL_STATE),
        (frame(Begin(5, 0, 1, 1)), conditions.NOT_ALLOWED),
        (frame(Flow(), 2), conditions.ILLEGAL_STATE),
        (frame(End(), 2), conditions.ILLEGAL_STATE),
        (attach_sender(channel=2), conditions.ILLEGAL_STATE),
        (transfer(channel=2), conditions.ILLEGAL_STATE),
        (begin(256), conditions.CONNECTION_FRAMING_ERROR),
        (frame(Flow(), 256), conditions.CONNECTION_FRAMING_ERROR),
    ],
)
def test_what_breaks_a_rule_of_channels_closes_the_connection(data: bytes, condition: str) -> None:
    engine, _ = opened()
    engine.receive(data)
    assert condition_of(engine, Close) == condition


@pytest.mark.parametrize("most", [0, 5])
def test_channels_up_to_channel_max_are_taken(most: int) -> None:
    engine, handler = opened(channel_max=most)
    for channel in range(most + 1):
        engine.receive(begin(channel))
    assert len(handler.sessions) == most + 1
    assert engine.limit_hits == {}
    engine.receive(begin(most + 1))
    assert engine.limit_hits == {"channel_max": 1}


def test_our_channel_is_one_the_peer_takes() -> None:
    engine, handler = opened(open_fields={"channel_max": 1})
    engine.receive(begin(200) + begin(1))
    assert [(session.remote_channel, session.channel) for session in handler.sessions] == [(200, 0), (1, 1)]
    assert [(channel, item.remote_channel) for channel, item in frames(engine)] == [(0, 200), (1, 1)]
    engine.receive(begin(2))
    assert condition_of(engine, Close) == conditions.RESOURCE_LIMIT_EXCEEDED


def test_the_end_of_a_session_ends_its_links_first_and_once() -> None:
    engine, handler = linked()
    engine.receive(frame(End(Error("amqp:internal-error", "x"))))
    assert handler.order() == ["detached", "detached", "session_ended"]
    assert [options["error"].condition for options in handler.options("detached")] == ["amqp:internal-error"] * 2
    assert frames(engine) == [(0, End())]
    engine.connection_lost()
    assert handler.order() == ["detached", "detached", "session_ended", "connection_closed"]


@pytest.mark.parametrize(
    ("condition", "state"), [("", SessionState.END_SENT), ("amqp:not-allowed", SessionState.DISCARDING)]
)
def test_after_our_end_all_is_discarded_until_the_peers(condition: str, state: SessionState) -> None:
    engine, handler = linked()
    session = handler.links["in"].session
    engine.endpoints.end_session(session, condition, "because")
    engine.endpoints.end_session(session, "amqp:internal-error", "twice")
    assert session.state is state
    assert len(sent(engine, End)) == 1
    told = handler.order()
    assert told == ["detached", "detached", "session_ended"]
    engine.receive(transfer() + credit(5) + attach_sender("late", 7))
    assert handler.order() == told
    assert engine.take_output() == []
    engine.receive(frame(End()) + begin(0))
    assert [type(item) for _, item in frames(engine)] == [Begin]


def test_one_session_ends_and_the_other_goes_on() -> None:
    engine, handler = linked()
    engine.receive(begin(1) + attach_sender("two", 0, 1))
    engine.credit.grant_credit(handler.links["two"], 5)
    engine.receive(transfer(handle=77) + transfer(channel=1))
    assert condition_of(engine, End) == conditions.SESSION_UNATTACHED_HANDLE
    assert len(handler.deliveries()) == 1


def test_a_window_that_is_used_up_ends_the_session() -> None:
    engine, handler = linked(incoming_window=4)
    frames_in_window = b"".join(transfer(number) for number in range(4))
    engine.receive(frames_in_window)
    assert len(handler.deliveries()) == 4
    assert engine.limit_hits == {}
    engine.receive(transfer(4))
    assert condition_of(engine, End) == conditions.SESSION_WINDOW_VIOLATION
    assert engine.limit_hits == {"incoming_window": 1}


def test_a_window_is_renewed_at_half_use_at_the_end_of_the_turn() -> None:
    engine, _ = linked(incoming_window=4)
    engine.receive(transfer(0))
    assert engine.output_size == 0
    engine.receive(transfer(1))
    assert engine.output_size > 0
    flows = sent(engine, Flow)
    assert [(flow.next_incoming_id, flow.incoming_window, flow.handle) for flow in flows] == [(2, 4, None)]
    engine.receive(b"".join(transfer(number) for number in range(2, 6)))
    assert engine.opened


@pytest.mark.parametrize(("fields", "allowed"), [({}, 3), ({"next_incoming_id": 2}, 1), ({"incoming_window": 0}, 0)])
def test_the_peers_window_follows_its_flow(fields: dict[str, Any], allowed: int) -> None:
    engine, handler = linked()
    engine.receive(credit(10))
    for number in range(2):
        engine.transfers.send_transfer(handler.links["out"], b"%d" % number, b"m", settled=True)
    engine.take_output()
    values = {"next_incoming_id": None, "incoming_window": 5, "next_outgoing_id": 0, "outgoing_window": 1, **fields}
    if fields.get("next_incoming_id") == 2:
        values["incoming_window"] = 1
    engine.receive(frame(Flow(**values)))
    for number in range(2, 6):
        engine.transfers.send_transfer(handler.links["out"], b"%d" % number, b"m", settled=True)
    assert len(sent(engine, Transfer)) == allowed


def test_a_flow_that_counts_what_was_never_sent_ends_the_session() -> None:
    engine, _ = linked()
    engine.receive(frame(Flow(1, 5, 0, 5)))
    assert condition_of(engine, End) == conditions.SESSION_WINDOW_VIOLATION


def test_echo_of_a_session_is_answered_with_its_state() -> None:
    engine, _ = linked(incoming_window=9)
    engine.receive(transfer())
    engine.receive(frame(Flow(0, 5, 1, 5, echo=True)))
    assert sent(engine, Flow) == [Flow(1, 9, 0, 0x7FFFFFFF)]
    engine.receive(frame(Flow(0, 5, 1, 5)))
    assert engine.take_output() == []


def test_the_session_is_writable_again_when_the_window_opens() -> None:
    engine, handler = linked(begin_fields={"incoming_window": 1})
    engine.receive(credit(10, incoming_window=1))
    link = handler.links["out"]
    for number in range(3):
        engine.transfers.send_transfer(link, b"%d" % number, b"m", settled=True)
    assert not link.session.writable
    assert len(sent(engine, Transfer)) == 1
    handler.calls.clear()
    engine.receive(frame(Flow(1, 1, 0, 1)))
    assert len(sent(engine, Transfer)) == 1
    assert handler.order() == []
    engine.receive(frame(Flow(2, 5, 0, 1)))
    assert len(sent(engine, Transfer)) == 1
    assert handler.order() == ["session_writable"]
    assert link.session.writable


def test_what_the_owner_sends_when_told_leaves_in_the_same_turn() -> None:
    engine, handler = linked(begin_fields={"incoming_window": 0})
    engine.receive(credit(10, incoming_window=0))
    link = handler.links["out"]
    engine.transfers.send_transfer(link, b"a", b"m", settled=True)

    def send_more(session: Any) -> None:
        engine.transfers.send_transfer(link, b"b", b"m", settled=True)
        engine.transfers.settle_outgoing(session, 0, 9, Accepted())

    handler.actions["session_writable"] = send_more
    engine.receive(frame(Flow(0, 5, 0, 1)))
    assert [item.delivery_tag for item in sent(engine, Transfer)] == [b"a", b"b"]


def test_a_fault_of_the_owner_when_told_ends_the_session() -> None:
    engine, handler = linked(begin_fields={"incoming_window": 0})
    engine.receive(credit(10, incoming_window=0))
    engine.transfers.send_transfer(handler.links["out"], b"a", b"m", settled=True)
    handler.failures["session_writable"] = SessionFault("amqp:not-allowed", "no")
    engine.receive(frame(Flow(0, 5, 0, 1)))
    assert condition_of(engine, End) == "amqp:not-allowed"


def test_faults_raised_when_told_of_an_end_do_not_keep_the_rest_from_being_told() -> None:
    engine, handler = linked()
    handler.failures["detached"] = SessionFault("amqp:not-allowed", "no")
    engine.receive(frame(End()))
    assert handler.order() == ["detached", "detached", "session_ended"]
    assert frames(engine) == [(0, End())]


def test_dispositions_collected_leave_before_the_end() -> None:
    engine, handler = linked()
    engine.receive(transfer())
    engine.transfers.settle_incoming(handler.links["in"].session, 0, 0, Accepted())
    engine.receive(frame(End()))
    assert [type(item) for _, item in frames(engine)] == [Disposition, End]
