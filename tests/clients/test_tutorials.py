"""What every newcomer does first with a broker of AMQP 0-9-1, in two languages: pika, and amqplib of Node.js.

A queue and a message; workers that share a queue; a copy for each subscriber; routing by key; routing by pattern; calls
with an answer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.support import PATIENCE_SECONDS, Peer, Scene

NODE = Path(__file__).resolve().parent.parent / "node"


def collect(channel: BlockingChannel, done: Callable[[], bool]) -> None:
    """Serve a channel until something has come to be."""
    while not done():
        channel.connection.process_data_events(time_limit=PATIENCE_SECONDS)


def declared(scene: Scene, channel: BlockingChannel, kind: str) -> str:
    """Declare an exchange with a fresh name and return the name."""
    name = scene.name("exchange")
    channel.exchange_declare(name, kind)
    return name


def test_one_message_through_one_queue(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_publish("", queue, b"hello")
    seen: list[bytes] = []
    channel.basic_consume(queue, lambda _channel, _method, _properties, body: seen.append(body), auto_ack=True)
    collect(channel, lambda: bool(seen))
    assert seen == [b"hello"]


def test_workers_share_what_is_to_be_done_and_lose_nothing(scene: Scene) -> None:
    """Fair dispatch by prefetch 1; what a dead worker held goes to the other."""
    source = scene.channel()
    queue = scene.queue(source, durable=True)
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(4):
        source.basic_publish("", queue, b"%d" % number, persistent)
    workers = [scene.connect().channel() for _ in range(2)]
    held: list[list[tuple[int, bytes]]] = [[], []]
    for worker, tasks in zip(workers, held, strict=True):
        worker.basic_qos(prefetch_count=1)
        worker.basic_consume(queue, lambda _c, method, _p, body, tasks=tasks: tasks.append((method.delivery_tag, body)))
        collect(worker, lambda tasks=tasks: bool(tasks))
    assert [tasks[0][1] for tasks in held] == [b"0", b"1"]
    workers[0].connection.close()
    done = []
    while len(done) < 4:
        collect(workers[1], lambda: bool(held[1]))
        tag, body = held[1].pop(0)
        done.append(body)
        workers[1].basic_ack(tag)
    assert sorted(done) == [b"0", b"1", b"2", b"3"]


def test_each_subscriber_has_a_copy(scene: Scene) -> None:
    """A fanout exchange, and exclusive queues with names of the broker's."""
    channel = scene.channel()
    exchange = declared(scene, channel, "fanout")
    seen: dict[str, list[bytes]] = {}
    for _ in range(2):
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, exchange)
        seen[queue] = []
        channel.basic_consume(queue, lambda _c, _m, _p, body, queue=queue: seen[queue].append(body), auto_ack=True)
    channel.basic_publish(exchange, "", b"news")
    collect(channel, lambda: all(seen.values()))
    assert list(seen.values()) == [[b"news"], [b"news"]]


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("direct", ["warning", "error"], ["error", "warning"]),
        ("topic", ["*.orange.*", "lazy.#"], ["lazy", "lazy.brown.dog.male", "quick.orange.fox"]),
    ],
)
def test_subscribers_choose_by_key(scene: Scene, kind: str, keys: list[str], expected: list[str]) -> None:
    channel = scene.channel()
    exchange = declared(scene, channel, kind)
    queue = channel.queue_declare("", exclusive=True).method.queue
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    for key in ("info", "warning", "error", "quick.orange.fox", "quick.brown.fox", "lazy", "lazy.brown.dog.male"):
        channel.basic_publish(exchange, key, key.encode())
    channel.basic_publish("", queue, b"end")
    seen: list[str] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body.decode()), auto_ack=True)
    collect(channel, lambda: "end" in seen)
    assert sorted(seen) == sorted([*expected, "end"])


def test_a_call_has_its_answer(scene: Scene) -> None:
    """The answer goes to the queue the call names, with the number it has."""
    server, client = scene.channel(), scene.channel()
    requests = scene.queue(server)

    def serve(channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, b"%d" % (int(body) * 2), answer)
        channel.basic_ack(method.delivery_tag)

    server.basic_qos(prefetch_count=1)
    server.basic_consume(requests, serve)
    answers = client.queue_declare("", exclusive=True).method.queue
    seen: dict[str, bytes] = {}
    client.basic_consume(
        answers, lambda _c, _m, properties, body: seen.update({properties.correlation_id: body}), auto_ack=True
    )
    for number in (20, 21):
        call = pika.BasicProperties(reply_to=answers, correlation_id=f"call {number}")
        client.basic_publish("", requests, b"%d" % number, call)
    while len(seen) < 2:
        server.connection.process_data_events(time_limit=0.05)
        client.connection.process_data_events(time_limit=0.05)
    assert seen == {"call 20": b"40", "call 21": b"42"}


@pytest.mark.node
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(not (NODE / "node_modules" / "amqplib").is_dir(), reason="npm ci was not run in tests/node")
def test_the_same_with_amqplib(peer: Peer, scene: Scene) -> None:
    done = subprocess.run(
        ["node", str(NODE / "tutorials.mjs"), peer.url, scene.name("tutorial")],
        env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "hello",
        "done 0 1 2 3 by two workers",
        "news news",
        "direct: error warning",
        "topic: lazy lazy.brown.dog.male quick.orange.fox",
        "call 20: 40, call 21: 42",
    ]
