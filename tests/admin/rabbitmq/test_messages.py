from __future__ import annotations

import base64
from typing import Any

import pytest

from annulet.admin.rabbitmq import messages
from annulet.broker.operation.getting import GET_COUNT_MAX
from tests.admin.conftest import Site

PUBLISH = "/api/exchanges/%2F/amq.default/publish"
GET = "/api/queues/%2F/q/get"


def message(payload: str = "hello", **changes: Any) -> dict[str, Any]:
    return {"routing_key": "q", "payload": payload, "payload_encoding": "string", "properties": {}, **changes}


def ask(count: int = 10, ackmode: str = "ack_requeue_true", encoding: str = "auto", **more: Any) -> dict[str, Any]:
    return {"count": count, "ackmode": ackmode, "encoding": encoding, **more}


async def test_a_message_is_published_with_its_properties_and_got_again_and_again(site: Site) -> None:
    site.queue("q")
    properties = {"headers": {"a": 1, "b": ["x", {"y": True}]}, "delivery_mode": 2, "message_id": "5", "priority": 3}
    assert await site.send("POST", PUBLISH, message(properties=properties)) == (200, {"routed": True})
    for redelivered in (False, True):
        status, items = await site.send("POST", GET, ask())
        assert status == 200
        assert items == [
            {
                "payload_bytes": 5, "redelivered": redelivered, "exchange": "", "routing_key": "q", "message_count": 0,
                "payload": "hello", "payload_encoding": "string",
                "properties": {**properties, "headers": {**properties["headers"], **items[0]["properties"]["headers"]}},
            }
        ]  # fmt: skip


async def test_a_message_that_no_queue_takes_is_not_routed(site: Site) -> None:
    assert await site.send("POST", PUBLISH, message()) == (200, {"routed": False})
    assert site.broker.unroutable == 1


async def test_octets_travel_as_base64_and_long_bodies_are_cut(site: Site) -> None:
    site.queue("q")
    octets = b"\xff\x01\x02"
    body = message(base64.b64encode(octets).decode(), payload_encoding="base64")
    assert (await site.send("POST", PUBLISH, body))[0] == 200
    item = (await site.send("POST", GET, ask()))[1][0]
    assert (base64.b64decode(item["payload"]), item["payload_encoding"], item["payload_bytes"]) == (octets, "base64", 3)
    item = (await site.send("POST", GET, ask(truncate=1)))[1][0]
    assert (base64.b64decode(item["payload"]), item["payload_bytes"]) == (b"\xff", 3)
    await site.send("POST", PUBLISH, message("text"))
    assert (await site.send("POST", GET, ask(encoding="base64")))[1][1]["payload"] == base64.b64encode(b"text").decode()


@pytest.mark.parametrize(
    ("ackmode", "left", "dead"),
    [
        ("ack_requeue_true", 2, 0),
        ("reject_requeue_true", 2, 0),
        ("ack_requeue_false", 0, 0),
        ("reject_requeue_false", 0, 2),
    ],
)
async def test_messages_are_settled_as_asked(site: Site, ackmode: str, left: int, dead: int) -> None:
    queue = site.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    letters = site.queue("dead")
    site.publish("q")
    site.publish("q")
    status, items = await site.send("POST", GET, ask(ackmode=ackmode))
    assert (status, len(items)) == (200, 2)
    assert [item["message_count"] for item in items] == [1, 0]
    assert (queue.statistics().message_count, letters.statistics().message_count) == (left, dead)
    assert queue.statistics().delivering_count == 0


