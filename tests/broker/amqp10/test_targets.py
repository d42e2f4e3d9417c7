from __future__ import annotations

from typing import Any

import pytest

from annulet import testing
from annulet.broker.amqp10.targets import LINK_CREDIT, REJECT_UNROUTABLE
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits
from annulet.core.base.typed_values import UnsignedLong
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.link_frames import Disposition, Flow
from annulet.wire.amqp10.frames.outcomes import Rejected
from annulet.wire.amqp10.frames.performatives import Detach, Source, Target
from annulet.wire.amqp10.frames.terminus import DURABLE_UNSETTLED_STATE
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp10.peer import ACCEPTED, MAX_FRAME_SIZE, Peer, bodies, message, permit, queue_of, value
from tests.broker.conftest import leave

KEEPS_UNSETTLED = Source("here", durable=DURABLE_UNSETTLED_STATE)


def count(broker: Broker, name: str = "q") -> int:
    return broker.hosts["/"].queues[name].order.count


def rejection(state: Any) -> tuple[str, str]:
    assert isinstance(state, Rejected), state
    assert state.error is not None
    return state.error.condition, state.error.description or ""


# ---------------------------------------------------------------------- where messages go


async def test_to_a_queue_by_its_name(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    assert sender.target.address == "q"
    assert sender.flows[-1].link_credit == LINK_CREDIT
    assert await peer.publish(sender, message(b"a")) == ACCEPTED
    assert count(broker) == 1


async def test_to_an_exchange_with_a_key_or_by_the_subject(broker: Broker) -> None:
    host = broker.hosts["/"]
    queue = queue_of(broker, "q")
    host.bind_queue(queue, "amq.topic", "orders.#", {})
    peer = await Peer(broker).open()
    with_key = await peer.sender("/exchanges/amq.topic/orders.new")
    assert await peer.publish(with_key, message(b"key")) == ACCEPTED
    without = await peer.sender("amq.topic")
    await peer.publish(without, message(b"subject", subject="orders.old"))
    await peer.publish(without, message(b"elsewhere", subject="bills.old"))
    await peer.publish(without, message(b"no subject"))
    await peer.receiver("q", credit=5)
    assert bodies(await peer.deliveries()) == [b"key", b"subject"]


async def test_to_one_queue_of_an_address(broker: Broker) -> None:
    host = broker.hosts["/"]
    for name in ("one", "two"):
        host.nodes.attach_queue(queue_of(broker, name), "prices", "anycast")
    peer = await Peer(broker).open()
    receivers = {name: await peer.receiver(f"prices::{name}", credit=5) for name in ("one", "two")}
    assert await peer.publish(await peer.sender("prices::two"), message(b"a")) == ACCEPTED
    (delivery,) = await peer.deliveries()
    assert receivers["two"].answer is not None
    assert delivery.handle == receivers["two"].answer.handle


async def test_an_unknown_name_is_made_as_the_address_settings_allow(broker: Broker) -> None:
    peer = await Peer(broker).open()
    sender = await peer.sender("fresh", target=Target("fresh", capabilities=["queue"]))
    assert await peer.publish(sender, message(b"a")) == ACCEPTED
    assert count(broker, "fresh") == 1


async def test_an_anonymous_terminus_goes_by_what_each_message_names(broker: Broker) -> None:
    for name in ("a", "b"):
        queue_of(broker, name)
    peer = await Peer(broker).open()
    for sender in (await peer.sender(None), await peer.attach("no target", receiver=False, source=Source("here"))):
        assert await peer.publish(sender, message(b"1", to="a")) == ACCEPTED
        assert await peer.publish(sender, message(b"2", to="b")) == ACCEPTED
        condition, text = rejection(await peer.publish(sender, message(b"3")))
        assert condition == conditions.INVALID_FIELD
        assert "properties.to" in text
    assert (count(broker, "a"), count(broker, "b")) == (2, 2)


async def test_what_may_not_be_written_or_made_is_refused(broker: Broker) -> None:
    host = broker.hosts["/"]
    host.nodes.declare_address("secret", ("anycast",), durable=False)
    host.nodes.declare_address("open", ("anycast",), durable=False)
    permit(broker, configure="^$", write="^open$")
    peer = await Peer(broker).open()
    for name in ("secret", "fresh"):
        error = await peer.refusal(await peer.sender(name))
        assert error.condition == conditions.UNAUTHORIZED_ACCESS
        assert f"'{name}'" in (error.description or "")
    anonymous = await peer.sender(None)
    condition, text = rejection(await peer.publish(anonymous, message(to="secret")))
    assert condition == conditions.UNAUTHORIZED_ACCESS
    assert "'secret'" in text
    assert await peer.publish(anonymous, message(to="open")) == ACCEPTED


async def test_a_queue_by_its_name_takes_permission_for_the_default_exchange(broker: Broker) -> None:
    queue_of(broker, "q")
    permit(broker, write="^q$")
    peer = await Peer(broker).open()
    error = await peer.refusal(await peer.sender("q"))
    assert error.condition == conditions.UNAUTHORIZED_ACCESS
    assert "'amq.default'" in (error.description or "")
    permit(broker, write="^amq.default$")
    assert await peer.publish(await peer.sender("q"), message()) == ACCEPTED


async def test_what_reaches_no_queue_is_accepted_unless_the_sender_asked(broker: Broker) -> None:
    peer = await Peer(broker).open()
    lenient = await peer.sender("/exchanges/amq.direct/nowhere")
    assert await peer.publish(lenient, message()) == ACCEPTED
    assert broker.unroutable == 1
    strict = await peer.sender("/exchanges/amq.direct/nowhere", desired_capabilities=[REJECT_UNROUTABLE])
    assert strict.answer is not None
    assert strict.answer.offered_capabilities == [REJECT_UNROUTABLE]
    condition, text = rejection(await peer.publish(strict, message()))
    assert condition == conditions.NOT_FOUND
    assert "no queue takes" in text
    assert broker.limit_refusals == 0


# ---------------------------------------------------------------------- messages


async def test_a_message_of_many_frames_arrives_whole(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open(max_frame_size=MAX_FRAME_SIZE)
    sender = await peer.sender("q")
    payload = message(bytes(range(256)) * 400)
    parts = [payload[start : start + 1000] for start in range(0, len(payload), 1000)]
    first = peer.transfer(sender, parts[0], more=True)
    number = peer.transfers_sent[0] - 1
    await peer.send(first)
    for part in parts[1:-1]:
        await peer.send(peer.continued(sender, part, more=True))
    assert count(broker) == 0
    await peer.send(peer.continued(sender, parts[-1]))
    assert [item.first for item in await peer.all(Disposition)] == [number]
    await peer.receiver("q", credit=1)
    assert bodies(await peer.deliveries()) == [bytes(range(256)) * 400]


async def test_an_aborted_message_never_was(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    await peer.send(peer.transfer(sender, message(b"half")[:4], more=True))
    await peer.send(peer.continued(sender, b"", aborted=True))
    assert await peer.all(Disposition) == []
    assert count(broker) == 0
    assert await peer.publish(sender, message(b"whole")) == ACCEPTED
    assert count(broker) == 1


async def test_a_message_too_large_ends_the_link(broker: Broker) -> None:
    async with testing.broker(http=False, limits=Limits(max_message_bytes=1000)) as running:
        queue_of(running.broker, "q")
        peer = await Peer(running.broker).open()
        sender = await peer.sender("q")
        assert sender.answer is not None
        assert sender.answer.max_message_size == 1000
        await peer.take()
        await peer.send(peer.transfer(sender, message(b"x" * 1000)))
        error = (await peer.one(Detach)).error
        assert error is not None
        assert error.condition == conditions.LINK_MESSAGE_SIZE_EXCEEDED
        assert not peer.connection.engine.closed
        leave(running.broker)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (message() + b"\xff", "octet"),
        (b"\x00\x53\x75", "octet"),
        (message(annotations={"x-opt-delivery-delay": "soon"}), "x-opt-delivery-delay"),
    ],
)
async def test_a_malformed_message_is_rejected_and_nothing_else(broker: Broker, payload: bytes, text: str) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    condition, told = rejection(await peer.publish(sender, payload))
    assert condition in {conditions.DECODE_ERROR, conditions.INVALID_FIELD}
    assert text in told
    assert await peer.publish(sender, message()) == ACCEPTED
    assert count(broker) == 1


async def test_other_message_formats_and_other_users_are_rejected(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    assert rejection(await peer.publish(sender, message(user_id=b"somebody")))[0] == conditions.UNAUTHORIZED_ACCESS
    assert await peer.publish(sender, message(user_id=b"guest")) == ACCEPTED
    number = peer.transfers_sent[0]
    peer.transfers_sent[0] += 1
    await peer.take()
    await peer.send(peer.transfer_as(sender, number, message(), message_format=7))
    (told,) = await peer.all(Disposition)
    assert "message-format is 7" in rejection(told.state)[1]


async def test_settled_messages_have_no_answer_and_a_refused_one_is_counted(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "reject-publish"})
    peer = await Peer(broker).open()
    sender = await peer.sender("small")
    for _ in range(3):
        await peer.publish(sender, message(), settled=True)
    assert await peer.all(Disposition) == []
    assert count(broker, "small") == 1
    assert broker.settled_losses == 2


async def test_a_full_queue_rejects_and_says_which(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 1, "x-overflow": "reject-publish"})
    peer = await Peer(broker).open()
    sender = await peer.sender("small")
    assert await peer.publish(sender, message()) == ACCEPTED
    condition, text = rejection(await peer.publish(sender, message()))
    assert condition == conditions.RESOURCE_LIMIT_EXCEEDED
    assert "'small'" in text


