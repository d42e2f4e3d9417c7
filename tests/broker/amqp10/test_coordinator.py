from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.amqp10.coordinator import COORDINATOR_CREDIT, TRANSACTIONS_MAX, Coordinator, read_command
from annulet.broker.broker import Broker
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow
from annulet.wire.amqp10.frames.outcomes import (
    Accepted,
    Declare,
    Declared,
    Discharge,
    Error,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from annulet.wire.amqp10.frames.performatives import Detach, End, Source
from annulet.wire.amqp10.frames.terminus import Coordinator as CoordinatorTarget
from annulet.wire.amqp10.messages.names import REJECTED_CONDITION
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import DecodeError
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import ACCEPTED, Delivery, Peer, PeerLink, bodies, message, queue_of, value


async def controller(peer: Peer, channel: int = 0) -> PeerLink:
    return await peer.attach(f"transactions-{channel}", receiver=False, channel=channel, target=CoordinatorTarget())


async def declare(peer: Peer, link: PeerLink) -> bytes:
    state = await peer.publish(link, value(Declare()))
    assert isinstance(state, Declared)
    return bytes(state.txn_id)


async def discharge(peer: Peer, link: PeerLink, identifier: bytes, *, fail: bool = False) -> Any:
    return await peer.publish(link, value(Discharge(identifier, fail)))


async def prepared(broker: Broker, *contents: bytes) -> tuple[Peer, PeerLink, PeerLink]:
    """Return a peer with a coordinator link and a sender to a queue that holds messages."""
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    for content in contents:
        await peer.publish(sender, message(content))
    return peer, await controller(peer), sender


def count(broker: Broker) -> int:
    return broker.hosts["/"].queues["q"].order.count


def held(broker: Broker) -> int:
    return len(broker.hosts["/"].queues["q"].delivering)


def coordinator_of(peer: Peer, channel: int = 0) -> Coordinator:
    return peer.connection.channels[channel].transactions  # type: ignore[attr-defined, no-any-return]


async def test_the_coordinator_says_what_it_can_and_grants_credit(broker: Broker) -> None:
    peer, link, _ = await prepared(broker)
    assert link.answer is not None
    assert isinstance(link.answer.target, CoordinatorTarget)
    assert set(link.answer.target.capabilities) == {"amqp:local-transactions", "amqp:multi-txns-per-ssn"}
    assert link.flows[-1].link_credit == COORDINATOR_CREDIT
    for _ in range(2 * COORDINATOR_CREDIT):  # it is renewed
        assert await discharge(peer, link, await declare(peer, link)) == ACCEPTED


async def test_sends_appear_at_the_commit_all_at_once(broker: Broker) -> None:
    peer, link, sender = await prepared(broker)
    identifier = await declare(peer, link)
    for number in range(3):
        state = await peer.publish(sender, message(b"%d" % number), state=TransactionalState(identifier))
        assert state == TransactionalState(identifier, Accepted())
    assert count(broker) == 0
    assert await discharge(peer, link, identifier) == ACCEPTED
    assert count(broker) == 3
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"0", b"1", b"2"]


async def test_sends_of_a_rollback_never_were(broker: Broker) -> None:
    peer, link, sender = await prepared(broker)
    identifier = await declare(peer, link)
    await peer.publish(sender, message(), state=TransactionalState(identifier))
    assert await discharge(peer, link, identifier, fail=True) == ACCEPTED
    assert count(broker) == 0
    assert coordinator_of(peer).count == 0


