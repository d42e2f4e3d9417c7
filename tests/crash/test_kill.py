"""kill -9 of a broker under load, again and again: nothing confirmed is lost, nothing settled comes back."""

from __future__ import annotations

import random

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, bodies
from tests.crash.workload import PERSISTENT, Client, Consumer, Producer, contents, decode, encode

ROUNDS = 6
ROUNDS_SOAK = 60


def kill_under_load(process: BrokerProcess, moments: random.Random, producer: Producer, *others: Client) -> None:
    """Run the clients, kill the broker after a random number of confirms and a random moment more."""
    producer.wanted = moments.randint(1, 600)
    clients = [producer, *others]
    for client in clients:
        client.start()
    assert producer.enough.wait(PATIENCE_SECONDS), (producer.failure, process.log_end())
    producer.join(moments.random() * 0.02)  # not a wait for anything: it moves the kill off the confirm
    for client in clients:
        client.expect_death()
    process.kill()
    for client in clients:
        client.join(PATIENCE_SECONDS)
        assert not client.is_alive()
        assert client.failure is None, client.failure


def kill_rounds(process: BrokerProcess, scene: Scene, moments: random.Random, rounds: int) -> None:
    """One queue is consumed, one only filled, both get every message."""
    channel = scene.channel()
    channel.exchange_declare("both", "fanout", durable=True)
    for queue in ("work", "copy", "markers"):
        channel.queue_declare(queue, durable=True)
    for queue in ("work", "copy"):
        channel.queue_bind(queue, "both")
    channel.connection.close()
    peer = scene.peer
    sent = 0
    confirmed: set[int] = set()
    acknowledged: set[int] = set()
    settled: set[int] = set()
    for _ in range(rounds):
        producer = Producer(peer, "both", [""], sent)
        consumer = Consumer(peer, "work", "markers")
        kill_under_load(process, moments, producer, consumer)
        sent = producer.sent
        confirmed |= producer.confirmed
        acknowledged |= consumer.acknowledged
        settled |= consumer.settled
        process.start()
        channel = scene.channel()
        work = [number for number, _ in contents(channel, "work")]
        assert work == sorted(set(work)), "out of order or twice"
        assert confirmed - acknowledged <= set(work), "a confirmed message is lost"
        assert not settled & set(work), "a settled message came back"
        assert set(work) <= set(range(sent))
        copy = [number for number, _ in contents(channel, "copy")]
        assert copy == sorted(set(copy)), "out of order or twice"
        assert confirmed <= set(copy), "a confirmed message is lost"
        channel.queue_purge("markers")
        channel.connection.close()
    assert confirmed
    assert settled


