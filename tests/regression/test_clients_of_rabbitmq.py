"""AMQP 0-9-1 clients that run on RabbitMQ run here: the inputs that failed, on a broker in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pamqp import commands, header

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.configuration.arguments import Arguments
from annulet.testing.clock import VirtualClock
from tests.broker.amqp091.peer import Peer, bodies, publish
from tests.broker.amqp10.peer import ACCEPTED, message
from tests.broker.amqp10.peer import Peer as Peer10
from tests.broker.stomp.peer import Peer as StompPeer

BASIC, QUEUE = commands.Basic, commands.Queue


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


def leave(broker: Broker) -> None:
    """Cut what a test left open: its peers do not answer connection.close, and stopping would wait for them."""
    for connection in list(broker.connections):
        connection.abort()


def advance(broker: Broker, milliseconds: int) -> None:
    """Let time pass, and do what has fallen due."""
    assert isinstance(broker.clock, VirtualClock)
    broker.hosts["/"].tick(broker.clock.advance(milliseconds))


def without_effect(broker: Broker) -> tuple[str, ...]:
    """Return the arguments of queue ``q`` that change nothing."""
    host = broker.hosts["/"]
    return host.resolved_for(host.queues["q"]).without_effect


async def test_celery_with_more_tasks_for_later_than_its_prefetch_gets_the_next_task(broker: Broker) -> None:
    """B11: a worker holds 20 ETA tasks with a prefetch of 8, and raises it by one for each."""
    peer = await Peer(broker).open(1, product="py-amqp")
    await peer.send(1, QUEUE.Declare(queue="tasks"), BASIC.Qos(0, 8), BASIC.Consume(queue="tasks"))
    held = 0
    for number in range(21):
        await peer.send(1, publish(1, "tasks", b"%d" % number))
        for body in bodies(await peer.take()):
            assert body == b"%d" % number
            held += 1
            await peer.send(1, BASIC.Qos(0, 8 + held))
    assert held == 21


@pytest.mark.parametrize(("product", "more"), [("py-amqp", 2), ("RabbitMQ", 0)])
async def test_a_pool_that_grows_gets_more_tasks_of_its_consumer(broker: Broker, product: str, more: int) -> None:
    """B11: Celery's ``pool_grow`` raises the prefetch of a consumer that is there; other clients mean later ones."""
    peer = await Peer(broker).open(1, product=product)
    await peer.send(1, QUEUE.Declare(queue="tasks"), BASIC.Qos(0, 2), BASIC.Consume(queue="tasks"))
    for number in range(10):
        await peer.send(1, publish(1, "tasks", b"%d" % number))
    assert bodies(await peer.take()) == [b"0", b"1"]
    await peer.send(1, BASIC.Qos(0, 4))
    assert len(bodies(await peer.take())) == more
    await peer.send(1, BASIC.Qos(0, 1), BASIC.Ack(delivery_tag=2, multiple=True))  # pool_shrink
    assert len(bodies(await peer.take())) == (0 if more else 2)


LEVELS = [(level, 2**level * 1000) for level in range(28)]
"""The delay levels of Celery and NServiceBus: binary digits of a delay in seconds, as milliseconds to live."""


async def test_queues_of_delay_levels_are_declared(broker: Broker) -> None:
    """B12: kombu's and NServiceBus's tree of queues; a level that was refused lost the tasks without a word."""
    peer = await Peer(broker).open(1)
    for level, milliseconds in LEVELS:
        declare = QUEUE.Declare(
            queue=f"delay-level-{level}",
            durable=True,
            arguments={
                "x-queue-type": "quorum",
                "x-overflow": "reject-publish",
                "x-dead-letter-strategy": "at-least-once",
                "x-dead-letter-exchange": f"delay-level-{level - 1}" if level else "delivery",
                "x-message-ttl": milliseconds,
            },
        )
        await peer.ask(1, declare, QUEUE.DeclareOk)
        queue = broker.hosts["/"].queues[f"delay-level-{level}"]
        assert (queue.settings.message_ttl, queue.settings.overflow) == (milliseconds, "reject")


TEN_YEARS = 315_360_000_000


@pytest.mark.parametrize("name", ["x-message-ttl", "x-expires"])
async def test_ten_years_are_the_longest_time_of_a_queue(broker: Broker, name: str) -> None:
    """B12: RabbitMQ's bound."""
    peer = await Peer(broker).open(1)
    await peer.ask(1, QUEUE.Declare(queue="longest", arguments={name: TEN_YEARS}), QUEUE.DeclareOk)
    longer = QUEUE.Declare(queue="longer", arguments={name: TEN_YEARS + 1})
    assert (await peer.ask(1, longer, commands.Channel.Close)).reply_code == 406