async def enlist(peer: Peer, identifier: bytes, outcome: Any, *found: Delivery, settled: bool = True) -> None:
    await peer.settle(TransactionalState(identifier, outcome), *found, settled=settled)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize(
    ("outcome", "left"),
    [(Accepted(), 0), (Rejected(), 0), (Released(), 1), (Modified(delivery_failed=True), 1)],
    ids=repr,
)
async def test_outcomes_hold_at_the_commit(broker: Broker, outcome: Any, left: int, settled: bool) -> None:
    peer, link, _ = await prepared(broker, b"a")
    receiver = await peer.receiver("q", credit=1)
    (delivery,) = await peer.deliveries()
    identifier = await declare(peer, link)
    await enlist(peer, identifier, outcome, delivery, settled=settled)
    assert (count(broker) + held(broker), held(broker)) == (1, 1)
    await peer.take()
    assert await discharge(peer, link, identifier) == ACCEPTED
    told = [item for item in await peer.all(Disposition) if not item.role]
    assert [(item.first, item.settled) for item in told] == ([] if settled else [(delivery.number, True)])
    await peer.detach(receiver, closed=True)
    assert count(broker) == left
    removed = broker.hosts["/"].queues["q"].counters.removed
    assert removed[RemovalReason.REJECTED] == (1 if isinstance(outcome, Rejected) else 0)


async def test_after_a_rollback_deliveries_are_as_before(broker: Broker) -> None:
    """§4.4.2: what the receiver settled goes back, what it kept unsettled may be given another outcome."""
    peer, link, _ = await prepared(broker, b"a", b"b")
    await peer.receiver("q", credit=2)
    settled, unsettled = await peer.deliveries()
    identifier = await declare(peer, link)
    await enlist(peer, identifier, Accepted(), settled)
    await enlist(peer, identifier, Accepted(), unsettled, settled=False)
    assert await discharge(peer, link, identifier, fail=True) == ACCEPTED
    assert held(broker) == 1
    await peer.settle(ACCEPTED, unsettled)
    other = await Peer(broker).open()
    await other.receiver("q", credit=2)
    assert bodies(await other.deliveries()) == [b"a"]


async def test_several_transactions_are_open_at_once_and_do_not_mix(broker: Broker) -> None:
    peer, link, sender = await prepared(broker)
    first, second = await declare(peer, link), await declare(peer, link)
    assert first != second
    await peer.publish(sender, message(b"first"), state=TransactionalState(first))
    await peer.publish(sender, message(b"second"), state=TransactionalState(second))
    await peer.publish(sender, message(b"none"))
    await discharge(peer, link, first, fail=True)
    await discharge(peer, link, second)
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"none", b"second"]


async def test_transactions_of_a_detached_coordinator_link_are_rolled_back(broker: Broker) -> None:
    peer, link, sender = await prepared(broker, b"a")
    other = await peer.attach("more", receiver=False, target=CoordinatorTarget())
    kept, lost = await declare(peer, other), await declare(peer, link)
    await peer.publish(sender, message(b"lost"), state=TransactionalState(lost))
    await peer.publish(sender, message(b"kept"), state=TransactionalState(kept))
    receiver = await peer.receiver("q", credit=1)
    (delivery,) = await peer.deliveries()
    await enlist(peer, lost, Accepted(), delivery)
    await peer.detach(link, closed=True)
    assert await discharge(peer, other, kept) == ACCEPTED
    await peer.detach(receiver)
    other_peer = await Peer(broker).open()
    await other_peer.receiver("q", credit=5)
    assert sorted(bodies(await other_peer.deliveries())) == [b"a", b"kept"]


@pytest.mark.parametrize("way", ["end", "loss"])
async def test_the_end_of_the_session_rolls_back(broker: Broker, way: str) -> None:
    peer, link, sender = await prepared(broker, b"a")
    await peer.receiver("q", credit=1)
    (delivery,) = await peer.deliveries()
    identifier = await declare(peer, link)
    await peer.publish(sender, message(b"never"), state=TransactionalState(identifier))
    await enlist(peer, identifier, Accepted(), delivery)
    if way == "end":
        await peer.end()
    else:
        await peer.lose()
    other = await Peer(broker).open()
    await other.receiver("q", credit=5)
    assert bodies(await other.deliveries()) == [b"a"]


async def test_an_unknown_transaction_is_told(broker: Broker) -> None:
    peer, link, _ = await prepared(broker)
    state = await discharge(peer, link, b"nonsense")
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == conditions.TRANSACTION_UNKNOWN_ID
    assert "6e6f6e73656e7365" in (state.error.description or "")
    identifier = await declare(peer, link)
    await discharge(peer, link, identifier)
    assert isinstance(await discharge(peer, link, identifier), Rejected)  # it is over