def test_confirmed_messages_survive_and_settled_ones_do_not_come_back(
    process: BrokerProcess, scene: Scene, moments: random.Random
) -> None:
    kill_rounds(process, scene, moments, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_same_for_many_rounds(process: BrokerProcess, scene: Scene, moments: random.Random) -> None:
    kill_rounds(process, scene, moments, ROUNDS_SOAK)


class Batches(Client):
    """Sends ten numbers a transaction and takes ten from another queue in the same one."""

    SIZE = 10

    def __init__(self, peer: Peer, first: int) -> None:
        super().__init__(peer)
        self.sent = first  # transactions begun
        self.first = first
        self.committed: set[int] = set()  # commit-ok came

    def work(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        channel.tx_select()
        while not self.stopping.is_set():
            batch = self.sent
            self.sent += 1
            for number in range(batch * self.SIZE, (batch + 1) * self.SIZE):
                channel.basic_publish("", "target", encode(number), PERSISTENT)
                method, _, body = channel.basic_get("source")
                assert method is not None
                assert decode(body) == number
                channel.basic_ack(method.delivery_tag)
            channel.tx_commit()
            self.committed.add(batch)


def test_transactions_are_whole_or_absent(process: BrokerProcess, scene: Scene, moments: random.Random) -> None:
    """Each moves ten messages: after a crash every number is in exactly one of the two queues, by tens."""
    channel = scene.channel()
    for queue in ("source", "target"):
        channel.queue_declare(queue, durable=True)
    channel.tx_select()
    count = 4000
    for number in range(count):
        channel.basic_publish("", "source", encode(number), PERSISTENT)
    channel.tx_commit()
    channel.connection.close()
    begun = 0
    for _ in range(3):
        batches = Batches(scene.peer, begun)
        batches.start()
        batches.join(0.05 + moments.random() * 0.3)  # a random moment, not a wait
        batches.expect_death()
        process.kill()
        batches.join(PATIENCE_SECONDS)
        assert batches.failure is None, batches.failure
        process.start()
        channel = scene.channel()
        target = [number for number, _ in contents(channel, "target")]
        source = [number for number, _ in contents(channel, "source")]
        assert target + source == list(range(count))
        assert len(target) % Batches.SIZE == 0, "half a transaction"
        begun = len(target) // Batches.SIZE
        assert begun >= max(batches.committed, default=-1) + 1, "a committed transaction is lost"
        channel.connection.close()
    assert begun > 0


class KeyedProducer(Producer):
    """Gives each message the key ``number % 7``."""

    def properties(self, number: int) -> pika.BasicProperties:
        return pika.BasicProperties(delivery_mode=2, headers={"key": number % 7})


@pytest.mark.parametrize("arguments", [{"x-ring-size": 10}, {"x-last-value-key": "key"}], ids=["ring", "last-value"])
def test_limits_hold_after_a_crash(
    process: BrokerProcess, scene: Scene, moments: random.Random, arguments: dict[str, object]
) -> None:
    """What is there are the last messages up to one that is not older than the last confirmed one."""
    channel = scene.channel()
    channel.queue_declare("kept", durable=True, arguments=arguments)
    channel.connection.close()
    sent = 0
    kept_count = 10 if "x-ring-size" in arguments else 7
    for _ in range(3):
        producer = KeyedProducer(scene.peer, "", ["kept"], sent)
        kill_under_load(process, moments, producer)
        process.start()
        channel = scene.channel()
        kept = sorted(number for number, _ in contents(channel, "kept"))
        last = max(kept)
        assert last >= max(producer.confirmed)
        assert kept == list(range(max(0, last - kept_count + 1), last + 1))
        # Recovered limits are limits of the running queue too.
        more = [producer.sent + number for number in range(20)]
        channel.confirm_delivery()
        for number in more:
            channel.basic_publish(
                "", "kept", encode(number), pika.BasicProperties(delivery_mode=2, headers={"key": number % 7})
            )
        assert sorted(number for number, _ in contents(channel, "kept")) == more[-kept_count:]
        sent = more[-1] + 1
        channel.connection.close()


def test_what_was_delivered_and_not_acknowledged_comes_back(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("held", durable=True)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", "held", encode(number), PERSISTENT)
    for _ in range(5):
        channel.basic_get("held")
    process.restart()
    assert [number for number, _ in contents(scene.channel(), "held")] == list(range(10))


def test_non_persistent_messages_and_queues_go(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("durable", durable=True)
    channel.queue_declare("transient")
    channel.confirm_delivery()
    channel.basic_publish("", "durable", encode(1))
    channel.basic_publish("", "transient", encode(2), PERSISTENT)
    channel.basic_publish("", "durable", encode(3), PERSISTENT)
    process.restart()
    channel = scene.channel()
    assert [number for number, _ in contents(channel, "durable")] == [3]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        channel.queue_declare("transient", passive=True)


def test_definitions_survive(process: BrokerProcess, scene: Scene) -> None:
    """Durable exchanges, queues with their arguments and bindings with theirs; deleted ones do not come back."""
    channel = scene.channel()
    channel.exchange_declare("unrouted", "fanout", durable=True)
    channel.exchange_declare("orders", "topic", durable=True, arguments={"alternate-exchange": "unrouted"})
    channel.exchange_declare("blue", "headers", durable=True)
    channel.exchange_declare("transient", "fanout")
    channel.exchange_declare("deleted", "fanout", durable=True)
    channel.queue_declare("all", durable=True, arguments={"x-ring-size": 5, "x-message-ttl": 600_000})
    channel.queue_declare("blues", durable=True)
    channel.queue_declare("rest", durable=True)
    channel.queue_declare("deleted", durable=True)
    channel.queue_bind("all", "orders", "orders.#")
    channel.queue_bind("rest", "unrouted")
    channel.queue_bind("rest", "orders", "unbound.*")
    channel.exchange_bind("blue", "orders", "orders.*")
    channel.queue_bind("blues", "blue", "", {"x-match": "any", "colour": "blue", "raw": b"\x00\xff"})
    channel.queue_unbind("rest", "orders", "unbound.*")
    channel.exchange_delete("deleted")
    channel.queue_delete("deleted")
    process.restart()

    channel = scene.channel()
    channel.exchange_declare("orders", "topic", durable=True, arguments={"alternate-exchange": "unrouted"})
    channel.queue_declare("all", durable=True, arguments={"x-ring-size": 5, "x-message-ttl": 600_000})
    channel.confirm_delivery()
    channel.basic_publish("orders", "orders.new", b"blue", pika.BasicProperties(headers={"colour": "blue"}))
    channel.basic_publish("orders", "orders.new", b"red", pika.BasicProperties(headers={"colour": "red"}))
    channel.basic_publish("orders", "unbound.x", b"unrouted", mandatory=True)
    assert bodies(channel, "all") == [b"blue", b"red"]
    assert bodies(channel, "blues") == [b"blue"]
    assert bodies(channel, "rest") == [b"unrouted"]
    for name in ("transient", "deleted"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            scene.channel().exchange_declare(name, passive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        scene.channel().queue_declare("deleted", passive=True)


def test_a_purge_and_a_deletion_are_for_good(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.confirm_delivery()
    for queue in ("purged", "remade"):
        channel.queue_declare(queue, durable=True)
        for number in range(20):
            channel.basic_publish("", queue, encode(number), PERSISTENT)
    channel.queue_purge("purged")
    channel.queue_delete("remade")
    channel.queue_declare("remade", durable=True)
    channel.basic_publish("", "purged", encode(100), PERSISTENT)
    channel.basic_publish("", "remade", encode(200), PERSISTENT)
    process.restart()
    channel = scene.channel()
    assert [number for number, _ in contents(channel, "purged")] == [100]
    assert [number for number, _ in contents(channel, "remade")] == [200]
