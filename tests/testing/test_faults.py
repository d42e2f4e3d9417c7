from __future__ import annotations

import threading
from collections.abc import Iterator

import aio_pika
import pika
import pika.exceptions
import pytest
import stomp
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties

import annulet.testing
from annulet.testing import ThreadedBroker
from tests.clients.below_pika import channel_below
from tests.testing.conftest import channel_of

LOST = (pika.exceptions.AMQPConnectionError, pika.exceptions.ChannelWrongStateError)
PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture
def lossy(broker: ThreadedBroker) -> Iterator[BlockingChannel]:
    """A channel whose connection the test may lose."""
    connection = pika.BlockingConnection(pika.URLParameters(f"{broker.amqp_url}/?heartbeat=10"))
    yield connection.channel()
    try:
        connection.close()
    except pika.exceptions.AMQPError as error:
        print(f"closed already: {error!r}")


def test_an_ack_that_is_lost_with_its_connection_means_a_second_delivery(
    broker: ThreadedBroker, lossy: BlockingChannel
) -> None:
    lossy.queue_declare("q")
    lossy.basic_publish("", "q", b"1")
    method, _, _ = lossy.basic_get("q")
    with broker.faults.drop(before="ack"):
        lossy.basic_ack(method.delivery_tag)
        with pytest.raises(LOST):
            lossy.queue_declare("q", passive=True)
    with channel_of(broker) as channel:
        method, _, _ = channel.basic_get("q", auto_ack=True)
        assert method.redelivered
    assert broker.story(b"1").count("fetched") == 2


def test_a_connection_is_cut_after_a_command_that_took_effect(broker: ThreadedBroker, lossy: BlockingChannel) -> None:
    lossy.queue_declare("q")
    with broker.faults.drop(after="publish"):
        lossy.basic_publish("", "q", b"1")
        with pytest.raises(LOST):
            lossy.queue_declare("q", passive=True)
    broker.require_published("q", count=1, body=b"1")