async def test_an_answer_is_bounded_in_messages_and_bytes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = site.queue("q")
    monkeypatch.setattr(messages, "GET_BYTES_MAX", 10)
    for _ in range(4):
        site.publish("q", b"123456")
    assert len((await site.send("POST", GET, ask(3)))[1]) == 2
    assert len((await site.send("POST", GET, ask(3, truncate=1)))[1]) == 3
    assert (await site.send("POST", GET, ask(GET_COUNT_MAX)))[0] == 200
    status, answer = await site.send("POST", GET, ask(GET_COUNT_MAX + 1))
    assert (status, answer["error"]) == (400, "bad_request")
    assert queue.statistics().message_count == 4


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (GET, ask(0), "field 'count': value 0; give an integer from 1 to 1000"),
        (GET, ask(ackmode="foo"), "field 'ackmode': value 'foo'; give one of ack_requeue_true"),
        (GET, ask(encoding="foo"), "field 'encoding': value 'foo'; give 'auto' or 'base64'"),
        (GET, ask(truncate="x"), "field 'truncate': value 'x'; give an integer"),
        (GET, {"count": 1, "encoding": "auto"}, "field 'ackmode': missing; give one of"),
        (PUBLISH, message(payload_encoding="x"), "field 'payload_encoding': value 'x'; give 'string' or 'base64'"),
        (PUBLISH, message("_", payload_encoding="base64"), "field 'payload': value '_'; give base64"),
        (PUBLISH, message(properties={"foo": 1}), "field 'properties.foo': value 1; give only content_type"),
        (PUBLISH, message(properties={"priority": 256}), "field 'priority': value 256; give an integer from 0 to 255"),
        (PUBLISH, message(properties={"expiration": "soon"}), "invalid expiration 'soon'"),
        (PUBLISH, message(properties={"user_id": "other"}), "user_id property set to 'other'"),
        (PUBLISH, message(properties={"headers": {"x": None}}), "header 'x' is null"),
        (PUBLISH, message(properties={"reply_to": "amq.rabbitmq.reply-to"}), "need a channel of AMQP"),
        (PUBLISH, {"routing_key": "q", "payload": "x", "properties": {}}, "field 'payload_encoding': missing"),
    ],
)
async def test_bad_input_names_field_value_and_remedy(site: Site, path: str, body: Any, reason: str) -> None:
    queue = site.queue("q")
    site.publish("q")
    status, answer = await site.send("POST", path, body)
    assert (status, answer["error"]) == (400, "bad_request"), answer
    assert reason in answer["reason"]
    assert queue.statistics().pending_count == 1


async def test_a_full_queue_and_short_memory_refuse_a_publish(site: Site) -> None:
    site.queue("q", max_length=1, overflow="reject-publish")
    site.publish("q")
    assert await site.status("POST", PUBLISH, message()) == 503
    site.queue("b", max_length=1, overflow="block")
    for _ in range(2):
        site.publish("b")
    status, answer = await site.send("POST", PUBLISH, message(routing_key="b"))
    assert (status, answer["error"]) == (503, "service_unavailable")
    assert "queue 'b'" in answer["reason"]
    site.broker.memory_blocked = True
    assert await site.status("POST", PUBLISH, message(routing_key="free")) == 503


async def test_a_very_long_body_is_cut(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.queue("q")
    site.publish("q", b"x" * 20)
    monkeypatch.setattr(messages, "GET_BODY_BYTES_MAX", 10)
    for more in ({}, {"truncate": 15}):
        [item] = (await site.send("POST", GET, ask(**more)))[1]
        assert (item["payload"], item["payload_bytes"]) == ("x" * 10, 20)


async def test_permissions_come_first(site: Site) -> None:
    site.queue("q")
    assert await site.status("POST", PUBLISH, {"nonsense": 1}, user="shop:pass") == 401
    assert await site.status("POST", GET, {"nonsense": 1}, user="shop:pass") == 401
    assert await site.status("POST", "/api/exchanges/%2F/nope/publish", message()) == 404
    assert await site.status("POST", "/api/queues/%2F/nope/get", ask()) == 404


async def test_a_long_payload_is_taken_and_a_long_table_is_not(site: Site) -> None:
    site.queue("q")
    assert (await site.send("POST", PUBLISH, message("x" * 1_000_000)))[0] == 200
    status, answer = await site.send("POST", PUBLISH, message(properties={"headers": {"x": [[]] * 40_000}}))
    assert (status, answer["error"]) == (413, "too_large")
