from __future__ import annotations

import pytest

from annulet.wire.amqp10.frames.limits import MAX_CREDIT
from annulet.wire.amqp10.frames.performatives import (
    Detach,
    Flow,
    Transfer,
)
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import LocalProtocolError
from tests.wire.amqp10.recorder import (
    attach_receiver,
    attach_sender,
    begin,
    condition_of,
    credit,
    frame,
    frames,
    linked,
    opened,
    sent,
    transfer,
    waiting_link,
)


def test_credit_granted_reaches_the_peer() -> None:
    engine, handler = linked()
    engine.receive(transfer() + transfer(1))
    engine.credit.grant_credit(handler.links["in"], 7, drain=True)
    flow = sent(engine, Flow)[0]
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (0, 2, 7, True)
    assert (flow.next_incoming_id, flow.next_outgoing_id) == (2, 0)


@pytest.mark.parametrize("over", [False, True])
def test_deliveries_beyond_the_credit_detach_the_link(over: bool) -> None:
    engine, handler = linked()
    engine.receive(b"".join(transfer(number) for number in range(10 + over)))
    assert len(handler.deliveries()) == 10
    if over:
        assert condition_of(engine, Detach) == conditions.LINK_TRANSFER_LIMIT_EXCEEDED
    assert engine.limit_hits == ({"link_credit": 1} if over else {})


def test_a_delivery_before_the_attach_was_answered_has_no_credit() -> None:
    engine, handler = opened()
    engine.receive(begin())
    engine.take_output()
    waiting_link(engine, handler, attach_sender() + transfer())
    assert condition_of(engine, Detach) == conditions.LINK_TRANSFER_LIMIT_EXCEEDED


def test_less_credit_does_not_punish_what_was_on_its_way() -> None:
    engine, handler = linked()
    link = handler.links["in"]
    engine.credit.grant_credit(link, 0)
    engine.receive(b"".join(transfer(number) for number in range(10)))
    assert len(handler.deliveries()) == 10
    assert link.credit == 0
    engine.receive(transfer(10))
    assert condition_of(engine, Detach) == conditions.LINK_TRANSFER_LIMIT_EXCEEDED


def test_a_sender_that_drains_gives_credit_back() -> None:
    engine, handler = linked(sender_fields={"initial_delivery_count": 0xFFFFFFFE})
    link = handler.links["in"]
    engine.receive(transfer())
    engine.receive(credit(0, handle=0, delivery_count=8, available=3, drain=True))
    assert (link.credit, link.delivery_count, link.available) == (0, 0x100000008, 3)
    engine.receive(transfer(1))
    assert condition_of(engine, Detach) == conditions.LINK_TRANSFER_LIMIT_EXCEEDED


@pytest.mark.parametrize("value", [-1, MAX_CREDIT + 1])
def test_credit_out_of_range_is_our_mistake(value: int) -> None:
    engine, handler = linked()
    engine.credit.grant_credit(handler.links["in"], MAX_CREDIT)
    with pytest.raises(LocalProtocolError, match=str(value)):
        engine.credit.grant_credit(handler.links["in"], value)
    with pytest.raises(LocalProtocolError, match="incoming=False"):
        engine.credit.grant_credit(handler.links["out"], 1)
    with pytest.raises(LocalProtocolError, match="incoming"):
        engine.credit.drained(handler.links["in"])


def test_credit_of_the_peer_counts_from_what_it_has_seen() -> None:
    engine, handler = linked()
    link = handler.links["out"]
    engine.receive(credit(5))
    for number in range(3):
        engine.transfers.send_transfer(link, b"%d" % number, b"m", settled=True)
    assert link.credit == 2
    engine.receive(credit(5, delivery_count=1, next_incoming_id=1))
    assert link.credit == 3
    engine.receive(credit(1, delivery_count=1, next_incoming_id=1))
    assert link.credit == 0
    assert len(handler.named("credit_changed")) == 3


def test_credit_before_our_attach_is_told_at_the_end_of_the_turn() -> None:
    engine, handler = opened()
    engine.receive(begin())
    link = waiting_link(engine, handler, attach_receiver() + credit(5, delivery_count=None, next_incoming_id=None))
    assert handler.named("credit_changed") == []
    engine.endpoints.accept_attach(link, source=link.source, target=link.target, initial_delivery_count=7)
    assert (link.credit, link.delivery_count) == (5, 7)
    assert engine.output_size > 0
    engine.take_output()
    assert handler.named("credit_changed") == [(link,)]
    engine.receive(credit(6, delivery_count=None, next_incoming_id=None))
    assert link.credit == 6


def test_a_drain_is_answered_once_after_what_was_handed_in() -> None:
    engine, handler = linked(begin_fields={"incoming_window": 1})
    link = handler.links["out"]
    engine.receive(credit(5, incoming_window=1, drain=True))
    assert link.drain
    engine.transfers.send_transfer(link, b"a", b"m", settled=True)
    engine.transfers.send_transfer(link, b"b", b"m", settled=True)
    engine.credit.drained(link)
    assert [type(item) for _, item in frames(engine)] == [Transfer]
    engine.receive(frame(Flow(1, 5, 0, 5)))
    rest = [item for _, item in frames(engine)]
    assert [type(item) for item in rest] == [Transfer, Flow]
    assert (rest[1].delivery_count, rest[1].link_credit, rest[1].drain) == (5, 0, True)
    engine.receive(credit(0, delivery_count=5, next_incoming_id=2, drain=True))
    engine.credit.drained(link)
    assert engine.take_output() == []


def test_echo_is_answered_with_what_has_left_not_with_what_waits() -> None:
    engine, handler = linked(begin_fields={"incoming_window": 1})
    link = handler.links["out"]
    engine.receive(credit(5, incoming_window=1))
    engine.transfers.send_transfer(link, b"a", b"m", settled=True)
    engine.transfers.send_transfer(link, b"b", b"m", settled=True)
    engine.take_output()
    engine.receive(credit(5, incoming_window=1, echo=True))
    flow = sent(engine, Flow)[0]
    assert (flow.delivery_count, flow.link_credit, flow.available) == (1, 4, 1)
    engine.receive(credit(0, handle=0, echo=True))
    assert sent(engine, Flow)[0].handle == 0


def test_calls_for_a_link_that_is_gone_do_nothing() -> None:
    engine, handler = linked()
    link, other = handler.links["in"], handler.links["out"]
    engine.receive(frame(Detach(0)) + frame(Detach(1)))
    engine.take_output()
    engine.credit.grant_credit(link, 5)
    engine.endpoints.detach(link, closed=True)
    engine.credit.drained(other)
    with pytest.raises(LocalProtocolError, match="attached=False"):
        engine.transfers.send_transfer(other, b"a", b"m", settled=True)
    assert engine.take_output() == []
