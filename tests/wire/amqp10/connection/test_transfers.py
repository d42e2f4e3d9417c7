from __future__ import annotations

import random
from typing import Any

import pytest

from annulet.wire.amqp10.frames.limits import FRAGMENTS_PER_PART, MAX_SENT_FRAME_SIZE
from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Received,
    Rejected,
    TransactionalState,
    Transfer,
)
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import LocalProtocolError, SessionFault
from tests.wire.amqp10.recorder import (
    attach_sender,
    begin,
    condition_of,
    credit,
    feed_variants,
    frame,
    frames,
    frames_in,
    frames_with_payload,
    linked,
    opened,
    sent,
    transfer,
)

# ---- deliveries of the peer


@pytest.mark.parametrize("way", ["whole", "octets", "pieces"])
def test_deliveries_arrive_in_order_with_their_fields(way: str) -> None:
    engine, handler = linked()
    state = TransactionalState(b"x")
    data = (
        transfer(0, b"one", settled=True)
        + transfer(1, b"", message_format=7)
        + transfer(2, b"th", more=True, state=state, resume=True)
        + transfer(None, b"r", more=True)
        + transfer(2, b"ee")
    )
    for part in feed_variants(data)[way]:
        engine.receive(part)
    one, two, three = handler.deliveries()
    assert (one.delivery_id, one.delivery_tag, one.payload, one.settled) == (0, b"t0", b"one", True)
    assert (two.message_format, two.payload, two.settled, two.state) == (7, b"", False, None)
    assert (three.payload, three.state, three.resume) == (b"three", state, True)
    assert list(handler.links["in"].session.incoming_unsettled) == [1, 2]
    assert (handler.links["in"].credit, engine.transfers.assembling_bytes) == (7, 0)


def test_a_message_in_very_many_transfers_is_whole_and_keeps_few_objects() -> None:
    engine, handler = linked(incoming_window=100_000)
    generator = random.Random(1)
    parts = [generator.randbytes(generator.randrange(3)) for _ in range(3 * FRAGMENTS_PER_PART + 5)]
    engine.receive(transfer(0, parts[0], more=True))
    link = handler.links["in"]
    for part in parts[1:-1]:
        engine.receive(transfer(None, part, more=True))
        assert len(link.fragments) < FRAGMENTS_PER_PART
    assert len(link.parts) == sum(1 for part in parts[:-1] if part) // FRAGMENTS_PER_PART
    engine.receive(transfer(None, parts[-1]))
    assert handler.deliveries()[0].payload == b"".join(parts)
    assert (link.parts, link.fragments, engine.transfers.assembling_bytes) == ([], [], 0)


def test_links_interleave_their_transfers() -> None:
    engine, handler = linked()
    engine.receive(attach_sender("two", 5))
    engine.credit.grant_credit(handler.links["two"], 5)
    engine.receive(
        transfer(0, b"a", more=True)
        + transfer(1, b"b", handle=5, more=True)
        + transfer(None, b"A")
        + transfer(None, b"B", handle=5)
    )
    assert [delivery.payload for delivery in handler.deliveries()] == [b"aA", b"bB"]


@pytest.mark.parametrize(
    ("data", "kind", "condition"),
    [
        (transfer(None), End, conditions.INVALID_FIELD),
        (transfer(0) + transfer(2), End, conditions.INVALID_FIELD),
        (transfer(0) + transfer(0), End, conditions.INVALID_FIELD),
        (transfer(0, more=True) + transfer(1), End, conditions.INVALID_FIELD),
        (transfer(0, delivery_tag=None), Detach, conditions.INVALID_FIELD),
        (transfer(0, more=True) + transfer(None, delivery_tag=b"u"), Detach, conditions.INVALID_FIELD),
        (transfer(0, more=True) + transfer(None, message_format=1), Detach, conditions.INVALID_FIELD),
        (transfer(0, rcv_settle_mode=1), Detach, conditions.INVALID_FIELD),
        (transfer(0, handle=1), Detach, conditions.NOT_ALLOWED),
    ],
)
def test_each_broken_rule_of_transfers_closes_what_it_is_about(data: bytes, kind: type[Any], condition: str) -> None:
    for way in ("whole", "octets"):
        engine, _ = linked()
        for part in feed_variants(data)[way]:
            engine.receive(part)
        assert condition_of(engine, kind) == condition
        assert engine.opened
        assert engine.transfers.assembling_bytes == 0


