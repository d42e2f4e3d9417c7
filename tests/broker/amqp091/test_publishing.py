"""Publishing: what headers ask of the broker, refusals of full queues, publishers held back."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pamqp import commands, header

from annulet import testing
from annulet.broker.amqp091.channel import HELD_MILLISECONDS_MAX
from annulet.broker.amqp091.login import FLOW_PRODUCTS
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091 import peer as peers
from tests.broker.amqp091.peer import Peer, bodies, publish, settlements

BASIC, CHANNEL, CONNECTION, QUEUE, TX = (
    commands.Basic,
    commands.Channel,
    commands.Connection,
    commands.Queue,
    commands.Tx,
)


def advance(broker: Broker, milliseconds: int) -> None:
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(milliseconds)


async def declared(broker: Broker, *, confirming: bool = False, **arguments: Any) -> Peer:
    """Return a client with channel 1, and 2 where something else may happen, and a queue ``q``."""
    peer = await Peer(broker).open(1, 2)
    await peer.send(1, QUEUE.Declare(queue="q", arguments=arguments))
    if confirming:
        await peer.send(1, commands.Confirm.Select())
    await peer.take()
    return peer


async def contents(peer: Peer, queue: str = "q") -> list[bytes]:
    taken = []
    while True:
        await peer.send(2, BASIC.Get(queue=queue, no_ack=True))
        found = bodies(await peer.take())
        if not found:
            return taken
        taken += found


async def closed(peer: Peer) -> CHANNEL.Close:
    return await peer.one(CHANNEL.Close)


# ---------------------------------------------------------------------- what headers ask


async def test_a_delayed_message_waits_for_its_time(broker: Broker) -> None:
    peer = await declared(broker)
    await peer.send(1, publish(1, "q", b"later", headers={"x-delay": 500}), publish(1, "q", b"now"))
    assert await contents(peer) == [b"now"]
    advance(broker, 500)
    broker.hosts["/"].tick(broker.clock())
    assert await contents(peer) == [b"later"]


def cancelling(name: str) -> dict[str, Any]:
    return {"x-schedule-id": name, "x-schedule-cancel": True}


async def test_a_sender_takes_back_what_it_scheduled(broker: Broker) -> None:
    peer = await declared(broker, confirming=True)
    queue = broker.hosts["/"].queues["q"]
    for name in ("first", "second"):
        await peer.send(1, publish(1, "q", name.encode(), headers={"x-delay": 500, "x-schedule-id": name}))
    await peer.send(1, publish(1, "q", headers=cancelling("first")), publish(1, "q", headers=cancelling("unknown")))
    await peer.send(1, publish(1, "nowhere", headers=cancelling("first"), mandatory=True))
    answers = await peer.take()
    answered = settlements(answers)
    assert {kind for kind, _, _ in answered} == {"ack"}
    assert answered[-1][1] == 5
    assert not any(isinstance(frame, BASIC.Return) for frame in answers)
    assert queue.statistics().removed == {"deleted": 1}
    assert queue.counters.messages_added == 2
    advance(broker, 500)
    broker.hosts["/"].tick(broker.clock())
    assert await contents(peer) == [b"second"]


async def test_what_was_taken_back_is_gone_after_a_crash_that_follows_the_confirm(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True), commands.Confirm.Select())
        for name in ("kept", "gone"):
            await peer.send(1, peers.persistent(1, "q", headers={"x-delay": 60_000, "x-schedule-id": name}))
        await running.broker.commit.durable()
        await peer.take()
        disk = threading.Event()
        running.broker.commit._executor.submit(disk.wait, 10)  # seconds at most, should this fail
        await peer.send(1, publish(1, "q", headers=cancelling("gone")))
        assert settlements(await peer.take()) == [], "the removal is not on disk yet"
        disk.set()
        await running.broker.commit.durable()
        assert [tag for _, tag, _ in settlements(await peer.take())] == [3]
        shutil.copytree(data, copy)
        await peer.send(0, CONNECTION.Close(200, "", 0, 0))
    for directory in (data, copy):
        async with testing.broker(http=False, data_dir=directory) as running:
            schedule = running.broker.hosts["/"].queues["q"].schedule
            assert (schedule.count, schedule.named("kept") is not None) == (1, True)


async def test_a_transaction_takes_back_at_its_commit_what_it_scheduled_too(broker: Broker) -> None:
    peer = await declared(broker)
    schedule = broker.hosts["/"].queues["q"].schedule
    await peer.send(1, publish(1, "q", headers={"x-delay": 500, "x-schedule-id": "before"}), TX.Select())
    await peer.send(1, publish(1, "q", headers=cancelling("before")), TX.Rollback())
    assert schedule.named("before") is not None
    await peer.send(1, publish(1, "q", headers={"x-delay": 500, "x-schedule-id": "inside"}))
    await peer.send(1, publish(1, "q", headers=cancelling("inside")), publish(1, "q", headers=cancelling("before")))
    assert schedule.named("before") is not None
    await peer.send(1, TX.Commit())
    assert schedule.count == 0


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"x-delay": "soon"}, "invalid header 'x-delay': 'soon'"),
        ({"CC": "key"}, "invalid header 'CC'"),
        ({"x-schedule-cancel": True}, "give the name of the message to take back in 'x-schedule-id'"),
        ({"x-duplicate-id": 5}, "invalid header 'x-duplicate-id'"),
    ],
)
async def test_a_header_of_the_wrong_type_closes_the_channel(
    broker: Broker, headers: dict[str, Any], words: str
) -> None:
    peer = await declared(broker)
    await peer.send(1, publish(1, "q", headers=headers))
    close = await closed(peer)
    assert close.reply_code == 406
    assert words in close.reply_text


async def test_a_duplicate_is_confirmed_and_goes_nowhere(broker: Broker) -> None:
    peer = await declared(broker, confirming=True)
    for content in (b"first", b"again"):
        await peer.send(1, publish(1, "q", content, headers={"_AMQ_DUPL_ID": "id-1"}))
    assert settlements(await peer.take()) == [("ack", 1, False), ("ack", 2, False)]
    assert await contents(peer) == [b"first"]
    assert broker.hosts["/"].publisher.duplicates_dropped == 1


async def test_further_routing_keys_reach_their_queues_and_blind_ones_are_not_shown(broker: Broker) -> None:
    peer = await declared(broker)
    await peer.send(1, QUEUE.Declare(queue="copy"), QUEUE.Declare(queue="blind"))
    headers = {"CC": ["copy", "copy"], "BCC": ["blind"], "other": 1}
    for _ in range(2):  # the second time the header is known
        await peer.take()
        await peer.send(1, publish(1, "q", headers=headers))
        for queue in ("q", "copy", "blind"):
            await peer.take()
            await peer.send(2, BASIC.Get(queue=queue, no_ack=True))
            found = await peer.one(header.ContentHeader)
            assert found.properties.headers == {"CC": ["copy", "copy"], "other": 1}
        assert await contents(peer, "copy") == []


# ---------------------------------------------------------------------- refusals


async def test_a_full_queue_refuses_by_nack(broker: Broker) -> None:
    peer = await declared(broker, confirming=True, **{"x-max-length": 1, "x-overflow": "reject"})
    await peer.send(1, publish(1, "q", b"1"), publish(1, "q", b"2", mandatory=True), publish(1, "elsewhere"))
    assert settlements(await peer.take()) == [("ack", 1, False), ("nack", 2, False), ("ack", 3, False)]
    assert await contents(peer) == [b"1"]


async def test_without_confirms_a_mandatory_message_comes_back_and_others_are_counted(broker: Broker) -> None:
    peer = await declared(broker, **{"x-max-length": 1, "x-overflow": "reject"})
    await peer.send(1, publish(1, "q", b"1"), publish(1, "q", b"2"), publish(1, "q", b"3", mandatory=True))
    frames = await peer.take()
    [returned] = [item for item in frames if isinstance(item, BASIC.Return)]
    assert returned.reply_code == 506
    assert "queue 'q' is full" in returned.reply_text
    assert bodies(frames) == [b"3"]
    assert broker.limit_refusals == 2


async def test_one_full_queue_refuses_for_all(broker: Broker) -> None:
    peer = await declared(broker, confirming=True, **{"x-max-length": 0, "x-overflow": "reject"})
    await peer.send(1, QUEUE.Declare(queue="other"), publish(1, "other", headers={"CC": ["q"]}))
    assert settlements(await peer.take()) == [("nack", 1, False)]
    assert await contents(peer, "other") == []


@pytest.mark.parametrize(
    ("arguments", "headers", "words"),
    [
        ({"x-max-length": 1, "x-overflow": "reject"}, [None, None], "send 2: queue 'q' is full"),
        ({}, [{"x-duplicate-id": "a"}, {"x-duplicate-id": "a"}], "duplicate id 'a'"),
    ],
)
async def test_a_refused_transaction_does_nothing(
    broker: Broker, arguments: dict[str, Any], headers: list[Any], words: str
) -> None:
    peer = await declared(broker, **arguments)
    await peer.send(1, TX.Select(), *(publish(1, "q", headers=value) for value in headers), TX.Commit())
    close = await closed(peer)
    assert close.reply_code == 406
    assert words in close.reply_text
    assert await contents(peer) == []


# ---------------------------------------------------------------------- held back

BLOCK = {"x-max-length": 5, "x-overflow": "block"}


async def test_who_only_publishes_is_not_read_until_there_is_room(broker: Broker) -> None:
    peer = await declared(broker, **BLOCK)
    await peer.send(1, *(publish(1, "q", bytes([number])) for number in range(6)))  # the sixth is let in
    told = await peer.one(CONNECTION.Blocked)
    assert told.reason == "queue 'q' full"
    assert not peer.transport.reading
    other = await Peer(broker).open(2)
    await other.send(2, BASIC.Get(queue="q", no_ack=True))
    assert not peer.transport.reading  # 5 are not yet the 80 percent at which it opens
    await other.send(2, BASIC.Get(queue="q", no_ack=True))
    await peer.one(CONNECTION.Unblocked)
    assert peer.transport.reading


async def test_who_also_consumes_is_told_and_ends_when_it_goes_on(broker: Broker) -> None:
    peer = await declared(broker, **BLOCK)
    await peer.send(2, QUEUE.Declare(queue="mine"), BASIC.Consume(queue="mine"))
    await peer.send(1, *(publish(1, "q") for _ in range(6)))
    await peer.one(CONNECTION.Blocked)
    assert peer.transport.reading
    advance(broker, HELD_MILLISECONDS_MAX - 1)
    await peer.send(1, publish(1, "q"))
    advance(broker, 1)
    await peer.send(1, publish(1, "mine"))  # is not what is blocked
    assert CHANNEL.Close not in [type(item) for item in await peer.take()]
    await peer.send(1, publish(1, "q"))
    close = await closed(peer)
    assert close.reply_code == 311
    assert "queue 'q' is full" in close.reply_text
    assert broker.hosts["/"].queues["q"].order.count == 7


async def test_a_client_that_obeys_flow_is_told_by_channel(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers.CLIENT_PROPERTIES, "product", FLOW_PRODUCTS[0])
    peer = await declared(broker, **BLOCK)
    await peer.send(1, *(publish(1, "q") for _ in range(6)))
    assert (await peer.one(CHANNEL.Flow)).active is False
    await peer.send(1, CHANNEL.FlowOk(False))
    assert peer.transport.reading
    await peer.send(2, QUEUE.Purge(queue="q"))
    assert (await peer.one(CHANNEL.Flow)).active is True


async def test_deleting_the_queue_lets_its_publishers_go_on(broker: Broker) -> None:
    peer = await declared(broker, **BLOCK)
    await peer.send(1, *(publish(1, "q") for _ in range(6)))
    assert not peer.transport.reading
    other = await Peer(broker).open(1)
    await other.send(1, QUEUE.Delete(queue="q"))
    assert peer.transport.reading
    assert not broker.blocked["/"].any


async def test_a_transaction_that_fills_the_queue_is_held_back_too(broker: Broker) -> None:
    peer = await declared(broker, **BLOCK)
    await peer.send(1, TX.Select(), *(publish(1, "q") for _ in range(6)), TX.Commit())
    await peer.one(CONNECTION.Blocked)


async def test_a_channel_that_ends_is_held_back_no_more(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers.CLIENT_PROPERTIES, "product", FLOW_PRODUCTS[0])
    peer = await declared(broker, **BLOCK)
    await peer.send(1, *(publish(1, "q") for _ in range(6)))
    [target] = broker.blocked["/"].queues.values()
    assert len(target.publishers) == 1
    await peer.send(1, CHANNEL.Close(200, "", 0, 0))
    assert target.publishers == {}


async def test_an_address_that_blocks_holds_its_publishers(broker: Broker) -> None:
    host = broker.hosts["/"]
    host.address_settings.set("news", {"max-size-messages": 2, "address-full-policy": "BLOCK"})
    host.nodes.declare_address("news")
    peer = await declared(broker)
    await peer.send(1, QUEUE.Bind(queue="q", exchange="news"))
    await peer.send(1, publish(1, "", exchange="news"), publish(1, "", exchange="news"))
    assert (await peer.one(CONNECTION.Blocked)).reason == "address 'news' full"
    host.queues["q"].purge(broker.clock())
    await peer.one(CONNECTION.Unblocked)


@pytest.mark.parametrize("way", ["transaction", "CC"])
async def test_an_address_that_blocks_holds_whatever_way_its_messages_came(broker: Broker, way: str) -> None:
    broker.hosts["/"].address_settings.set("q", {"max-size-messages": 2, "address-full-policy": "BLOCK"})
    peer = await declared(broker)
    if way == "CC":
        await peer.send(1, *(publish(1, "q", headers={"CC": ["nowhere"]}) for _ in range(2)))
    else:
        await peer.send(1, TX.Select(), publish(1, "q"), publish(1, "q"), TX.Commit())
    assert (await peer.one(CONNECTION.Blocked)).reason == "address 'q' full"


async def test_what_a_rolled_back_transaction_meant_to_send_holds_nobody(broker: Broker) -> None:
    broker.hosts["/"].address_settings.set("q", {"max-size-messages": 1, "address-full-policy": "BLOCK"})
    other = await Peer(broker).open(1)
    peer = await declared(broker)
    await other.send(1, publish(1, "q"))
    await peer.send(1, TX.Select(), publish(1, "q"), TX.Rollback(), publish(1, "elsewhere"), TX.Commit())
    assert CONNECTION.Blocked not in [type(item) for item in await peer.take()]


@pytest.mark.parametrize("free", [True, False])
async def test_only_who_goes_on_into_what_is_full_ends(broker: Broker, free: bool) -> None:
    """Other queues are open to a channel that was told to stop, those too whose way is decided by the message."""
    peer = await declared(broker, **BLOCK)
    await peer.send(2, QUEUE.Declare(queue="mine", arguments={"x-max-length": 9, "x-overflow": "reject"}))
    await peer.send(2, BASIC.Consume(queue="mine"))
    for queue in ("mine", "q"):
        arguments = {"x-match": "all", "for": queue}
        await peer.send(2, QUEUE.Bind(queue=queue, exchange="amq.headers", arguments=arguments))
    await peer.send(1, *(publish(1, "q") for _ in range(6)))
    advance(broker, HELD_MILLISECONDS_MAX)
    await peer.take()
    if free:
        await peer.send(1, publish(1, "mine"), publish(1, "", exchange="amq.headers", headers={"for": "mine"}))
        assert CHANNEL.Close not in [type(item) for item in await peer.take()]
    else:
        await peer.send(1, publish(1, "", exchange="amq.headers", headers={"for": "q"}))
        close = await closed(peer)
        assert close.reply_code == 311
        assert "queue 'q' is full" in close.reply_text
