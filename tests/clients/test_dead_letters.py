"""Dead letters as clients of RabbitMQ know them: where they go and what their headers say; with pika."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pika
import pytest

from tests.clients.support import Peer, Scene, bodies, depth, wait_until


def dying(scene: Scene, channel: Any, **arguments: Any) -> tuple[str, str]:
    """Declare a queue whose dead letters go to another; return both names."""
    dead = scene.queue(channel)
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    return scene.queue(channel, arguments={**target, **arguments}), dead


def dead_letter(channel: Any, dead: str) -> tuple[pika.BasicProperties, bytes]:
    wait_until(lambda: depth(channel, dead) == 1, channel.connection)
    _, properties, body = channel.basic_get(dead, auto_ack=True)
    return properties, body


def test_a_rejected_message_carries_rabbitmq_s_record(scene: Scene) -> None:
    channel = scene.channel()
    queue, dead = dying(scene, channel)
    before = dt.datetime.now(dt.UTC).replace(microsecond=0)
    channel.basic_publish("", queue, b"bad", pika.BasicProperties(headers={"mine": 1}, content_type="text/plain"))
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_reject(tag, requeue=False)
    properties, body = dead_letter(channel, dead)
    assert (body, properties.content_type) == (b"bad", "text/plain")
    headers = dict(properties.headers)
    [death] = headers.pop("x-death")
    died_at = death.pop("time")
    assert before <= died_at <= before + dt.timedelta(minutes=5)
    assert death == {"count": 1, "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": [queue]}
    first = {f"x-first-death-{what}": value for what, value in _death(queue, "rejected").items()}
    last = {f"x-last-death-{what}": value for what, value in _death(queue, "rejected").items()}
    artemis = {name: headers.pop(name) for name in list(headers) if name.startswith("_AMQ_")}
    if scene.peer.ours:
        assert headers == {"mine": 1, **first, **last}
        assert artemis["_AMQ_ORIG_QUEUE"] == queue
    else:  # RabbitMQ has x-last-death-* since 3.13
        assert {**headers, **last} == {"mine": 1, **first, **last}


def _death(queue: str, reason: str) -> dict[str, str]:
    return {"exchange": "", "queue": queue, "reason": reason}


def test_an_expired_message_keeps_its_expiration_in_the_record(scene: Scene) -> None:
    channel = scene.channel()
    queue, dead = dying(scene, channel)
    channel.basic_publish("", queue, b"old", pika.BasicProperties(expiration="30"))
    properties, _ = dead_letter(channel, dead)
    [death] = properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", "30")
    assert properties.expiration is None


def test_the_queue_s_time_to_live_dead_letters_too(scene: Scene) -> None:
    channel = scene.channel()
    queue, dead = dying(scene, channel, **{"x-message-ttl": 30})
    channel.basic_publish("", queue, b"old")
    properties, _ = dead_letter(channel, dead)
    [death] = properties.headers["x-death"]
    assert death["reason"] == "expired"
    assert "original-expiration" not in death


def test_a_victim_of_the_limit_is_dead_lettered(scene: Scene) -> None:
    channel = scene.channel()
    queue, dead = dying(scene, channel, **{"x-max-length": 1})
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2")
    properties, body = dead_letter(channel, dead)
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"1", "maxlen")


@pytest.mark.parametrize(
    ("arguments", "deliveries"), [({"x-delivery-limit": 2}, 3), ({"x-max-delivery-attempts": 2}, 2)]
)
def test_a_message_that_is_returned_too_often(
    scene: Scene, ours: Peer, arguments: dict[str, int], deliveries: int
) -> None:
    channel = scene.channel()
    queue, dead = dying(scene, channel, **arguments)
    channel.basic_publish("", queue, b"poison")
    for _ in range(deliveries):
        assert depth(channel, dead) == 0
        channel.basic_nack(channel.basic_get(queue)[0].delivery_tag, requeue=True)
    properties, _ = dead_letter(channel, dead)
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit"


def test_deaths_are_counted_by_queue_and_reason(scene: Scene) -> None:
    """The usual loop for retries: rejected, parked in a queue with a time to live, back again."""
    channel = scene.channel()
    work, parked = scene.name("work"), scene.name("parked")
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 20}
    channel.queue_declare(parked, arguments=back)
    channel.queue_declare(work, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": parked})
    channel.basic_publish("", work, b"try")
    for _ in range(2):
        wait_until(lambda: depth(channel, work) == 1, channel.connection)
        channel.basic_reject(channel.basic_get(work)[0].delivery_tag, requeue=False)
    wait_until(lambda: depth(channel, work) == 1, channel.connection)
    _, properties, _ = channel.basic_get(work, auto_ack=True)
    deaths = [(death["queue"], death["reason"], death["count"]) for death in properties.headers["x-death"]]
    assert deaths == [(parked, "expired", 2), (work, "rejected", 2)]
    assert properties.headers["x-first-death-queue"] == work


def test_an_exchange_may_be_the_target_with_the_message_s_own_key(scene: Scene) -> None:
    channel = scene.channel()
    exchange, dead = scene.name("dead"), scene.queue(channel)
    channel.exchange_declare(exchange, "topic")
    channel.queue_bind(dead, exchange, "#")
    queue = scene.queue(channel, arguments={"x-dead-letter-exchange": exchange})
    channel.basic_publish("", queue, b"x")
    channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    wait_until(lambda: depth(channel, dead) == 1, channel.connection)
    method, _, _ = channel.basic_get(dead, auto_ack=True)
    assert (method.exchange, method.routing_key) == (exchange, queue)


def test_a_ring_s_victims_go_to_the_dropped_address(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    dropped = scene.queue(channel)
    queue = scene.queue(channel, arguments={"x-ring-size": 1, "x-dropped-address": dropped})
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2")
    assert bodies(channel, dropped) == [b"1"]