@pytest.mark.parametrize(
    ("mode", "settled", "allowed"), [(0, False, True), (0, True, False), (1, True, True), (1, False, False)]
)
def test_the_sender_is_held_to_its_settle_mode(mode: int, settled: bool, allowed: bool) -> None:
    for first in (True, False):
        engine, handler = linked(sender_fields={"snd_settle_mode": mode})
        if first:
            engine.receive(transfer(0, settled=settled))
        else:
            engine.receive(transfer(0, more=True) + transfer(None, settled=settled))
        assert len(handler.deliveries()) == allowed
        assert handler.links["in"].attached is allowed
    engine, handler = linked(sender_fields={"snd_settle_mode": mode})
    engine.receive(transfer(0, settled=settled, resume=True))
    assert len(handler.deliveries()) == 1


def test_settled_once_is_settled_for_all_transfers() -> None:
    engine, handler = linked()
    engine.receive(transfer(0, more=True, settled=True) + transfer(None, settled=False))
    assert handler.deliveries()[0].settled
    assert handler.links["in"].session.incoming_unsettled == {}


@pytest.mark.parametrize("parts", [1, 2])
def test_an_aborted_delivery_is_forgotten_and_its_credit_given_again(parts: int) -> None:
    engine, handler = linked()
    first = (
        transfer(0, b"abc", aborted=True)
        if parts == 1
        else transfer(0, b"abc", more=True) + transfer(None, aborted=True)
    )
    engine.receive(first)
    link = handler.links["in"]
    assert handler.deliveries() == []
    assert (link.credit, engine.transfers.assembling_bytes, link.receiving) == (10, 0, None)
    flow = sent(engine, Flow)[0]
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 1, 10)
    engine.receive(b"".join(transfer(number) for number in range(1, 11)))
    assert len(handler.deliveries()) == 10


@pytest.mark.parametrize("parts", [1, 2])
def test_a_message_larger_than_the_bound_detaches_the_link(parts: int) -> None:
    engine, handler = linked(max_message_size=10)
    for number, size in ((0, 10), (1, 11)):
        if parts == 1:
            engine.receive(transfer(number, bytes(size)))
        else:
            engine.receive(transfer(number, bytes(5), more=True) + transfer(None, bytes(size - 5)))
    assert [len(delivery.payload) for delivery in handler.deliveries()] == [10]
    assert condition_of(engine, Detach) == conditions.LINK_MESSAGE_SIZE_EXCEEDED
    assert engine.limit_hits == {"max_message_size": 1}
    assert engine.transfers.assembling_bytes == 0


def test_incomplete_deliveries_of_all_links_together_are_bounded() -> None:
    engine, handler = linked(max_assembling_bytes=20)
    engine.receive(attach_sender("two", 5))
    engine.credit.grant_credit(handler.links["two"], 5)
    engine.receive(transfer(0, bytes(10), more=True) + transfer(1, bytes(10), handle=5, more=True))
    assert engine.limit_hits == {}
    engine.receive(transfer(None, b"x", handle=5, more=True))
    assert condition_of(engine, Detach) == conditions.RESOURCE_LIMIT_EXCEEDED
    assert engine.transfers.assembling_bytes == 10
    engine.receive(transfer(None, bytes(100), handle=5) + transfer(None, b"y"))
    assert len(handler.deliveries()) == 1
    assert engine.limit_hits == {"max_assembling_bytes": 1}


def test_what_a_peer_leaves_unsettled_is_bounded() -> None:
    engine, handler = linked(max_unsettled=3)
    engine.receive(transfer(0) + transfer(1) + transfer(2))
    engine.transfers.settle_incoming(handler.links["in"].session, 1, 1, Accepted())
    engine.receive(transfer(3) + transfer(4, settled=True))
    assert engine.limit_hits == {}
    engine.receive(transfer(5))
    assert condition_of(engine, End) == conditions.RESOURCE_LIMIT_EXCEEDED
    assert engine.limit_hits == {"max_unsettled": 1}


def test_delivery_ids_wrap_at_32_bits() -> None:
    engine, handler = linked()
    first = 0xFFFFFFFF
    engine.receive(transfer(first, delivery_tag=b"a") + transfer(0) + transfer(1))
    session = handler.links["in"].session
    assert [delivery.delivery_id for delivery in handler.deliveries()] == [first, first + 1, first + 2]
    engine.transfers.settle_incoming(session, first, first + 2, Accepted())
    disposition = sent(engine, Disposition)[0]
    assert (disposition.first, disposition.last) == (first, 1)


