"""kill -9: what was confirmed before is remembered beside the messages: losses, deliveries, duplicate ids."""

from __future__ import annotations

import pika

from tests.broker_process import BrokerProcess
from tests.clients.support import Scene
from tests.crash.workload import PERSISTENT, encode


def test_losses_of_persistent_messages_are_in_the_ledger(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("ring", durable=True, arguments={"x-ring-size": 10})
    channel.confirm_delivery()
    for number in range(30):
        channel.basic_publish("", "ring", encode(number), PERSISTENT)
    before = process.get("/api/v1/losses?queue=ring")
    for _ in range(2):
        process.restart()
        after = process.get("/api/v1/losses?queue=ring")
        assert after == before
        assert [item["sequence"] for item in after["items"]] == list(range(20, 0, -1))
        assert {(item["reason"], item["rule"]) for item in after["items"]} == {("replaced-ring", "ring-size=10")}
    (counts,) = process.get("/api/v1/losses/counts")["items"]
    assert (counts["queue"], counts["count"]) == ("ring", 20)


def test_a_message_is_not_delivered_more_often_than_it_may(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("work", durable=True, arguments={"x-max-delivery-attempts": 3})
    channel.confirm_delivery()
    channel.basic_publish("", "work", b"poison", PERSISTENT)
    for attempt in range(3):
        method, _, body = channel.basic_get("work")
        assert method is not None, f"gone after {attempt} deliveries"
        assert body == b"poison"
        channel.basic_nack(method.delivery_tag, requeue=True)
        channel.queue_declare("other", durable=True)
        channel.basic_publish("", "other", b"", PERSISTENT)  # its confirm says that the return is on disk too
        process.restart()
        channel = scene.channel()
        channel.confirm_delivery()
    assert channel.basic_get("work")[0] is None
    (loss,) = process.get("/api/v1/losses?queue=work")["items"]
    assert (loss["reason"], loss["sequence"]) == ("rejected", 1)


def test_a_duplicate_stays_a_duplicate(process: BrokerProcess, scene: Scene) -> None:
    """Also of a message that was consumed and is gone: only its id is left. The sender is told the same both times."""
    properties = pika.BasicProperties(delivery_mode=2, headers={"_AMQ_DUPL_ID": "order 7"})
    channel = scene.channel()
    for queue in ("orders", "returns"):
        channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"order 7", properties, mandatory=True)
    assert channel.basic_get("orders", auto_ack=True)[2] == b"order 7"
    channel.basic_publish("", "returns", b"order 7", properties, mandatory=True)  # confirms that the other is gone
    for _ in range(2):
        process.restart()
        channel = scene.channel()
        channel.confirm_delivery()
        for queue, left in (("orders", 0), ("returns", 1)):
            channel.basic_publish("", queue, b"order 7", properties, mandatory=True)
            assert channel.queue_declare(queue, passive=True).method.message_count == left
    channel.basic_publish("", "orders", b"order 8", pika.BasicProperties(headers={"_AMQ_DUPL_ID": "order 8"}))
    assert channel.basic_get("orders", auto_ack=True)[2] == b"order 8"
