"""Rows L1, L2, L4 to L15, L18 and L19 of the Artemis scenarios: last-value queues. The others need a restart."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.transaction import Transaction
from tests.scenarios.artemis.scene import Client, Scene


@pytest.fixture
def scene():
    return Scene()


def test_l1_the_second_value_replaces_the_first(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    consumer = client.listen(queue, messages=0)
    scene.send("a1", "a2")
    assert scene.figures("messages_added message_count messages_replaced") == (2, 1, 1)
    consumer.window.messages_max = 1
    client.wake(scene.now)
    assert client.received == ["a2"]


@pytest.mark.parametrize(
    "setting",
    [pytest.param("exclusive_consumer", id="L2"), pytest.param("single_active_consumer", id="L2-by-its-other-name")],
)
def test_an_exclusive_consumer_that_asks_late_gets_the_current_value_only(scene, setting):
    queue, client = scene.queue(last_value_key="k", **{setting: True}), Client(scene)
    consumer = client.listen(queue, messages=0)
    scene.send("a1", "a2")
    assert client.received == []
    consumer.window.messages_max = 2
    client.wake(scene.now)
    assert client.received == ["a2"]


def test_l4_each_key_keeps_its_last(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    scene.send("a1", "b2", "a3", "b4")
    assert scene.figures("messages_added message_count messages_replaced key_count") == (4, 2, 2, 2)
    assert [client.pull(queue) for _ in range(3)] == ["a3", "b4", None]


def test_l5_without_the_property_nothing_is_replaced(scene):
    queue, client = scene.queue(last_value_key="another"), Client(scene)
    scene.send("a1", "a2")
    assert scene.figures("message_count messages_replaced") == (2, 0)
    assert [client.pull(queue) for _ in range(2)] == ["a1", "a2"]


def test_l6_ten_rollbacks_deliver_the_value_ten_times_and_then_comes_the_next():
    scene = Scene({"q": {"redelivery-delay": 1, "max-delivery-attempts": 11}})
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    scene.send("a1")
    for _ in range(10):
        assert client.pull(queue, settle=False) == "a1"
        client.roll_back_all()
        assert scene.figures("scheduled_count") == (1,)
        scene.pass_time(1)
    scene.send("a2")
    assert [client.pull(queue) for _ in range(2)] == ["a2", None]
    assert scene.removed("replaced-key") == 1


def test_l7_an_old_value_in_delivery_can_be_acknowledged(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    scene.send("a1")
    client.pull(queue, settle=False)
    scene.send("a2")
    client.settle_all()
    assert client.pull(queue) == "a2"
    assert scene.figures("messages_acknowledged messages_replaced message_count") == (2, 0, 0)


@pytest.mark.parametrize("count", [pytest.param(2, id="L8"), pytest.param(6, id="L9")])
def test_of_the_values_a_closing_consumer_holds_only_the_last_comes_back(scene, count):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    client.listen(queue, messages=count)
    scene.send(*[f"a{number}" for number in range(1, count + 1)])
    assert len(client.received) == count
    client.leave()
    assert scene.held() == [f"a{count}"]
    assert scene.figures("messages_replaced key_count") == (count - 1, 1)


def test_l8_a_value_in_delivery_does_not_come_back_beside_the_pending_one(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    client.listen(queue, messages=1)
    scene.send("a1", "a2")
    assert client.received == ["a1"]
    client.leave()
    assert scene.held() == ["a2"]


def test_l10_keys_apply_at_commit_in_order(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    transaction = Transaction(Client(scene))
    for body in ["a1", "b2", "a3", "b4"]:
        scene.collect(transaction, body)
    assert scene.figures("message_count messages_replaced") == (0, 0)
    transaction.commit(scene.host, scene.now)
    assert [client.pull(queue, settle=False) for _ in range(3)] == ["a3", "b4", None]
    client.commit_all()
    assert scene.figures("message_count key_count") == (0, 0)


def test_l11_after_deleting_everything_the_key_is_free(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    scene.send("a1")
    assert queue.purge(scene.now) == 1
    scene.send("a2")
    assert client.pull(queue) == "a2"
    assert scene.figures("message_count delivering_count key_count") == (0, 0, 0)


@pytest.mark.parametrize("step", [pytest.param(100, id="L12"), pytest.param(1000, id="L12-in-one-sweep")])
def test_scheduled_values_replace_each_other_when_they_fall_due(scene, step):
    """Artemis makes the earliest of one sweep current, as it inserts the latest first (§4)."""
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    for number in range(1, 6):
        scene.send(f"a{number}", delay=100 * number)
    assert scene.figures("message_count scheduled_count messages_replaced") == (5, 5, 0)
    for _ in range(1000 // step):
        scene.pass_time(step)
    assert scene.figures("messages_added messages_replaced scheduled_count") == (5, 4, 0)
    assert [client.pull(queue) for _ in range(2)] == ["a5", None]


def test_l13_deleting_the_only_message_leaves_nothing(scene):
    queue = scene.queue(last_value_key="k")
    scene.send("a1")
    assert queue.remove(queue.order.first(), RemovalReason.DELETED, scene.now)
    assert scene.figures("message_count delivering_count key_count") == (0, 0, 0)


def test_l14_another_priority_changes_no_count(scene):
    queue, client = scene.queue(last_value_key="k", priorities=10), Client(scene)
    scene.send("a1", "b1")
    queue.reprioritise(queue.order.first(), 9, scene.now)
    assert scene.figures("message_count delivering_count key_count messages_replaced") == (2, 0, 2, 0)
    scene.send("a2")
    assert [client.pull(queue) for _ in range(3)] == ["b1", "a2", None]


def test_l15_large_values_replace_each_other_and_their_bytes_go(scene):
    queue, client = scene.queue(last_value_key="k"), Client(scene)
    transaction = Transaction(Client(scene))
    for size in range(1, 6):
        scene.collect(transaction, "x" * (size << 20))
        transaction.commit(scene.host, scene.now)
    assert scene.figures("message_count pending_bytes bytes_added") == (1, 5 << 20, 15 << 20)
    assert len(client.pull(queue) or "") == 5 << 20
    assert client.pull(queue) is None


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        pytest.param({"x-last-value-key": "code"}, "code", id="L18-canonical"),
        pytest.param({"last-value-key": "code"}, "code", id="L18-custom"),
        pytest.param({"last-value": True}, "_AMQ_LVQ_NAME", id="L18-default"),
        pytest.param({"qpid.last_value_queue_key": "code"}, "code", id="L18-of-Broker-J"),
    ],
)
def test_custom_and_default_keys(scene, arguments, key):
    """The rule of the queue, by every name it is declared with. AMQP 1.0 and STOMP pairs come with these protocols."""
    queue = scene.host.declare_queue("q", now=scene.now, arguments=arguments)
    for body in ("how", "are you"):
        scene.send(body, **{key: "name"})
    assert Client(scene).pull(queue) == "are you"
    assert scene.figures("message_count messages_replaced") == (0, 1)


def test_l19_a_consumer_that_refuses_everything_takes_nothing_from_the_other(scene):
    queue = scene.queue(last_value_key="k", non_destructive=True)
    reader, other = Client(scene), Client(scene)
    reader.listen(queue, auto_acknowledge=True)
    other.listen(queue, selector="colour = 'green'")
    bodies = [f"a{number}" for number in range(1000)]
    for body in bodies:
        scene.send(body)
        assert reader.received[-1] == body
    assert (reader.received, other.received) == (bodies, [])
    assert scene.figures("message_count key_count") == (1, 1)