# ---- settling deliveries of the peer


def test_consecutive_deliveries_of_one_state_leave_as_one_disposition() -> None:
    engine, handler = linked(incoming_window=1000)
    session = handler.links["in"].session
    engine.receive(b"".join(transfer(number) for number in range(8)))
    for number in (0, 1, 2):
        engine.transfers.settle_incoming(session, number, number, Accepted())
    engine.transfers.settle_incoming(session, 4, 5, Accepted())
    engine.transfers.settle_incoming(session, 6, 6, Rejected())
    engine.transfers.settle_incoming(session, 7, 7, Accepted(), settled=False)
    engine.transfers.settle_incoming(session, 0, 9, Modified(True))  # of these, 3 and 7 are left
    assert engine.output_size > 0
    told = [(item.first, item.last, item.state, item.settled, item.role) for item in sent(engine, Disposition)]
    assert told == [
        (0, 2, Accepted(), True, True),
        (4, 5, Accepted(), True, True),
        (6, None, Rejected(), True, True),
        (7, None, Accepted(), False, True),
        (3, None, Modified(True), True, True),
        (7, None, Modified(True), True, True),
    ]
    assert session.incoming_unsettled == {}
    assert engine.output_size == 0


def test_turns_keep_dispositions_apart() -> None:
    engine, handler = linked()
    session = handler.links["in"].session
    engine.receive(transfer(0) + transfer(1))
    engine.transfers.settle_incoming(session, 0, 0, Accepted())
    assert len(sent(engine, Disposition)) == 1
    engine.transfers.settle_incoming(session, 1, 1, Accepted())
    assert len(sent(engine, Disposition)) == 1


def test_a_delivery_may_be_settled_while_it_is_handed_over() -> None:
    engine, handler = linked()
    handler.actions["delivery"] = lambda link, delivery: engine.transfers.settle_incoming(
        link.session, delivery.delivery_id, delivery.delivery_id, Accepted()
    )
    engine.receive(b"".join(transfer(number) for number in range(5)))
    assert [(item.first, item.last) for item in sent(engine, Disposition)] == [(0, 4)]


def test_under_second_mode_the_peer_settles() -> None:
    engine, handler = linked(sender_fields={"rcv_settle_mode": 1})
    session = handler.links["in"].session
    engine.receive(transfer(0) + transfer(1, rcv_settle_mode=0))
    engine.transfers.settle_incoming(session, 0, 1, Accepted())
    told = [(item.first, item.settled) for item in sent(engine, Disposition)]
    assert told == [(0, False), (1, True)]
    assert list(session.incoming_unsettled) == [0]
    engine.receive(frame(Disposition(False, 0, None, True, Accepted())))
    assert session.incoming_unsettled == {}
    assert handler.named("incoming_disposition") == [(session, 0, 0, Accepted(), True)]


def test_second_may_be_answered_first_and_transfers_that_crossed_the_answer_are_settled() -> None:
    engine, handler = opened()
    handler.actions["attach"] = lambda *_: None
    engine.receive(begin() + attach_sender(rcv_settle_mode=1))
    link = handler.named("attach")[-1][0]
    engine.endpoints.settle_first(link)
    assert engine.endpoints.accept_attach(link, source=link.source, target=link.target)
    engine.credit.grant_credit(link, 10)
    assert sent(engine, Attach)[0].rcv_settle_mode == 0
    engine.receive(transfer(0) + transfer(1, rcv_settle_mode=1))
    engine.transfers.settle_incoming(link.session, 0, 1, Accepted())
    assert [(item.first, item.last, item.settled) for item in sent(engine, Disposition)] == [(0, 1, True)]
    assert link.session.incoming_unsettled == {}


# ---- deliveries of ours


def sending(**options: Any) -> Any:
    engine, handler = linked(**options)
    engine.receive(credit(50, incoming_window=options.get("begin_fields", {}).get("incoming_window", 100)))
    handler.calls.clear()
    return engine, handler, handler.links["out"]