async def test_dispositions_of_a_burst_are_one(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    await peer.take()
    await peer.send(b"".join(peer.transfer(sender, message(b"%d" % number)) for number in range(100)))
    (told,) = await peer.all(Disposition)
    assert (told.first, told.last, told.settled, told.state) == (0, 99, True, ACCEPTED)


async def test_credit_is_renewed_before_it_is_used_up(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    for _ in range(3):
        await peer.send(b"".join(peer.transfer(sender, message(), settled=True) for _ in range(LINK_CREDIT // 2)))
        await peer.take()
    assert [item.link_credit for item in sender.flows] == [LINK_CREDIT] * 4
    assert count(broker) == 3 * (LINK_CREDIT // 2)


async def test_a_full_disk_rejects_what_is_durable(disk_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_of(disk_broker, "q")
    peer = await Peer(disk_broker).open()
    sender = await peer.sender("q")
    monkeypatch.setattr(disk_broker, "accepts_durable", lambda size, now: False)
    condition, text = rejection(await peer.publish(sender, message(durable=True)))
    assert condition == conditions.RESOURCE_LIMIT_EXCEEDED
    assert "disk" in text
    assert await peer.publish(sender, message(b"transient")) == ACCEPTED
    monkeypatch.undo()
    assert await peer.publish(sender, message(b"durable", durable=True)) == ACCEPTED
    assert count(disk_broker) == 2


async def test_scheduling_and_its_cancellation(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    later = {"x-opt-delivery-delay": 60_000, "x-opt-schedule-id": "s1"}
    assert await peer.publish(sender, message(b"later", annotations=later)) == ACCEPTED
    await peer.receiver("q", credit=5)
    assert await peer.deliveries() == []
    cancel = {"x-opt-schedule-id": "s1", "x-opt-schedule-cancel": True}
    assert await peer.publish(sender, message(b"", annotations=cancel)) == ACCEPTED
    assert broker.hosts["/"].queues["q"].order.count == 0


async def test_a_time_to_live_counts_from_acceptance() -> None:
    clock = VirtualClock()
    async with testing.broker(http=False, clock=clock) as running:
        queue_of(running.broker, "q")
        peer = await Peer(running.broker).open()
        sender = await peer.sender("q")
        await peer.publish(sender, message(b"short", ttl=1000))
        await peer.publish(sender, message(b"long", ttl=10_000))
        clock.advance(4000)
        await peer.receiver("q", credit=5)
        (delivery,) = await peer.deliveries()
        assert (delivery.body, delivery.header.ttl) == (b"long", 6000)
        leave(running.broker)


async def test_values_and_identifiers_of_every_type_come_back(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q")
    await peer.publish(sender, value({"k": [1, None, "t"]}))
    await peer.publish(sender, message(message_id=UnsignedLong(2**64 - 1), correlation_id=b"\0", group_id="g"))
    await peer.receiver("q", credit=5)
    first, second = await peer.deliveries()
    assert first.body == {"k": [1, None, "t"]}
    assert (second.properties.message_id, second.properties.correlation_id) == (2**64 - 1, b"\0")
    assert second.properties.group_id == "g"


# ---------------------------------------------------------------------- being held back


async def test_a_blocking_queue_takes_the_credit_away_and_gives_it_back(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 2, "x-overflow": "block"})
    queue_of(broker, "free")
    peer = await Peer(broker).open()
    sender, free = await peer.sender("small"), await peer.sender("free")
    for _ in range(2 * LINK_CREDIT // 3):
        await peer.publish(sender, message())
    renewals = len(sender.flows)
    for _ in range(LINK_CREDIT - 2 * LINK_CREDIT // 3):
        assert await peer.publish(sender, message()) == ACCEPTED  # what is on its way is taken
    assert len(sender.flows) == renewals  # no credit any more
    assert await peer.publish(free, message()) == ACCEPTED
    assert peer.transport.reading
    other = await Peer(broker).open()
    await other.receiver("small", credit=LINK_CREDIT)
    await other.settle(ACCEPTED, *await other.deliveries())
    await peer.take()
    assert sender.flows[-1].link_credit == LINK_CREDIT
    assert await peer.publish(sender, message()) == ACCEPTED


# ---------------------------------------------------------------------- resuming, §2.6.13


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, 0),
        ({"source": KEEPS_UNSETTLED}, 1),
        ({"target": Target("q", durable=DURABLE_UNSETTLED_STATE)}, 1),
        ({"unsettled": {b"tag": None}}, 1),
    ],
    ids=["plain", "source", "target", "resuming"],
)
async def test_second_is_for_senders_that_keep_unsettled_state(
    broker: Broker, fields: dict[str, Any], mode: int
) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", rcv_settle_mode=1, snd_settle_mode=0, **fields)
    assert sender.answer is not None
    assert (sender.answer.rcv_settle_mode, sender.answer.snd_settle_mode) == (mode, 0)


async def test_outcomes_that_were_not_seen_are_remembered_over_connections(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", name="link", rcv_settle_mode=1, snd_settle_mode=0, source=KEEPS_UNSETTLED)
    await peer.send(peer.transfer(sender, message(b"once"), delivery_tag=b"tag"))
    (told,) = await peer.all(Disposition)
    assert (told.settled, told.state) == (False, ACCEPTED)
    await peer.lose()
    again = await Peer(broker).open()
    sender = await again.sender("q", name="link", rcv_settle_mode=1, snd_settle_mode=0, unsettled={b"tag": None})
    assert sender.answer is not None
    assert sender.answer.unsettled == {b"tag": ACCEPTED}
    await again.send(again.transfer(sender, message(b"once"), delivery_tag=b"tag", resume=True))
    assert [item.state for item in await again.all(Disposition)] == [ACCEPTED]
    assert count(broker) == 1
    other = await Peer(broker, "another container").open()
    sender = await other.sender("q", name="link", rcv_settle_mode=1, unsettled={b"tag": None})
    assert sender.answer is not None
    assert not sender.answer.unsettled


async def test_a_closed_link_is_not_remembered(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", name="link", rcv_settle_mode=1, snd_settle_mode=0, source=KEEPS_UNSETTLED)
    await peer.send(peer.transfer(sender, message(), delivery_tag=b"tag"))
    await peer.detach(sender, closed=True)
    assert len(broker.remembered_outcomes) == 0


async def test_who_attaches_while_a_queue_blocks_gets_credit_when_there_is_room(broker: Broker) -> None:
    queue_of(broker, "small", {"x-max-length": 2, "x-overflow": "block"})
    peer, late, consumer = [await Peer(broker).open() for _ in range(3)]
    first = await peer.sender("small")
    for _ in range(5):
        await peer.publish(first, message())
    sender = await late.sender("small")
    assert await late.all(Flow) == []
    await consumer.receiver("small", credit=10)
    await consumer.settle(ACCEPTED, *await consumer.deliveries())
    (flow,) = await late.all(Flow)
    assert (flow.handle, flow.link_credit) == (sender.handle, LINK_CREDIT)


async def test_a_refused_link_forgets_no_outcomes(broker: Broker) -> None:
    queue_of(broker, "q")
    peer = await Peer(broker).open()
    sender = await peer.sender("q", name="link", rcv_settle_mode=1, snd_settle_mode=0, source=KEEPS_UNSETTLED)
    await peer.send(peer.transfer(sender, message(), delivery_tag=b"tag"))
    await peer.lose()
    again = await Peer(broker).open()
    permit(broker, write="")
    await again.refusal(await again.sender("q", name="link", rcv_settle_mode=1))
    permit(broker)
    sender = await again.sender("q", name="link", rcv_settle_mode=1, snd_settle_mode=0, unsettled={b"tag": None})
    assert sender.answer is not None
    assert sender.answer.unsettled == {b"tag": ACCEPTED}
