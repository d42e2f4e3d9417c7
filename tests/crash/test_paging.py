"""kill -9 of a broker whose queue is mostly on disk: paging changes nothing about what is promised."""

from __future__ import annotations

import base64
import json
import random
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from tests.broker_process import BrokerProcess
from tests.clients.support import Scene, deliveries, depth, wait_until
from tests.crash.test_kill import kill_under_load
from tests.crash.workload import PERSISTENT, Consumer, Producer, contents, decode, encode

WORK = "/api/v1/queues/%2F/work"
BACKLOG = 4000
ROUNDS = 2
ROUNDS_SOAK = 40


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that keeps hardly more than a queue's front in memory."""
    with BrokerProcess(tmp_path / "data", "--body-budget", "1MiB") as process:
        yield process


def paged(process: BrokerProcess) -> int:
    return int(process.get(WORK)["messages_paged"])


def kill_rounds(process: BrokerProcess, scene: Scene, moments: random.Random, rounds: int) -> None:
    channel = scene.channel()
    for queue in ("work", "markers"):
        channel.queue_declare(queue, durable=True)
    for number in range(BACKLOG - 1):
        channel.basic_publish("", "work", encode(number), PERSISTENT)
    channel.confirm_delivery()
    channel.basic_publish("", "work", encode(BACKLOG - 1), PERSISTENT)
    channel.connection.close()
    assert paged(process) > 0
    sent = BACKLOG
    confirmed = set(range(BACKLOG))
    acknowledged: set[int] = set()
    settled: set[int] = set()
    for _ in range(rounds):
        producer = Producer(scene.peer, "", ["work"], sent)
        consumer = Consumer(scene.peer, "work", "markers", batch=5)  # slow, so that the queue stays deep
        kill_under_load(process, moments, producer, consumer)
        sent = producer.sent
        confirmed |= producer.confirmed
        acknowledged |= consumer.acknowledged
        settled |= consumer.settled
        assert consumer.received == sorted(set(consumer.received)), "out of order or twice"
        process.start()
        restored = paged(process)
        channel = scene.channel()
        work = [number for number, _ in contents(channel, "work")]
        channel.connection.close()
        assert work == sorted(set(work)), "out of order or twice"
        assert confirmed - acknowledged <= set(work), "a confirmed message is lost"
        assert not settled & set(work), "a settled message came back"
        assert set(work) <= set(range(sent))
        assert restored > 0 or len(work) < 2 * KEEP_MESSAGES
        process.restart()  # all that was looked at is in memory
    assert settled


def test_a_deep_queue_survives_kills(process: BrokerProcess, scene: Scene, moments: random.Random) -> None:
    kill_rounds(process, scene, moments, ROUNDS)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_deep_queue_survives_many_kills(process: BrokerProcess, scene: Scene, moments: random.Random) -> None:
    kill_rounds(process, scene, moments, ROUNDS_SOAK)


Seen = tuple[int, bool, int]
"""Number, mark and count of a delivery."""


def seen_in(channel: BlockingChannel, queue: str, most: int = 0) -> list[Seen]:
    """Return all there is, or the ``most`` first of it; it goes back."""
    channel.basic_qos(prefetch_count=most)
    count = most or depth(channel, queue)
    received = deliveries(channel, queue, consumer_tag="seen")
    wait_until(lambda: len(received) >= count, channel.connection)
    channel.basic_cancel("seen")
    channel.basic_nack(received[-1][0].delivery_tag, multiple=True, requeue=True)
    return [
        (decode(body), method.redelivered, (properties.headers or {}).get("x-delivery-count", 0))
        for method, properties, body in received
    ]


def fill(channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare(queue, durable=True)
    for number in range(BACKLOG // 2):
        channel.basic_publish("", queue, encode(number), PERSISTENT)


def test_deliveries_of_a_deep_queue_are_counted_over_a_kill_and_a_clean_stop(
    process: BrokerProcess, scene: Scene
) -> None:
    channel = scene.channel()
    for queue in ("work", "fresh"):
        fill(channel, queue)
    counts = dict.fromkeys(range(BACKLOG // 2), 0)
    for most in (1500, 600, 200):
        assert [(number, count) for number, _, count in seen_in(channel, "work", most)] == list(counts.items())[:most]
        counts.update({number: counts[number] + 1 for number in range(most)})
    channel.confirm_delivery()
    channel.basic_publish("", "fresh", encode(BACKLOG // 2), PERSISTENT)  # confirms that the returns are on disk too
    assert channel.basic_get("work")[0] is not None  # out when the broker is killed: that delivery did not come back
    process.restart()
    assert paged(process) > 0
    channel = scene.channel()
    returned = process.get(WORK)["messages_returned"]  # may be 10 s old after a kill
    assert seen_in(channel, "work") == [(number, True, count) for number, count in counts.items()]
    counts = {number: count + 1 for number, count in counts.items()}
    assert all(redelivered for _, redelivered, _ in seen_in(channel, "fresh", 5))

    channel.queue_purge("fresh")
    fill(channel, "fresh")
    channel.basic_qos(prefetch_count=30)
    held = [deliveries(channel, queue, consumer_tag=queue) for queue in ("work", "fresh")]
    wait_until(lambda: all(len(received) == 30 for received in held), channel.connection)
    assert process.terminate() == 0  # closes the connection, so they come back
    process.start()
    assert paged(process) > 0
    channel = scene.channel()
    expected = [(number, True, count + (number < 30)) for number, count in counts.items()]
    figures = process.get(WORK)
    assert (figures["messages"], figures["messages_ready"], figures["unaccounted"]) == (len(expected), len(expected), 0)
    assert figures["messages_returned"] == returned + len(expected) + 30
    assert seen_in(channel, "work") == expected
    assert seen_in(channel, "fresh") == [(number, number < 30, int(number < 30)) for number in range(BACKLOG // 2)]


MOVED = 1500


def moving(process: BrokerProcess, **more: int) -> str:
    """Begin to move everything; return the operation's path."""
    request = urllib.request.Request(
        f"{process.http_url}{WORK}/operations",
        json.dumps({"operation": "move", "selector": "part = 'all'", "destination": "late", **more}).encode(),
        {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()},
    )
    with urllib.request.urlopen(request) as answer:
        return f"{WORK}/operations/{json.load(answer)['id']}"


def test_a_kill_amid_a_move_leaves_each_message_in_one_queue(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    for queue in ("work", "late", "after"):
        channel.queue_declare(queue, durable=True)
    all_of_it = pika.BasicProperties(delivery_mode=2, headers={"part": "all"})
    for number in range(MOVED - 1):
        channel.basic_publish("", "work", encode(number), all_of_it)
    channel.confirm_delivery()
    channel.basic_publish("", "work", encode(MOVED - 1), all_of_it)
    assert paged(process) > 0
    operation = moving(process, rate=MOVED // 3)
    while process.get(operation)["done"] < MOVED // 4:
        pass
    channel.basic_publish("", "after", b"confirmed: the log has what was moved before it", all_of_it)
    channel.connection.close()
    process.restart()
    operation = moving(process)  # begun again it goes on with the rest
    while process.get(operation)["state"] == "running":
        pass
    rest = process.get(operation)["done"]
    channel = scene.channel()
    late = [number for number, _ in contents(channel, "late")]
    assert (contents(channel, "work"), late) == ([], list(range(MOVED)))
    assert 0 < rest < MOVED, "what was moved before the kill is where it was moved to"
    channel.connection.close()