@pytest.mark.parametrize("size", [0, 1, 256, 257, 5000])
def test_a_message_leaves_whole_in_one_frame(size: int) -> None:
    engine, _, link = sending()
    payload = random.Random(size).randbytes(size)
    assert engine.transfers.send_transfer(link, b"tag", payload, settled=False, message_format=3) == 0
    assert engine.transfers.send_transfer(link, b"", payload, settled=True) == 1
    (_, first, body), (_, second, _) = frames_with_payload(engine)
    assert first == Transfer(1, 0, b"tag", 3, False)
    assert second == Transfer(1, 1, b"", 0, True)
    assert body == payload
    assert list(link.session.outgoing_unsettled) == [0]
    assert (link.credit, link.delivery_count) == (48, 2)


@pytest.mark.parametrize("size", [400, 480, 490, 500, 1000, 12345])
def test_a_message_is_split_at_the_peers_frame_size(size: int) -> None:
    engine, _, link = sending(open_fields={"max_frame_size": 512})
    payload = random.Random(size).randbytes(size)
    state = TransactionalState(b"x" * 32)
    engine.transfers.send_transfer(link, b"t" * 32, payload, settled=False)
    engine.transfers.send_transfer(link, b"t" * 32, payload, settled=False, state=state, resume=True)
    data = b"".join(engine.take_output())
    position = 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        assert length <= 512
        position += length
    found = frames_in(data)
    for number in (0, 1):
        parts = [(item, body) for _, item, body in found if item.delivery_id == number]
        assert b"".join(body for _, body in parts) == payload
        assert [item.more for item, _ in parts] == [True] * (len(parts) - 1) + [False]
        assert parts[0][0].delivery_tag == b"t" * 32
        assert all(item.delivery_tag is None for item, _ in parts[1:])
    assert found[-1][1].delivery_id == 1
    assert next(item for _, item, _ in found if item.delivery_id == 1).state == state


def test_frames_to_a_peer_that_takes_any_size_are_bounded() -> None:
    engine, _, link = sending()
    payload = bytes(2 * MAX_SENT_FRAME_SIZE)
    engine.transfers.send_transfer(link, b"t", payload, settled=True)
    found = frames_with_payload(engine)
    assert len(found) == 3
    assert all(len(body) < MAX_SENT_FRAME_SIZE for _, _, body in found)
    assert b"".join(body for _, _, body in found) == payload


def test_transfers_wait_for_the_peers_window_and_keep_their_order() -> None:
    engine, handler, link = sending(open_fields={"max_frame_size": 512}, begin_fields={"incoming_window": 2})
    payload = random.Random(5).randbytes(1200)
    numbers = [engine.transfers.send_transfer(link, b"%d" % number, payload, settled=False) for number in range(3)]
    assert numbers == [0, 1, 2]
    assert not link.session.writable
    found = frames_with_payload(engine)
    count = len(found)
    assert count == 2
    while count < 9:
        engine.receive(frame(Flow(count, 2, 0, 9)))
        more = frames_with_payload(engine)
        assert 1 <= len(more) <= 2
        found += more
        count = len(found)
    assert [item.delivery_id for _, item, _ in found] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert b"".join(body for _, _, body in found) == payload * 3
    assert handler.order() == ["session_writable"]


def test_unsettled_deliveries_make_a_session_unwritable_until_settled() -> None:
    engine, handler, link = sending(max_unsettled=2)
    engine.transfers.send_transfer(link, b"a", b"m", settled=False)
    assert link.session.writable
    engine.transfers.send_transfer(link, b"b", b"m", settled=False)
    assert not link.session.writable
    engine.take_output()
    assert handler.order() == []
    engine.receive(frame(Disposition(True, 0, None, True, Accepted())))
    engine.take_output()
    assert handler.order() == ["disposition", "session_writable"]
    engine.transfers.send_transfer(link, b"c", b"m", settled=False)
    engine.transfers.settle_outgoing(link.session, 1, 1, Accepted())
    engine.take_output()
    assert handler.order()[2:] == ["session_writable"]


