from __future__ import annotations

from typing import Any

import pytest

from annulet.wire.amqp10.connection.states import LinkState
from annulet.wire.amqp10.frames.limits import LINK_OVERHEAD_BYTES
from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Source,
    Target,
    Transfer,
)
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import ConnectionFault, LinkFault, SessionFault
from tests.wire.amqp10.recorder import (
    attach_receiver,
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
    waiting_link,
)


@pytest.mark.parametrize("way", ["whole", "octets", "pieces"])
def test_attach_and_detach_are_answered(way: str) -> None:
    engine, handler = opened()
    detaches = frame(Detach(4, closed=True)) + frame(Detach(9))
    for part in feed_variants(begin() + attach_sender("in", 4) + attach_receiver("out", 9) + detaches)[way]:
        engine.receive(part)
    answers = [item for _, item in frames(engine)][1:]
    assert [type(item) for item in answers] == [Attach, Attach, Detach, Detach]
    incoming, outgoing, closing, suspending = answers
    assert (incoming.name, incoming.handle, incoming.role, incoming.initial_delivery_count) == ("in", 4, True, None)
    assert incoming.max_message_size == engine.endpoints.limits.max_message_size
    assert (outgoing.name, outgoing.handle, outgoing.role, outgoing.initial_delivery_count) == ("out", 9, False, 0)
    assert (closing.handle, closing.closed, suspending.handle, suspending.closed) == (4, True, 9, False)
    assert [options["closed"] for options in handler.options("detached")] == [True, False]
    assert handler.links["in"].incoming
    assert not handler.links["out"].incoming


def test_what_the_peer_says_of_a_link_is_kept_and_negotiated() -> None:
    engine, handler = opened()
    engine.receive(
        begin()
        + attach_receiver(
            properties={"p": 1},
            desired_capabilities=["c"],
            snd_settle_mode=1,
            rcv_settle_mode=1,
            max_message_size=99,
            unsettled={b"a": Accepted(), b"b": None},
            incomplete_unsettled=True,
        )
    )
    link = handler.links["out"]
    assert (link.properties, link.desired_capabilities) == ({"p": 1}, ["c"])
    assert (link.snd_settle_mode, link.rcv_settle_mode, link.max_message_size) == (1, 1, 99)
    assert (link.peer_unsettled, link.incomplete_unsettled) == ({b"a": Accepted(), b"b": None}, True)
    assert link.resuming
    answer = sent(engine, Attach)[0]
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (1, 1)


def test_the_owner_may_answer_later_and_grant_less() -> None:
    engine, handler = opened()
    engine.receive(begin())
    link = waiting_link(engine, handler, attach_sender())
    assert link.state is LinkState.ATTACH_RECEIVED
    assert not link.attached
    accepted = engine.endpoints.accept_attach(
        link,
        source=link.source,
        target=Target("other"),
        properties={"k": 2},
        offered_capabilities=["queue"],
        max_message_size=50,
        unsettled={b"x": Accepted()},
    )
    assert accepted
    assert not engine.endpoints.accept_attach(link, source=None, target=None)
    answer = sent(engine, Attach)[0]
    assert (answer.target, answer.properties, answer.offered_capabilities) == (Target("other"), {"k": 2}, ["queue"])
    assert (answer.max_message_size, answer.unsettled) == (50, {b"x": Accepted()})
    assert link.max_message_size == 50


@pytest.mark.parametrize("data", [attach_sender(), attach_receiver()])
def test_a_refused_link_is_attached_without_terminus_then_closed(data: bytes) -> None:
    engine, handler = opened()
    engine.receive(begin())
    engine.take_output()
    link = waiting_link(engine, handler, data)
    engine.endpoints.refuse_attach(link, "amqp:not-found", "no such queue", {"i": 1})
    engine.endpoints.refuse_attach(link, "amqp:not-found", "twice")
    attach, detach = [item for _, item in frames(engine)]
    assert (attach.target if link.incoming else attach.source) is None
    assert (detach.closed, detach.error) == (True, Error("amqp:not-found", "no such queue", {"i": 1}))
    engine.receive(frame(Detach(link.remote_handle, closed=True)))
    assert engine.take_output() == []
    assert handler.named("detached") == []
    engine.receive(data)
    assert [type(item) for _, item in frames(engine)] == [Attach]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LinkFault("amqp:not-found", "no"), Detach),
        (SessionFault("amqp:not-found", "no"), End),
        (ConnectionFault("amqp:not-found", "no"), Close),
    ],
)
def test_the_owner_refuses_by_raising(error: Exception, kind: type[Any]) -> None:
    engine, handler = opened()
    handler.failures["attach"] = error
    engine.receive(begin() + attach_sender())
    assert condition_of(engine, kind) == "amqp:not-found"