async def test_ten_years_are_the_longest_expiration_and_it_expires_then(broker: Broker) -> None:
    """B12: the expiration property has the same bound, and time to live counts to its end."""
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q"), publish(1, "q", expiration=str(TEN_YEARS)))
    queue = broker.hosts["/"].queues["q"]
    advance(broker, TEN_YEARS - 1)
    assert queue.order.count == 1
    advance(broker, 1)
    assert queue.statistics().messages_expired == 1
    await peer.send(1, publish(1, "q", expiration=str(TEN_YEARS + 1)))
    assert (await peer.one(commands.Channel.Close)).reply_code == 406


async def test_an_answer_comes_back_by_direct_reply_to(broker: Broker) -> None:
    """B13: what FastStream, NestJS, rabbitmq-client and tutorial 6 of RabbitMQ do."""
    client, server = await Peer(broker).open(1), await Peer(broker).open(1)
    await server.send(1, QUEUE.Declare(queue="rpc"), BASIC.Consume(queue="rpc", no_ack=True))
    await server.take()
    reply_to = "amq.rabbitmq.reply-to"
    await client.ask(1, QUEUE.Declare(queue=reply_to, passive=True), QUEUE.DeclareOk)
    await client.ask(1, BASIC.Consume(queue=reply_to, no_ack=True), BASIC.ConsumeOk)
    for number in range(3):
        await client.send(1, publish(1, "rpc", b"%d" % number, reply_to=reply_to, correlation_id=str(number)))
    requests = [item.properties for item in await server.take() if isinstance(item, header.ContentHeader)]
    for request in requests:
        answer = publish(1, request.reply_to, b"re", correlation_id=request.correlation_id, mandatory=True)
        await server.send(1, answer)
    assert await server.take() == []
    answers = [item.properties for item in await client.take() if isinstance(item, header.ContentHeader)]
    assert [answer.correlation_id for answer in answers] == ["0", "1", "2"]


@pytest.mark.parametrize("name", ["x-max-in-memory-length", "x-max-in-memory-bytes", "x-internal-purpose", "x-my-team"])
async def test_an_argument_that_changes_nothing_is_taken_and_listed(broker: Broker, name: str) -> None:
    """B14: RabbitMQ takes it; so does a second declaration without it."""
    peer = await Peer(broker).open(1)
    arguments = {"x-queue-type": "quorum", name: 1000}
    await peer.ask(1, QUEUE.Declare(queue="q", durable=True, arguments=arguments), QUEUE.DeclareOk)
    await peer.ask(1, QUEUE.Declare(queue="q", durable=True), QUEUE.DeclareOk)
    assert without_effect(broker) == (name,)


@pytest.mark.parametrize("arguments", [{"x-max-lenght": 5}, {"x-ringsize": 5}, {"x-max-priority": -1}], ids=str)
async def test_what_is_nearly_a_setting_is_refused(broker: Broker, arguments: dict[str, int]) -> None:
    """B14: a limit that is ignored loses messages."""
    peer = await Peer(broker).open(1)
    closed = await peer.ask(1, QUEUE.Declare(queue="q", arguments=arguments), commands.Channel.Close)
    assert closed.reply_code == 406
    assert "q" not in broker.hosts["/"].queues


async def test_arguments_without_effect_outlive_the_broker_that_took_them(tmp_path: Path) -> None:
    """B14: a broker told to refuse them keeps the queues that have some, and takes no new ones."""
    declare = QUEUE.Declare(queue="q", durable=True, arguments={"x-my-team": {"name": "payments", "size": [4, 5]}})
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        await (await Peer(running.broker).open(1)).ask(1, declare, QUEUE.DeclareOk)
        leave(running.broker)
    async with testing.broker(http=False, data_dir=tmp_path, unknown_arguments="refuse") as running:
        assert without_effect(running.broker) == ("x-my-team",)
        peer = await Peer(running.broker).open(1)
        closed = await peer.ask(1, QUEUE.Declare(queue="r", arguments={"x-my-team": 1}), commands.Channel.Close)
        assert (closed.reply_code, "unknown queue argument 'x-my-team'" in closed.reply_text) == (406, True)
        leave(running.broker)


# ---------------------------------------------------------------------- trails of deaths


