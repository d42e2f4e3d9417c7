"""Order, dispatch and time of queues as an ordinary client asks for them; with pika."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest
from kombu import Connection, Queue

from tests.clients.celery_application import add, application
from tests.clients.support import (
    PATIENCE_SECONDS,
    Peer,
    Scene,
    bodies,
    channel_closed,
    deliveries,
    depth,
    wait_until,
)


def publish(channel: Any, queue: str, body: str, **properties: Any) -> None:
    channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def texts(received: list[Any]) -> list[str]:
    return [body.decode() for _, _, body in received]


# ---------------------------------------------------------------------- order


def test_higher_priorities_first_none_counts_as_the_lowest(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-priority": 5})
    for body, priority in (("none", None), ("2", 2), ("0", 0), ("9 is 5", 9), ("5", 5)):
        publish(channel, queue, body, priority=priority)
    assert bodies(channel, queue) == [b"9 is 5", b"5", b"2", b"none", b"0"]


def test_celery_tasks_have_priorities(scene: Scene) -> None:
    name = scene.name()
    queue = Queue(name, queue_arguments={"x-max-priority": 10})
    with Connection(scene.peer.url) as connection:
        for number, priority in ((1, 0), (2, 9), (3, 5)):
            add.apply_async((number, 0), queue=queue, priority=priority, connection=connection)
        with connection.SimpleQueue(queue) as simple:
            order = [simple.get(timeout=PATIENCE_SECONDS).payload[0][0] for _ in range(3)]
    assert order == [2, 3, 1]
    application.close()


def test_sorted_by_a_header(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-sort-key": "due"})
    for due in (30, 4, "a", 100):
        publish(channel, queue, str(due), headers={"due": due})
    publish(channel, queue, "none")
    assert bodies(channel, queue) == [b"none", b"4", b"30", b"100", b"a"]


# ---------------------------------------------------------------------- who gets it


def test_one_consumer_is_active_and_the_next_takes_over(scene: Scene) -> None:
    first, second, sender = scene.channel(), scene.channel(), scene.channel()
    queue = scene.queue(sender, arguments={"x-single-active-consumer": True})
    got_first = deliveries(first, queue, auto_ack=True)
    got_second = deliveries(second, queue, auto_ack=True)
    for number in range(3):
        publish(sender, queue, str(number))
    wait_until(lambda: len(got_first) == 3, first.connection)
    first.close()
    publish(sender, queue, "after")
    wait_until(lambda: got_second, second.connection)
    assert texts(got_second) == ["after"]


def test_a_selector_leaves_the_rest_to_others(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    red = deliveries(channel, queue, auto_ack=True, arguments={"x-selector": "colour = 'red' AND size BETWEEN 2 AND 5"})
    for colour, size in (("red", 1), ("red", 2), ("blue", 3), ("red", 5)):
        publish(channel, queue, f"{colour} {size}", headers={"colour": colour, "size": size})
    wait_until(lambda: len(red) == 2, channel.connection)
    assert texts(red) == ["red 2", "red 5"]
    assert bodies(channel, queue) == [b"red 1", b"blue 3"]


def test_a_broken_selector_names_the_place(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    with channel_closed(406, "character 13"):
        channel.basic_consume(scene.queue(channel), print, arguments={"x-selector": "colour LIKE 5"})


@pytest.mark.parametrize("settled", [True, False])
def test_a_browser_takes_nothing(scene: Scene, ours: Peer, settled: bool) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    publish(channel, queue, "1")
    publish(channel, queue, "2")
    seen = deliveries(channel, queue, auto_ack=settled, arguments={"x-browse": True})
    wait_until(lambda: len(seen) == 2, channel.connection)
    publish(channel, queue, "3")
    wait_until(lambda: len(seen) == 3, channel.connection)
    if not settled:
        channel.basic_ack(0, multiple=True)
    assert bodies(channel, queue) == [b"1", b"2", b"3"]


def test_a_browser_of_what_is_there_is_cancelled_at_the_end(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    publish(channel, queue, "1")
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    seen = deliveries(channel, queue, auto_ack=True, arguments={"x-browse": "snapshot", "x-auto-close": True})
    wait_until(lambda: cancelled, channel.connection)
    assert texts(seen) == ["1"]


def test_everybody_reads_everything_of_a_non_destructive_queue(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-non-destructive": True, "x-ring-size": 2})
    for number in range(3):
        publish(channel, queue, str(number))
    readers = [deliveries(channel, queue, auto_ack=True) for _ in range(2)]
    wait_until(lambda: all(len(seen) == 2 for seen in readers), channel.connection)
    assert [texts(seen) for seen in readers] == [["1", "2"]] * 2
    assert depth(channel, queue) == 2


def test_a_group_stays_with_its_consumer(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-group-key": "customer", "x-group-first-key": "first"})
    consumers = [deliveries(channel, queue, auto_ack=True) for _ in range(2)]
    for number in range(4):
        for customer in "ab":
            publish(channel, queue, f"{customer}{number}", headers={"customer": customer})
    wait_until(lambda: sum(map(len, consumers)) == 8, channel.connection)
    assert sorted(texts(seen) for seen in consumers) == [[f"{customer}{n}" for n in range(4)] for customer in "ab"]
    firsts = [[bool(properties.headers.get("first")) for _, properties, _ in seen] for seen in consumers]
    assert firsts == [[True, False, False, False]] * 2


def test_consumers_beyond_the_limit_are_refused(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-consumers": 1})
    deliveries(channel, queue)
    with channel_closed(403, "max-consumers"):
        deliveries(scene.channel(), queue)


def test_a_cap_on_deliveries_of_each_key(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-fair-key": "user", "x-in-flight-per-key": 1})
    for body, user in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        publish(channel, queue, body, headers={"user": user})
    seen = deliveries(channel, queue)
    wait_until(lambda: len(seen) == 2, channel.connection)
    assert sorted(texts(seen)) == ["a1", "b1"]
    channel.basic_ack(seen[texts(seen).index("a1")][0].delivery_tag)
    wait_until(lambda: len(seen) == 3, channel.connection)
    assert texts(seen)[-1] == "a2"


# ---------------------------------------------------------------------- when


def test_a_delayed_message_comes_when_it_is_due(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    seen = deliveries(channel, queue, auto_ack=True)
    began = time.monotonic()
    publish(channel, queue, "later", headers={"x-delay": 400})
    publish(channel, queue, "soon", headers={"x-delay": 200})
    publish(channel, queue, "now")
    wait_until(lambda: len(seen) == 3, channel.connection)
    assert texts(seen) == ["now", "soon", "later"]
    assert 0.4 <= time.monotonic() - began < 5


def test_a_sender_takes_back_what_it_scheduled(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.confirm_delivery()
    for name in ("kept", "taken back"):
        publish(channel, queue, name, headers={"x-delay": 300, "x-schedule-id": name}, delivery_mode=2)
    for name in ("taken back", "unknown"):  # confirmed, or pika would raise
        publish(channel, queue, "", headers={"x-schedule-id": name, "x-schedule-cancel": True}, delivery_mode=2)
    wait_until(lambda: depth(channel, queue) == 1, channel.connection)
    assert bodies(channel, queue) == [b"kept"]


def test_rabbitmq_s_exchange_of_delayed_messages(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    exchange = scene.name("delayed")
    channel.exchange_declare(exchange, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    queue = scene.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    channel.basic_publish(exchange, "key", b"x", pika.BasicProperties(headers={"x-delay": 100}))
    assert depth(channel, queue) == 0
    wait_until(lambda: depth(channel, queue) == 1, channel.connection)


def test_a_returned_message_waits_for_its_redelivery(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-redelivery-delay": 150})
    publish(channel, queue, "again")
    seen = deliveries(channel, queue)
    wait_until(lambda: seen, channel.connection)
    began = time.monotonic()
    channel.basic_nack(seen[0][0].delivery_tag)
    wait_until(lambda: len(seen) == 2, channel.connection)
    assert time.monotonic() - began >= 0.149  # the broker counts in whole milliseconds
    method, properties, _ = seen[1]
    assert (method.redelivered, properties.headers["x-delivery-count"]) == (True, 1)


def test_dispatch_waits_for_enough_consumers(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-consumers-before-dispatch": 2, "x-delay-before-dispatch": 60_000})
    publish(channel, queue, "1")
    seen = deliveries(channel, queue, auto_ack=True)
    assert depth(channel, queue) == 1
    channel.basic_consume(queue, lambda *_: None, auto_ack=True)
    wait_until(lambda: depth(channel, queue) == 0, channel.connection)
    assert len(seen) <= 1


# ---------------------------------------------------------------------- where to


def test_copies_go_to_the_keys_the_sender_names(scene: Scene) -> None:
    channel = scene.channel()
    main, copy, blind = (scene.queue(channel) for _ in range(3))
    publish(channel, main, "x", headers={"CC": [copy], "BCC": [blind], "kept": 1})
    for queue in (main, copy, blind):
        wait_until(lambda queue=queue: depth(channel, queue) == 1, channel.connection)  # type: ignore[misc]
        _, properties, _ = channel.basic_get(queue, auto_ack=True)
        assert properties.headers == {"CC": [copy], "kept": 1}


def test_a_duplicate_is_confirmed_and_not_stored(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.confirm_delivery()
    for body in ("first", "again"):
        publish(channel, queue, body, headers={"_AMQ_DUPL_ID": queue})
    assert bodies(channel, queue) == [b"first"]


def test_a_message_that_does_not_match_the_queue_s_selector_is_not_routed(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-selector": "amount > 100"})
    for amount in (50, 150):
        publish(channel, queue, str(amount), headers={"amount": amount})
    assert bodies(channel, queue) == [b"150"]