def test_a_peer_that_detaches_before_the_answer_gets_both_and_the_owner_learns_when_it_accepts() -> None:
    engine, handler = opened()
    engine.receive(begin())
    engine.take_output()
    link = waiting_link(engine, handler, attach_receiver() + frame(Detach(1, closed=True)))
    assert [type(item) for _, item in frames(engine)] == [Attach, Detach]
    assert not engine.endpoints.accept_attach(link, source=None, target=None)
    engine.endpoints.refuse_attach(link, "amqp:not-found", "late")
    assert engine.take_output() == []
    assert handler.named("detached") == []


def test_accepting_after_the_session_ended_tells_so() -> None:
    engine, handler = opened()
    engine.receive(begin())
    link = waiting_link(engine, handler, attach_receiver() + frame(End()))
    assert not engine.endpoints.accept_attach(link, source=None, target=None)
    assert handler.order()[-1] == "session_ended"


@pytest.mark.parametrize(
    ("data", "kind", "condition"),
    [
        (attach_sender("other", 0), End, conditions.SESSION_HANDLE_IN_USE),
        (attach_sender("other", 1024), Close, conditions.CONNECTION_FRAMING_ERROR),
        (attach_sender("other", 5, initial_delivery_count=None), Detach, conditions.INVALID_FIELD),
        (frame(Detach(9)), End, conditions.SESSION_UNATTACHED_HANDLE),
        (credit(5, handle=9), End, conditions.SESSION_UNATTACHED_HANDLE),
        (transfer(handle=9), End, conditions.SESSION_UNATTACHED_HANDLE),
        (credit(5, delivery_count=3), Detach, conditions.INVALID_FIELD),
        (credit(0, handle=0, delivery_count=11), Detach, conditions.LINK_TRANSFER_LIMIT_EXCEEDED),
    ],
)
def test_each_broken_rule_of_links_closes_what_it_is_about(data: bytes, kind: type[Any], condition: str) -> None:
    for way in ("whole", "octets"):
        engine, _ = linked()
        for part in feed_variants(data)[way]:
            engine.receive(part)
        assert condition_of(engine, kind) == condition


def test_a_handle_is_free_after_both_detaches_and_errant_when_we_failed_it() -> None:
    engine, handler = linked()
    engine.endpoints.detach(
        handler.links["in"], closed=True, condition="amqp:resource-deleted", description="queue deleted"
    )
    engine.receive(transfer())  # was on its way
    assert condition_of(engine, Detach) == conditions.RESOURCE_DELETED
    assert handler.deliveries() == []
    engine.receive(frame(Detach(0, closed=True)) + attach_sender())
    engine.credit.grant_credit(handler.links["in"], 1)
    engine.receive(transfer(1))
    assert len(handler.deliveries()) == 1
    engine.endpoints.detach(handler.links["in"], closed=True, condition="amqp:resource-deleted")
    engine.take_output()
    engine.receive(frame(Detach(0, closed=True)) + transfer(2))
    assert condition_of(engine, End) == conditions.SESSION_ERRANT_LINK


def test_our_handle_is_one_the_peer_takes() -> None:
    engine, handler = opened()
    engine.receive(begin(handle_max=1) + attach_sender("a", 7) + attach_sender("b", 9))
    assert [handler.links[name].handle for name in "ab"] == [0, 1]
    engine.take_output()
    engine.receive(attach_sender("c", 2))
    assert condition_of(engine, End) == conditions.RESOURCE_LIMIT_EXCEEDED


def test_handles_up_to_handle_max_are_taken() -> None:
    engine, _ = linked(handle_max=3)
    engine.receive(attach_sender("third", 3))
    assert engine.limit_hits == {}
    engine.receive(attach_sender("fourth", 4))
    assert engine.limit_hits == {"handle_max": 1}


def test_what_links_keep_is_bounded_and_given_back() -> None:
    size = len(attach_sender("a", 1)) - 8 + LINK_OVERHEAD_BYTES
    engine, _ = opened(max_link_bytes=2 * size)
    engine.receive(begin() + attach_sender("a", 1) + attach_sender("b", 2))
    assert engine.limit_hits == {}
    assert engine.endpoints.link_bytes == 2 * size
    engine.take_output()
    engine.receive(attach_sender("c", 3))
    assert condition_of(engine, Detach) == conditions.RESOURCE_LIMIT_EXCEEDED
    assert engine.limit_hits == {"max_link_bytes": 1}
    assert engine.endpoints.link_bytes == 3 * size  # until the peer has answered the detach
    engine.receive(frame(Detach(3)) + frame(Detach(2)) + attach_sender("c", 3))
    assert engine.limit_hits == {"max_link_bytes": 1}
    assert engine.endpoints.link_bytes == 2 * size
    engine.receive(frame(End()))
    assert engine.endpoints.link_bytes == 0