class Arrivals(stomp.ConnectionListener):
    """Keeps bodies; ``lost`` is set when the connection is gone."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.lost = threading.Event()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.bodies.append(frame.body)

    def on_disconnected(self) -> None:
        self.lost.set()


def test_a_delivery_arrives_before_the_cut_behind_it(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    arrivals = Arrivals()
    connection = stomp.Connection([broker.stomp_address], reconnect_attempts_max=1)
    connection.set_listener("", arrivals)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe("/queue/q", "1", ack="client")
    broker.settle()
    with broker.faults.drop(after="delivery"):
        channel.basic_publish("", "q", b"1")
        arrivals.lost.wait()
    assert arrivals.bodies == ["1"]
    assert broker.messages("q")[0].state == "pending"


def test_so_many_connections_are_cut_and_new_ones_too(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    with broker.faults.drop(before="queue.declare", times=2):
        for _ in range(2):
            with channel_of(broker) as doomed, pytest.raises(LOST):
                doomed.queue_declare("q")
        with channel_of(broker) as third:
            third.queue_declare("q")
    channel.queue_declare("q")


def test_a_chosen_client_is_cut_at_once_and_others_are_not(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    properties = {"connection_name": "worker"}
    with channel_of(broker, client_properties=properties) as worker:
        with broker.faults.drop(of="worker"), pytest.raises(LOST):
            worker.queue_declare("q")
        channel.queue_declare("q")


def test_a_half_open_connection_is_found_by_its_heart_beats(broker: ThreadedBroker, lossy: BlockingChannel) -> None:
    lossy.queue_declare("q")
    lossy.basic_publish("", "q", b"1")
    lossy.basic_get("q")
    with broker.faults.half_open():
        assert broker.messages("q")[0].state == "delivering"
        broker.clock.advance("15s")
        assert broker.messages("q")[0].state == "delivering"
        broker.clock.advance("30s")
        assert broker.messages("q")[0].state == "pending"


def test_the_end_of_a_half_open_block_cuts_the_connection(broker: ThreadedBroker, lossy: BlockingChannel) -> None:
    with broker.faults.half_open():
        broker.settle()
    with pytest.raises(LOST):
        lossy.queue_declare("q")


def test_a_delay_follows_the_clock(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    with broker.faults.delay("10s"):
        channel.basic_publish("", "q", b"1")
        broker.require_none("q")
        broker.clock.advance("10s")
        broker.require_published("q", count=1)
        channel.basic_publish("", "q", b"2")
    broker.require_published("q", count=2)


def test_a_confirm_is_withheld_until_the_end(broker: ThreadedBroker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.queue_declare("q")
    impl = channel_below(channel)
    confirmed: list[int] = []
    impl.confirm_delivery(lambda frame: confirmed.append(frame.method.delivery_tag), callback=lambda _: None)
    connection.process_data_events(1)
    with broker.faults.withhold("confirm"):
        channel.basic_publish("", "q", b"1")
        broker.require_published("q", count=1)
        connection.process_data_events(0)
        assert confirmed == []
    while not confirmed:
        connection.process_data_events(10)
    assert confirmed == [1]
    connection.close()


def test_a_command_may_be_lost_on_its_own(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    with broker.faults.lose("publish"):
        channel.basic_publish("", "q", b"1")
    channel.basic_publish("", "q", b"2")
    broker.require_published("q", count=1, body=b"2")


def test_a_publisher_hears_a_refusal_though_the_message_is_there(
    broker: ThreadedBroker, channel: BlockingChannel
) -> None:
    channel.queue_declare("q")
    channel.confirm_delivery()
    with broker.faults.nack(), pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "q", b"1")
    broker.require_published("q", count=1)
    channel.basic_publish("", "q", b"2")


def test_a_full_disk_refuses_persistent_messages_only(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    with broker.faults.full_disk():
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "q", b"1", PERSISTENT)
        channel.basic_publish("", "q", b"2")
    channel.basic_publish("", "q", b"3", PERSISTENT)
    assert [one.body for one in broker.messages("q")] == [b"2", b"3"]


def test_a_slow_disk_confirms_when_the_clock_was_moved(durable_broker: ThreadedBroker) -> None:
    broker = durable_broker
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    confirmed: list[int] = []
    channel_below(channel).confirm_delivery(
        lambda frame: confirmed.append(frame.method.delivery_tag), callback=lambda _: None
    )
    connection.process_data_events(1)
    with broker.faults.slow_disk("1m"):
        channel.basic_publish("", "q", b"1", PERSISTENT)
        broker.settle()
        connection.process_data_events(0)
        assert confirmed == []
        broker.clock.advance("1m")
        while not confirmed:
            connection.process_data_events(10)
    connection.close()


def test_a_slow_disk_needs_a_disk(broker: ThreadedBroker) -> None:
    with pytest.raises(ValueError, match="durable=True"), broker.faults.slow_disk("1s"):
        pass


def test_publishers_are_blocked_and_told(broker: ThreadedBroker) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    with broker.faults.block_publishers():
        while not told:
            connection.process_data_events(10)
        channel.basic_publish("", "q", b"2")
        broker.require_published("q", count=1)
    while len(told) < 2:
        connection.process_data_events(10)
    assert told == ["blocked", "unblocked"]
    broker.require_published("q", count=2)
    connection.close()


def test_publishers_are_reordered_among_each_other(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    with channel_of(broker) as other:
        with broker.faults.reorder():
            channel.basic_publish("", "q", b"a1")
            broker.settle()
            other.basic_publish("", "q", b"b1")
            broker.settle()
            channel.basic_publish("", "q", b"a2")
            broker.require_none("q")
        assert [one.body for one in broker.messages("q")] == [b"b1", b"a1", b"a2"]


def test_a_crash_keeps_what_was_confirmed_and_persistent(durable_broker: ThreadedBroker) -> None:
    broker = durable_broker
    with channel_of(broker) as channel:
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"kept", PERSISTENT)
        channel.basic_publish("", "q", b"transient")
        channel.basic_get("q")
        url, before = broker.amqp_url, broker.clock.now()
        broker.crash()
        with pytest.raises(LOST):
            channel.queue_declare("q", passive=True)
    assert broker.amqp_url == url
    assert broker.clock.now() >= before
    assert [one.body for one in broker.messages("q")] == [b"kept"]
    with channel_of(broker) as channel:
        method, _, body = channel.basic_get("q", auto_ack=True)
        assert (method.redelivered, body) == (True, b"kept")
    broker.crash()
    assert broker.messages("q") == []


def test_a_crash_in_memory_leaves_nothing_and_faults_stay(broker: ThreadedBroker, lossy: BlockingChannel) -> None:
    lossy.queue_declare("q", durable=True)
    stomp_url = broker.stomp_url
    with broker.faults.drop(before="queue.declare"):
        broker.crash()
        assert broker.stomp_url == stomp_url
        with channel_of(broker) as channel, pytest.raises(LOST):
            channel.queue_declare("q")


def test_faults_are_below_every_protocol(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    connection = stomp.Connection([broker.stomp_address], reconnect_attempts_max=1)
    connection.connect("guest", "guest", wait=True)
    with broker.faults.lose("publish"):
        connection.send("/queue/q", "1")
        broker.require_none("q")
    connection.send("/queue/q", "2")
    broker.require_published("q", count=1, body=b"2")
    connection.disconnect()


async def test_a_broker_in_the_loop_has_the_same_faults() -> None:
    async with annulet.testing.broker(http=False) as running:
        connection = await aio_pika.connect(running.amqp_url)
        channel = await connection.channel(publisher_confirms=False)
        await channel.declare_queue("q")
        async with running.faults.lose("publish"):
            await channel.default_exchange.publish(aio_pika.Message(b"1"), "q")
            await running.require_none("q")
        await channel.default_exchange.publish(aio_pika.Message(b"2"), "q")
        await running.require_published("q", count=1)
        with pytest.raises(TypeError, match="write `async with`"), running.faults.full_disk():
            pass
        await connection.close()


async def test_the_wrong_form_of_a_block_is_refused(broker: ThreadedBroker) -> None:
    with pytest.raises(TypeError, match="write `with`"):
        async with broker.faults.full_disk():
            pass


def test_an_unknown_command_is_refused_with_the_nearest_one(broker: ThreadedBroker) -> None:
    with pytest.raises(ValueError, match=r"no protocol has a command 'basic\.akc'; did you mean 'basic\.ack'"):
        broker.faults.drop(before="basic.akc")
    with pytest.raises(ValueError, match="take publish, delivery, ack, confirm"):
        broker.faults.withhold("0")


async def test_faults_of_time_need_the_clock_of_the_kit() -> None:
    async with annulet.testing.broker(http=False, clock=annulet.testing.VirtualClock()) as running:
        with pytest.raises(LookupError, match=r"clock=\.\.\."):
            async with running.faults.delay("1s"):
                pass