def delay_levels(broker: Broker) -> None:
    """Have two queues that messages pass by expiring, the second from the first, and a third where they end."""
    host = broker.hosts["/"]
    for name, following in (("level-1", "level-0"), ("level-0", "work")):
        arguments: Arguments = {
            "x-message-ttl": 1000,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": following,
        }
        host.declare_queue(name, now=broker.clock(), arguments=arguments)
    host.declare_queue("work", now=broker.clock())


def wait_out(broker: Broker) -> int:
    """Let the two levels pass; return how many messages have come through."""
    for _ in range(2):
        advance(broker, 1000)
    return broker.hosts["/"].queues["work"].order.count


async def test_a_retry_with_the_trail_of_the_attempt_before_goes_through_the_same_queues(broker: Broker) -> None:
    """B21: Celery 5.5 sends the headers of the request along, and its delay queues were a cycle then."""
    delay_levels(broker)
    peer = await Peer(broker).open(1)
    await peer.send(1, publish(1, "level-1", b"task", headers={"mine": 1}))
    for attempt in range(3):
        assert wait_out(broker) == 1, attempt
        await peer.take()
        await peer.send(1, BASIC.Get(queue="work", no_ack=True))
        headers = (await peer.one(header.ContentHeader)).properties.headers
        assert [(death["queue"], death["count"]) for death in headers["x-death"]] == [("level-0", 1), ("level-1", 1)]
        assert (headers["mine"], headers["x-first-death-queue"], "x-death-given" in headers) == (1, "level-1", False)
        await peer.send(1, publish(1, "level-1", b"task", headers=headers))


async def test_a_trail_that_a_publisher_wrote_reaches_consumers_as_it_came(broker: Broker) -> None:
    """B21: applications count their attempts by it."""
    peer = await Peer(broker).open(1)
    trail = [{"queue": "q", "reason": "expired", "count": 4}]
    await peer.send(1, QUEUE.Declare(queue="q"), publish(1, "q", headers={"x-death": trail}))
    await peer.take()
    await peer.send(1, BASIC.Get(queue="q", no_ack=True))
    assert (await peer.one(header.ContentHeader)).properties.headers == {"x-death": trail, "x-death-given": True}


async def test_a_retry_by_stomp_goes_through_the_same_queues(broker: Broker) -> None:
    """B21, in another protocol."""
    delay_levels(broker)
    peer = await StompPeer(broker).open()
    await peer.request("SEND", {"destination": "/queue/level-1"}, b"task")
    for attempt in range(3):
        assert wait_out(broker) == 1, attempt
        await peer.send("SUBSCRIBE", {"destination": "/queue/work", "id": "1", "ack": "auto"})
        headers = (await peer.next("MESSAGE")).headers
        await peer.request("UNSUBSCRIBE", {"id": "1"})
        trail = {name: headers[name] for name in headers if "death" in name}
        await peer.request("SEND", {"destination": "/queue/level-1", **trail}, b"task")


async def test_a_retry_by_amqp_1_0_goes_through_the_same_queues(broker: Broker) -> None:
    """B21, in another protocol."""
    delay_levels(broker)
    peer = await Peer10(broker).open()
    sender, receiver = await peer.sender("level-1"), await peer.receiver("work")
    await peer.publish(sender, message(b"task"))
    for attempt in range(3):
        assert wait_out(broker) == 1, attempt
        await peer.credit(receiver, 1)
        (delivery,) = await peer.deliveries()
        trail = delivery.annotations["x-opt-deaths"]
        assert [death["queue"] for death in trail] == ["level-0", "level-1"]
        await peer.settle(ACCEPTED, delivery)
        await peer.publish(sender, message(b"task", annotations={"x-opt-deaths": trail}))


async def test_a_consumer_that_does_not_settle_is_ended_and_can_ask_for_more_time(broker: Broker) -> None:
    """B15: RabbitMQ's ``x-consumer-timeout``, with an extension that RabbitMQ does not have."""
    peer = await Peer(broker).open(1)
    await peer.send(1, QUEUE.Declare(queue="q", arguments={"x-consumer-timeout": 60_000}), publish(1, "q", b"task"))
    await peer.send(1, BASIC.Consume(queue="q"))
    assert bodies(await peer.take()) == [b"task"]
    for _ in range(6):
        for _ in range(10):
            advance(broker, 4000)
            broker.consumer_timeouts.tick(broker.clock())
        await peer.send(1, publish(1, "", headers={"x-extend-delivery": 1}))
    assert await peer.take() == []
    for _ in range(20):
        advance(broker, 5000)
        broker.consumer_timeouts.tick(broker.clock())
    assert (await peer.one(commands.Channel.Close)).reply_code == 406
    assert broker.hosts["/"].queues["q"].order.count == 1