@pytest.mark.parametrize("channel", [0, 1])
def test_a_link_attached_again_is_stolen_from_where_it_was(channel: int) -> None:
    engine, handler = linked()
    old = handler.links["in"]
    if channel:
        engine.receive(begin(channel))
        engine.take_output()
    handler.calls.clear()
    engine.receive(attach_sender("in", 5, channel))
    detach = sent(engine, Detach)[0]
    assert (detach.handle, detach.closed, detach.error.condition) == (0, False, conditions.LINK_STOLEN)
    assert handler.order() == ["detached", "attach"]
    assert not old.attached
    assert handler.links["in"].attached


def test_a_link_of_the_same_name_in_the_other_direction_is_another_one() -> None:
    engine, handler = linked()
    engine.receive(attach_receiver("in", 5))
    assert handler.order() == ["attach"]


def test_an_owner_that_ends_the_session_when_a_link_is_stolen_is_not_asked_for_the_new_one() -> None:
    engine, handler = linked()
    handler.actions["detached"] = lambda link, **_: engine.endpoints.end_session(link.session)
    engine.receive(attach_sender("in", 5))
    assert handler.order() == ["detached", "detached", "session_ended"]


def test_the_peers_detach_carries_its_error_and_what_is_unsettled() -> None:
    engine, handler = linked()
    engine.receive(credit(5))
    engine.transfers.send_transfer(handler.links["out"], b"a", b"m", settled=False)
    engine.transfers.send_transfer(handler.links["out"], b"b", b"m", settled=False)
    engine.receive(transfer() + transfer(1))
    engine.transfers.settle_incoming(handler.links["in"].session, 0, 0, Accepted())
    engine.take_output()
    engine.receive(frame(Disposition(True, 1, None, False, Accepted())))
    engine.receive(frame(Detach(1, error=Error("amqp:internal-error"))) + frame(Detach(0)))
    assert [type(item) for _, item in frames(engine)] == [Detach, Detach]
    assert handler.links["out"].unsettled == {b"a": None, b"b": Accepted()}
    assert handler.links["in"].unsettled == {b"t1": None}
    assert handler.options("detached")[0]["error"].condition == "amqp:internal-error"
    session = handler.links["in"].session
    assert (session.incoming_unsettled, session.outgoing_unsettled) == ({}, {})
    engine.transfers.settle_incoming(session, 1, 1, Accepted())  # too late for the link
    assert engine.take_output() == []


def test_what_did_not_leave_is_named_when_the_link_goes() -> None:
    engine, handler = linked(open_fields={"max_frame_size": 512}, begin_fields={"incoming_window": 3})
    engine.receive(attach_receiver("second", 2) + credit(9, incoming_window=3) + credit(9, 2, incoming_window=3))
    link, other = handler.links["out"], handler.links["second"]
    engine.transfers.send_transfer(link, b"a", b"m", settled=False)
    engine.transfers.send_transfer(link, b"b", bytes(2000), settled=False)
    engine.transfers.send_transfer(other, b"c", b"m", settled=False)
    engine.transfers.send_transfer(link, b"d", b"m", settled=True)
    engine.endpoints.detach(link, closed=False)
    assert link.unsent == [1, 3]
    assert link.unsettled == {b"a": None}
    engine.take_output()
    engine.receive(frame(Flow(3, 9, 0, 9)))
    assert [item.delivery_tag for item in sent(engine, Transfer)] == [b"c"]
    engine.receive(frame(End()))
    assert other.unsettled == {b"c": None}


def test_an_unsettled_map_larger_than_a_frame_is_cut_and_marked() -> None:
    engine, handler = opened(open_fields={"max_frame_size": 512})
    engine.receive(begin())
    engine.take_output()
    for count, complete in ((3, True), (300, False)):
        link = waiting_link(engine, handler, attach_sender(f"l{count}", count))
        engine.endpoints.accept_attach(
            link, source=None, target=Target("q"), unsettled={b"%d" % number: Accepted() for number in range(count)}
        )
        answer = sent(engine, Attach)[0]
        assert answer.incomplete_unsettled is not complete
        assert 0 < len(answer.unsettled) <= count
        assert (len(answer.unsettled) == count) is complete


def test_an_answer_larger_than_the_peers_frames_closes_the_connection() -> None:
    engine, handler = opened(open_fields={"max_frame_size": 512})
    engine.receive(begin())
    link = waiting_link(engine, handler, attach_receiver())
    assert not engine.endpoints.accept_attach(link, source=Source("q" * 600), target=None)
    assert condition_of(engine, Close) == conditions.FRAME_SIZE_TOO_SMALL