@pytest.mark.parametrize("what", ["transfer", "disposition"])
async def test_work_in_an_unknown_transaction_ends_the_session(broker: Broker, what: str) -> None:
    peer, _, sender = await prepared(broker, b"a")
    await peer.receiver("q", credit=1)
    (delivery,) = await peer.deliveries()
    if what == "transfer":
        await peer.send(peer.transfer(sender, message(), state=TransactionalState(b"none")))
    else:
        await enlist(peer, b"none", Accepted(), delivery)
    error = (await peer.one(End)).error
    assert error is not None
    assert error.condition == conditions.TRANSACTION_UNKNOWN_ID
    await peer.send(End())
    assert (count(broker), held(broker)) == (1, 0)


async def test_transactions_belong_to_their_session(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open(sessions=2)
    link = await controller(peer)
    identifier = await declare(peer, link)
    other = await controller(peer, channel=1)
    assert isinstance(await discharge(peer, other, identifier), Rejected)
    assert await discharge(peer, link, identifier) == ACCEPTED


async def test_of_the_open_transactions_there_is_a_limit(broker: Broker) -> None:
    peer, link, _ = await prepared(broker)
    identifiers = [await declare(peer, link) for _ in range(TRANSACTIONS_MAX)]
    state = await peer.publish(link, value(Declare()))
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
    assert str(TRANSACTIONS_MAX) in (state.error.description or "")
    assert await discharge(peer, link, identifiers[0]) == ACCEPTED
    await declare(peer, link)
    assert coordinator_of(peer).count == TRANSACTIONS_MAX


async def test_what_a_full_queue_refuses_rolls_the_transaction_back(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "reject-publish"})
    peer, link, sender = await prepared(broker)
    small = await peer.sender("small")
    identifier = await declare(peer, link)
    for target in (sender, small, small):
        await peer.publish(target, message(), state=TransactionalState(identifier))
    state = await discharge(peer, link, identifier)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == conditions.TRANSACTION_ROLLBACK
    assert "queue 'small' is full" in (state.error.description or "")
    assert count(broker) == 0
    assert broker.hosts["/"].queues["small"].order.count == 0
    assert coordinator_of(peer).count == 0


async def test_durable_work_is_answered_when_it_is_on_disk(disk_broker: Broker) -> None:
    peer, link, sender = await prepared(disk_broker)
    identifier = await declare(peer, link)
    await peer.publish(sender, message(b"d", durable=True), state=TransactionalState(identifier))
    assert await discharge(peer, link, identifier) == ACCEPTED
    assert count(disk_broker) == 1


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (value("hello"), conditions.DECODE_ERROR),
        (message(), conditions.DECODE_ERROR),
        (value(Error("a:b")), conditions.NOT_IMPLEMENTED),
        (b"", conditions.DECODE_ERROR),
    ],
)
async def test_what_is_no_command_ends_the_link(broker: Broker, payload: bytes, condition: str) -> None:
    peer, link, _ = await prepared(broker)
    await peer.take()
    await peer.send(peer.transfer(link, payload))
    error = (await peer.one(Detach)).error
    assert error is not None
    assert error.condition == condition
    assert not peer.connection.engine.closed


def test_commands_are_read_from_a_value_section() -> None:
    assert read_command(value(Declare())) == Declare()
    assert read_command(value(Discharge(b"1", True))) == Discharge(b"1", True)
    with pytest.raises(DecodeError):
        read_command(message())


