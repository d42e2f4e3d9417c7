"""Exchanges and routing, with pika."""

from __future__ import annotations

import pika
import pytest

from tests.clients.support import Scene, bodies, channel_closed, connection_closed


def test_the_default_exchange_reaches_a_queue_by_its_name(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_publish("", queue, b"one")
    channel.basic_publish("", scene.name(), b"nowhere")
    assert bodies(channel, queue) == [b"one"]


def test_direct_compares_the_whole_key(scene: Scene) -> None:
    channel = scene.channel()
    exchange, first, second = scene.name("exchange"), scene.queue(channel), scene.queue(channel)
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(first, exchange, "a")
    channel.queue_bind(first, exchange, "b")
    channel.queue_bind(second, exchange, "b")
    for key in ("a", "b", "c", "ab", ""):
        channel.basic_publish(exchange, key, key.encode())
    assert bodies(channel, first) == [b"a", b"b"]
    assert bodies(channel, second) == [b"b"]


def test_fanout_reaches_every_queue_once(scene: Scene) -> None:
    channel = scene.channel()
    exchange, queues = scene.name("exchange"), [scene.queue(channel) for _ in range(3)]
    channel.exchange_declare(exchange, "fanout")
    for queue in queues:
        channel.queue_bind(queue, exchange, "ignored")
    channel.queue_bind(queues[0], exchange, "another binding of the same queue")
    channel.basic_publish(exchange, "whatever", b"copy")
    assert [bodies(channel, queue) for queue in queues] == [[b"copy"]] * 3


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("stock.*.nyse", ["stock.ibm.nyse", "stock..nyse"]),
        ("stock.#", ["stock", "stock.ibm.nyse", "stock.ibm", "stock..nyse"]),
        ("#", ["stock", "stock.ibm.nyse", "stock.ibm", "stock..nyse", "a.b"]),
        ("#.nyse", ["stock.ibm.nyse", "stock..nyse"]),
        ("*", ["stock"]),
        ("*.*", ["stock.ibm", "a.b"]),
        ("a.#.b", ["a.b"]),
        ("stock.ibm", ["stock.ibm"]),
    ],
)
def test_topic_matches_words(scene: Scene, pattern: str, matching: list[str]) -> None:
    channel = scene.channel()
    exchange, queue = scene.name("exchange"), scene.queue(channel)
    channel.exchange_declare(exchange, "topic")
    channel.queue_bind(queue, exchange, pattern)
    for key in ("stock", "stock.ibm.nyse", "stock.ibm", "stock..nyse", "a.b"):
        channel.basic_publish(exchange, key, key.encode())
    assert sorted(bodies(channel, queue)) == sorted(key.encode() for key in matching)


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all", "kind": "pdf", "pages": 3}, {"kind": "pdf", "pages": 3, "more": "yes"}, True),
        ({"x-match": "all", "kind": "pdf", "pages": 3}, {"kind": "pdf", "pages": 4}, False),
        ({"x-match": "all", "kind": "pdf", "pages": 3}, {"kind": "pdf"}, False),
        ({"x-match": "any", "kind": "pdf", "pages": 3}, {"pages": 3}, True),
        ({"x-match": "any", "kind": "pdf", "pages": 3}, {"kind": "zip"}, False),
        ({"kind": "pdf", "pages": 3}, {"kind": "pdf", "pages": 3}, True),
        ({"kind": "pdf", "pages": 3}, {"kind": "pdf"}, False),
        ({"x-match": "all"}, {"kind": "pdf"}, True),
        ({"x-match": "all", "kind": None}, {"kind": "anything"}, True),
        ({"x-match": "all", "x-own": "a"}, {"x-own": "b"}, True),
    ],
)
def test_headers_match_all_or_any(
    scene: Scene, arguments: dict[str, object], headers: dict[str, object], expected: bool
) -> None:
    channel = scene.channel()
    exchange, queue = scene.name("exchange"), scene.queue(channel)
    channel.exchange_declare(exchange, "headers")
    channel.queue_bind(queue, exchange, "", arguments)
    channel.basic_publish(exchange, "", b"body", pika.BasicProperties(headers=headers))
    assert bodies(channel, queue) == ([b"body"] if expected else [])


def test_unbinding_stops_routing_and_unknown_bindings_may_be_unbound(scene: Scene) -> None:
    channel = scene.channel()
    exchange, queue = scene.name("exchange"), scene.queue(channel)
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(queue, exchange, "key", {"different": 1})
    channel.queue_bind(queue, exchange, "key")
    channel.queue_unbind(queue, exchange, "key")
    channel.basic_publish(exchange, "key", b"by the other binding")
    channel.queue_unbind(queue, exchange, "key", {"different": 1})
    channel.queue_unbind(queue, exchange, "never bound")
    channel.basic_publish(exchange, "key", b"lost")
    assert bodies(channel, queue) == [b"by the other binding"]


def test_exchanges_bind_to_exchanges_and_cycles_end(scene: Scene) -> None:
    channel = scene.channel()
    first, second, queue = scene.name("exchange"), scene.name("exchange"), scene.queue(channel)
    channel.exchange_declare(first, "topic")
    channel.exchange_declare(second, "fanout")
    channel.exchange_bind(second, first, "logs.#")
    channel.exchange_bind(first, second, "")
    channel.queue_bind(queue, second, "")
    channel.basic_publish(first, "logs.error", b"routed")
    channel.basic_publish(first, "other", b"not routed")
    assert bodies(channel, queue) == [b"routed"]
    channel.exchange_unbind(second, first, "logs.#")
    channel.basic_publish(first, "logs.error", b"no more")
    assert bodies(channel, queue) == []