def test_giving_up_a_resumed_delivery_sends_an_aborted_transfer() -> None:
    engine, _, link = sending()
    engine.transfers.send_transfer(link, b"a", b"ignored", settled=False, aborted=True, resume=True)
    ((_, item, body),) = frames_with_payload(engine)
    assert (item.aborted, item.resume, item.more, body) == (True, True, False, b"")
    assert link.session.outgoing_unsettled == {}


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        ({"credit": 0}, {}, "credit=0"),
        ({}, {"delivery_tag": b"t" * 33}, "tag of 33 octets"),
        ({"max_message_size": 3}, {"payload": b"1234"}, "the peer takes 3"),
        ({"snd_settle_mode": 0}, {"settled": True}, "snd-settle-mode 0"),
        ({"snd_settle_mode": 1}, {"settled": False}, "snd-settle-mode 1"),
    ],
)
def test_what_may_not_be_sent_is_our_mistake(change: dict[str, Any], options: dict[str, Any], match: str) -> None:
    engine, handler, link = sending()
    for name, value in change.items():
        setattr(link, name, value)
    values = {"delivery_tag": b"t", "payload": b"m", "settled": False, **options}
    with pytest.raises(LocalProtocolError, match=match):
        engine.transfers.send_transfer(link, values["delivery_tag"], values["payload"], settled=values["settled"])
    with pytest.raises(LocalProtocolError, match="incoming=True"):
        engine.transfers.send_transfer(handler.links["in"], b"t", b"m", settled=True)
    assert engine.take_output() == []


# ---- dispositions of the peer


def test_states_of_our_deliveries_reach_the_owner() -> None:
    engine, handler, link = sending()
    session = link.session
    for number in range(6):
        engine.transfers.send_transfer(link, b"%d" % number, b"m", settled=False)
    state = TransactionalState(b"x", Accepted())
    engine.receive(
        frame(Disposition(True, 0, 2, True, Accepted()))
        + frame(Disposition(True, 3, None, False, Received(1, 2)))
        + frame(Disposition(True, 4, 5, False, state))
        + frame(Disposition(True, 3, 5, True))
    )
    assert handler.named("disposition") == [
        (session, 0, 2, Accepted(), True),
        (session, 3, 3, Received(1, 2), False),
        (session, 4, 5, state, False),
        (session, 3, 5, None, True),
    ]
    assert session.outgoing_unsettled == {}


def test_a_state_that_was_not_settled_is_settled_by_the_owner() -> None:
    engine, handler, link = sending()
    engine.transfers.send_transfer(link, b"a", b"m", settled=False)
    engine.transfers.send_transfer(link, b"b", b"m", settled=False)
    engine.take_output()
    handler.actions["disposition"] = lambda session, first, last, state, _: engine.transfers.settle_outgoing(
        session, first, last, state
    )
    engine.receive(frame(Disposition(True, 0, 1, False, Accepted())))
    assert sent(engine, Disposition) == [Disposition(False, 0, 1, True, Accepted())]
    engine.transfers.settle_outgoing(link.session, 0, 1, Accepted())
    assert engine.take_output() == []


@pytest.mark.parametrize(
    "disposition",
    [
        Disposition(True, 1, 0, True),
        Disposition(True, 0, 2, True),
        Disposition(True, 2, None, True),
        Disposition(False, 1, None, True),
    ],
)
def test_dispositions_of_what_was_never_sent_end_the_session(disposition: Disposition) -> None:
    engine, _, link = sending()
    engine.transfers.send_transfer(link, b"a", b"m", settled=False)
    engine.transfers.send_transfer(link, b"b", b"m", settled=False)
    engine.receive(transfer())
    engine.take_output()
    engine.receive(frame(disposition))
    assert condition_of(engine, End) == conditions.INVALID_FIELD


def test_a_disposition_that_names_far_more_than_exists_costs_what_exists() -> None:
    engine, handler, link = sending()
    session = link.session
    session.next_delivery_id = 10_000_000
    for number in range(4):
        engine.transfers.send_transfer(link, b"%d" % number, b"m", settled=number == 2)
    engine.receive(frame(Disposition(True, 0, 10_000_003, False, Accepted())))
    engine.receive(frame(Disposition(True, 0, 10_000_003, True, Accepted())))
    ranges = [(first - 10_000_000, last - 10_000_000) for _, first, last, _, _ in handler.named("disposition")]
    assert ranges == [(0, 1), (3, 3)] * 2
    assert session.outgoing_unsettled == {}


def test_an_owner_that_ends_the_session_within_a_disposition_is_told_no_more() -> None:
    engine, handler, link = sending()
    session = link.session
    session.next_delivery_id = 1000
    for number in range(3):
        engine.transfers.send_transfer(link, b"%d" % number, b"m", settled=number == 1)
    handler.failures["disposition"] = SessionFault("amqp:not-allowed", "no")
    engine.receive(frame(Disposition(True, 0, 1002, True, Accepted())))
    handler.failures.clear()
    assert len(handler.named("disposition")) == 1
    assert frames(engine)[-1][1].error.condition == "amqp:not-allowed"