async def test_rejected_in_a_transaction_says_why_only_once_it_is_committed(broker: Broker) -> None:
    queue_of(broker, "dead")
    queue_of(broker, "strict", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    peer, link, _ = await prepared(broker)
    await peer.publish(await peer.sender("strict"), message(b"a"))
    await peer.receiver("strict", credit=1)
    (delivery,) = await peer.deliveries()
    rejected = Rejected(Error("com.example:broken", "no"))
    first, second = await declare(peer, link), await declare(peer, link)
    await enlist(peer, first, rejected, delivery, settled=False)
    await discharge(peer, link, first, fail=True)
    assert broker.hosts["/"].queues["dead"].order.count == 0
    await enlist(peer, second, rejected, delivery)
    await discharge(peer, link, second)
    await peer.receiver("dead", credit=1)
    (dead,) = [item for item in await peer.deliveries() if item.body == b"a"]
    assert {**dead.application, **dead.annotations}[REJECTED_CONDITION] == "com.example:broken"


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("state", ["the same", "released, outside of the transaction"])
async def test_what_is_settled_after_it_was_enlisted_comes_to_the_enlisted_outcome(
    broker: Broker, state: str, fail: bool
) -> None:
    peer, link, _ = await prepared(broker, b"a")
    await peer.receiver("q", credit=1)
    found = await peer.deliveries()
    identifier = await declare(peer, link)
    if state == "the same":
        await enlist(peer, identifier, Accepted(), *found, settled=False)
        await enlist(peer, identifier, Accepted(), *found)
    else:
        await enlist(peer, identifier, Accepted(), *found)
        await peer.settle(Released(), *found)
    assert await discharge(peer, link, identifier, fail=fail) == ACCEPTED
    assert (count(broker), held(broker)) == (int(fail), 0)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize("gone", ["link", "queue"])
async def test_what_is_enlisted_outlives_its_link(broker: Broker, gone: str, fail: bool, settled: bool) -> None:
    peer, link, _ = await prepared(broker, b"a")
    receiver = await peer.receiver("q", credit=1)
    found = await peer.deliveries()
    identifier = await declare(peer, link)
    await enlist(peer, identifier, Accepted(), *found, settled=settled)
    host = broker.hosts["/"]
    if gone == "link":
        await peer.detach(receiver)
    else:
        host.delete_queue(host.queues["q"], broker.clock())
    assert await discharge(peer, link, identifier, fail=fail) == ACCEPTED
    if gone == "link":
        assert (count(broker), held(broker)) == (int(fail), 0)
    assert len(peer.connection.channels[0].outcomes) == 0  # type: ignore[attr-defined]


async def test_a_refused_message_is_refused_as_part_of_its_transaction(broker: Broker) -> None:
    """§4.4.1: its presumptive outcome is told; the others can be committed."""
    peer, link, sender = await prepared(broker)
    identifier = await declare(peer, link)
    state = await peer.publish(sender, message(user_id=b"else"), state=TransactionalState(identifier))
    assert isinstance(state, TransactionalState)
    assert isinstance(state.outcome, Rejected)
    await peer.publish(sender, message(), state=TransactionalState(identifier))
    assert await discharge(peer, link, identifier) == ACCEPTED
    assert count(broker) == 1


async def test_a_refused_message_that_was_settled_forbids_the_commit(broker: Broker) -> None:
    """§4.4.4.1: there was no answer to tell it with."""
    peer, link, sender = await prepared(broker)
    identifier = await declare(peer, link)
    await peer.publish(sender, message(), state=TransactionalState(identifier))
    await peer.publish(sender, message(user_id=b"else"), state=TransactionalState(identifier), settled=True)
    state = await discharge(peer, link, identifier)
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == conditions.TRANSACTION_ROLLBACK
    assert "user-id" in (state.error.description or "")
    assert (count(broker), coordinator_of(peer).count) == (0, 0)


async def test_a_discharge_amid_a_message_ends_the_control_link(broker: Broker) -> None:
    """§4.4.1."""
    peer, link, sender = await prepared(broker)
    identifier = await declare(peer, link)
    await peer.send(peer.transfer(sender, message(), more=True, state=TransactionalState(identifier)))
    await peer.send(peer.transfer(link, value(Discharge(identifier, False))))
    (detach,) = await peer.all(Detach)
    assert (detach.handle, detach.error.condition) == (link.handle, conditions.TRANSACTION_ROLLBACK)  # type: ignore[union-attr]
    assert coordinator_of(peer).count == 0


async def test_an_outcome_in_two_transactions_ends_the_control_link(broker: Broker) -> None:
    """§4.4.2."""
    peer, link, _ = await prepared(broker, b"a")
    await peer.receiver("q", credit=1)
    found = await peer.deliveries()
    for _ in range(2):
        await enlist(peer, await declare(peer, link), Accepted(), *found, settled=False)
    (detach,) = await peer.all(Detach)
    assert (detach.handle, detach.error.condition) == (link.handle, conditions.TRANSACTION_ROLLBACK)  # type: ignore[union-attr]
    assert (count(broker), held(broker)) == (0, 1)  # rolled back: it is unsettled as before
    await peer.settle(ACCEPTED, *found)
    assert (count(broker), held(broker)) == (0, 0)


@pytest.mark.parametrize("content", [Declare(), Discharge(b"x")], ids=repr)
async def test_a_settled_command_ends_the_control_link(broker: Broker, content: Any) -> None:
    """§4.2, §4.3."""
    peer, link, _ = await prepared(broker)
    await peer.send(peer.transfer(link, value(content), settled=True))
    (detach,) = await peer.all(Detach)
    assert detach.error is not None
    assert detach.error.condition == conditions.NOT_ALLOWED
    assert coordinator_of(peer).count == 0


async def test_what_was_settled_in_a_rollback_comes_to_its_default_outcome(broker: Broker) -> None:
    """§4.4.4.2."""
    peer, link, _ = await prepared(broker, b"a")
    receiver = await peer.receiver(None, source=Source("q", default_outcome=Released()), credit=1)
    found = await peer.deliveries()
    identifier = await declare(peer, link)
    await enlist(peer, identifier, Accepted(), *found)
    await discharge(peer, link, identifier, fail=True)
    await peer.credit(receiver, 1)
    (again,) = await peer.deliveries()
    assert not again.header.delivery_count


@pytest.mark.parametrize("ends", [False, True], ids=["stays", "session ends"])
async def test_very_many_that_were_settled_in_a_rollback_go_back_together(broker: Broker, ends: bool) -> None:
    """They are looked for in slices: 60,000 held the event loop for 57 ms."""
    peer, link, _ = await prepared(broker)
    host, many = broker.hosts["/"], 2 * AT_ONCE_MAX + 1
    queue, route, origin = host.queues["q"], host.route("", "q"), Origin("", "q", "guest", VIEW)
    for _ in range(many):
        host.publisher.publish(Message(b"\x10\x00\x02", b"x", origin, durable=True), route, broker.clock())
    await peer.receiver("q", credit=many)
    while held(broker) < many:
        await peer.deliveries()
    identifier = await declare(peer, link)
    await peer.send(Disposition(True, 0, many - 1, True, TransactionalState(identifier, Accepted())))
    assert coordinator_of(peer).count == 1
    slices = broker.worker.slices
    await peer.send(peer.transfer(link, value(Discharge(identifier, True))))
    if ends:
        await peer.send(End())
    while broker.worker.waiting:
        await turns(1)
    assert broker.worker.slices - slices >= many // AT_ONCE_MAX
    assert (count(broker), held(broker)) == (many, 0)
    assert [entry.sequence for entry in queue.order.upcoming(many)] == list(range(1, many + 1))


async def test_transactional_acquisition_is_refused(broker: Broker) -> None:
    """§4.4.3."""
    peer, link, _ = await prepared(broker, b"a")
    identifier = await declare(peer, link)
    receiver = await peer.receiver("q")
    flow = Flow(0, 10, peer.transfers_sent[0], 10, receiver.handle, 0, 1, properties={"txn-id": identifier})
    await peer.send(flow)
    (detach,) = await peer.all(Detach)
    assert detach.error is not None
    assert (detach.handle, detach.error.condition) == (receiver.handle, conditions.NOT_IMPLEMENTED)
    assert count(broker) == 1


async def test_what_a_lost_control_link_rolls_back_is_not_for_links_that_end_with_it(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    link = await controller(peer)  # the first link of the session, so the first to end
    await peer.publish(await peer.sender("q"), message(b"a"))
    await peer.receiver("q", credit=5)
    found = await peer.deliveries()
    await enlist(peer, await declare(peer, link), Accepted(), *found)
    await peer.lose()
    assert (count(broker), held(broker)) == (1, 0)