def test_alternate_exchange_gets_what_is_not_routed(scene: Scene) -> None:
    channel = scene.channel()
    exchange, alternate = scene.name("exchange"), scene.name("exchange")
    queue, unrouted = scene.queue(channel), scene.queue(channel)
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": alternate})
    channel.queue_bind(queue, exchange, "key")
    channel.queue_bind(unrouted, alternate, "")
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda *arguments: returned.append(arguments[-1]))
    channel.confirm_delivery()
    channel.basic_publish(exchange, "key", b"routed", mandatory=True)
    channel.basic_publish(exchange, "other", b"unrouted", mandatory=True)
    assert bodies(channel, queue) == [b"routed"]
    assert bodies(channel, unrouted) == [b"unrouted"]
    assert returned == []


def test_internal_exchanges_take_messages_from_exchanges_only(scene: Scene) -> None:
    channel = scene.channel()
    outer, inner, queue = scene.name("exchange"), scene.name("exchange"), scene.queue(channel)
    channel.exchange_declare(outer, "fanout")
    channel.exchange_declare(inner, "fanout", internal=True)
    channel.exchange_bind(inner, outer, "")
    channel.queue_bind(queue, inner, "")
    channel.basic_publish(outer, "", b"through")
    assert bodies(channel, queue) == [b"through"]
    with channel_closed(403, "internal"):
        channel.basic_publish(inner, "", b"refused")
        channel.queue_declare(queue, passive=True)


def test_auto_delete_exchange_goes_with_its_last_binding(scene: Scene) -> None:
    channel = scene.channel()
    exchange, first, second = scene.name("exchange"), scene.queue(channel), scene.queue(channel)
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.queue_bind(first, exchange, "")
    channel.queue_bind(second, exchange, "")
    channel.queue_unbind(first, exchange, "")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_delete(second)
    with channel_closed(404, exchange):
        channel.exchange_declare(exchange, passive=True)


def test_redeclaring_the_same_is_fine_and_anything_else_is_refused(scene: Scene) -> None:
    exchange = scene.name("exchange")
    channel = scene.channel()
    channel.exchange_declare(exchange, "direct")
    channel.exchange_declare(exchange, "direct")
    with channel_closed(406, "inequivalent arg", exchange):
        channel.exchange_declare(exchange, "fanout")
    for change in ({"durable": True}, {"auto_delete": True}, {"internal": True}):
        with channel_closed(406, "inequivalent arg", next(iter(change)), exchange):
            scene.channel().exchange_declare(exchange, "direct", **change)


def test_if_unused_keeps_an_exchange_that_has_bindings(scene: Scene) -> None:
    channel = scene.channel()
    exchange, queue = scene.name("exchange"), scene.queue(channel)
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(queue, exchange, "key")
    with channel_closed(406, exchange):
        channel.exchange_delete(exchange, if_unused=True)
    channel = scene.channel()
    channel.queue_unbind(queue, exchange, "key")
    channel.exchange_delete(exchange, if_unused=True)
    channel.exchange_delete(exchange)
    with channel_closed(404, exchange):
        channel.exchange_declare(exchange, passive=True)


def test_what_is_reserved_or_missing_is_refused(scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    missing = scene.name("exchange")
    with channel_closed(403, "amq."):
        scene.channel().exchange_declare("amq.own", "direct")
    with channel_closed(403, "default exchange"):
        scene.channel().exchange_delete("")
    with channel_closed(403, "default exchange"):
        scene.channel().queue_bind(queue, "", "key")
    with channel_closed(403, "amq.direct"):
        scene.channel().exchange_delete("amq.direct")
    with channel_closed(404, missing):
        scene.channel().queue_bind(queue, missing, "key")
    with channel_closed(404, missing):
        scene.channel().exchange_bind(missing, "amq.fanout")
    with channel_closed(404, missing):
        channel = scene.channel()
        channel.basic_publish(missing, "key", b"")
        channel.queue_declare(queue, passive=True)


def test_an_unknown_type_closes_the_connection(scene: Scene) -> None:
    with connection_closed(503, "x-unheard-of"):
        scene.channel().exchange_declare(scene.name("exchange"), "x-unheard-of")


@pytest.mark.parametrize("exchange", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_the_standard_exchanges_are_there(scene: Scene, exchange: str) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.exchange_declare(exchange, passive=True)
    channel.queue_bind(queue, exchange, queue)
    channel.basic_publish(exchange, queue, b"body")
    assert bodies(channel, queue) == [b"body"]


def test_unbinding_what_is_gone_is_answered(scene: Scene) -> None:
    channel = scene.channel()
    queue, missing = scene.queue(channel), scene.name("missing")
    channel.queue_unbind(missing, "amq.direct", "key")
    channel.queue_unbind(queue, missing, "key")
    channel.exchange_unbind(missing, "amq.direct", "key")
    channel.exchange_unbind("amq.direct", missing, "key")
    with channel_closed(404, missing):
        channel.queue_bind(missing, "amq.direct", "key")
