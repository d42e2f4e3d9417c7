"""Subscriptions and filters over AMQP 1.0: topics, durable, shared, global, selectors, no-local, browsing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.amqp10 import Client, Connection, data, texts, value
from tests.clients.driven import Refused
from tests.clients.support import Scene

pytestmark = pytest.mark.usefixtures("ours")

TOPIC = {"capabilities": ["topic"]}
DURABLE: dict[str, Any] = {"durability": 2, "expiry_policy": "never", **TOPIC}
SHARED = {"capabilities": ["topic", "shared"]}
GLOBAL = {"capabilities": ["topic", "shared", "global"]}


def publish(client: Client, address: str, *bodies: str) -> None:
    """Send to a topic on a connection of its own."""
    connection = client.connect()
    connection.sender(address, **TOPIC).accepted(*[value(body) for body in bodies])
    connection.close()


def sent(client: Client, address: str, count: int) -> list[str]:
    """Send numbered texts to a topic and return them."""
    written = [str(number) for number in range(count)]
    publish(client, address, *written)
    return written


def test_every_subscriber_of_a_topic_gets_every_message(client: Client, scene: Scene) -> None:
    connection, address = client.connect(), scene.name("news")
    receivers = [connection.receiver(address, **TOPIC) for _ in range(3)]
    publish(client, address, "1", "2")
    assert [texts(receiver.take(2)) for receiver in receivers] == [["1", "2"]] * 3


def test_a_subscriber_gets_nothing_from_before(client: Client, scene: Scene) -> None:
    connection, address = client.connect(), scene.name("news")
    connection.receiver(address, **TOPIC)
    publish(client, address, "before")
    late = connection.receiver(address, **TOPIC)
    publish(client, address, "after")
    assert texts(late.take()) == ["after"]


def test_the_queue_capability_makes_a_queue(client: Client, scene: Scene) -> None:
    connection, address = client.connect(), scene.name()
    connection.sender(address, capabilities=["queue"]).accepted(value("one"))
    first, second = (connection.receiver(address, capabilities=["queue"]) for _ in range(2))
    assert texts(first.take()) == ["one"]
    assert second.everything() == []


def test_a_durable_subscription_keeps_what_comes_while_nobody_is_there(client: Client, scene: Scene) -> None:
    address, container = scene.name("news"), scene.name("container")
    first = client.connect(container_id=container)
    subscription = first.receiver(address, link_name="updates", **DURABLE)
    assert (subscription.facts["durability"], subscription.facts["expiry_policy"]) == (2, "never")
    publish(client, address, "1")
    assert texts(subscription.take()) == ["1"]
    subscription.detach(closed=False)
    first.close()
    publish(client, address, "2", "3")
    again = client.connect(container_id=container)
    subscription = again.receiver(address, link_name="updates", **DURABLE)
    assert texts(subscription.take(2)) == ["2", "3"]
    subscription.detach(closed=True)
    publish(client, address, "4")
    assert again.receiver(address, link_name="updates", **DURABLE).everything() == []


def test_a_durable_subscription_survives_its_connection(client: Client, scene: Scene) -> None:
    address, container = scene.name("news"), scene.name("container")
    first = client.connect(container_id=container)
    subscription = first.receiver(address, link_name="s", **DURABLE)
    publish(client, address, "held", "pending")
    assert texts(subscription.receive()) == ["held"]
    first.close()
    again = client.connect(container_id=container).receiver(address, link_name="s", **DURABLE)
    assert texts(again.take(2)) == ["held", "pending"]


def test_durable_subscriptions_of_two_containers_are_two(client: Client, scene: Scene) -> None:
    address = scene.name("news")
    receivers = [
        client.connect(container_id=scene.name("container")).receiver(address, link_name="same", **DURABLE)
        for _ in range(2)
    ]
    publish(client, address, "x")
    assert [texts(receiver.take()) for receiver in receivers] == [["x"], ["x"]]
    for receiver in receivers:
        receiver.detach()


def test_shared_subscribers_of_a_container_share(client: Client, scene: Scene) -> None:
    address = scene.name("news")
    connection = client.connect(container_id=scene.name("container"))
    receivers = [connection.receiver(address, link_name=f"shared|{number}", **SHARED) for number in (1, 2)]
    for receiver in receivers:
        receiver.grant(10)
    written = sent(client, address, 10)
    shares = [texts(receiver.pending()) for receiver in receivers]
    assert sorted(shares[0] + shares[1]) == written
    assert all(shares)


def test_globally_shared_subscribers_share_over_containers(client: Client, scene: Scene) -> None:
    address, name = scene.name("news"), scene.name("shared")
    receivers = [
        client.connect(container_id=scene.name("container")).receiver(address, link_name=f"{name}|{number}", **GLOBAL)
        for number in (1, 2, 3)
    ]
    for receiver in receivers:
        receiver.grant(10)
    written = sent(client, address, 9)
    shares = [texts(receiver.pending()) for receiver in receivers]
    assert sorted(one for share in shares for one in share) == written
    assert all(shares)


def test_a_durable_shared_subscription_outlives_its_subscribers(client: Client, scene: Scene) -> None:
    address, name = scene.name("news"), scene.name("shared")
    options = {**DURABLE, **GLOBAL, "link_name": name}
    first = client.connect().receiver(address, **options)
    first.detach(closed=False)
    publish(client, address, "kept")
    second = client.connect().receiver(address, **options)
    assert texts(second.take()) == ["kept"]
    second.detach()


@pytest.mark.parametrize("capabilities", [SHARED, GLOBAL])
def test_shared_subscriptions_of_one_name_are_two_when_one_is_durable(
    client: Client, scene: Scene, capabilities: dict[str, Any]
) -> None:
    address, name = scene.name("news"), scene.name("shared")
    connection = client.connect(container_id=scene.name("container"))
    options = {**DURABLE, **capabilities, "link_name": name}
    durable = connection.receiver(address, **options)
    volatile = connection.receiver(address, **capabilities, link_name=f"{name}|volatile1")
    publish(client, address, "x")
    assert [texts(receiver.take()) for receiver in (durable, volatile)] == [["x"], ["x"]]
    volatile.detach()
    durable.detach(closed=False)
    publish(client, address, "kept")
    assert texts(connection.receiver(address, **options).take()) == ["kept"]


def test_a_selector_chooses_on_a_queue(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    receiver = connection.receiver(queue, selector="colour = 'blue' AND size > 3")
    assert receiver.facts["filter"]  # an attach that leaves it out says that it does not hold (§2.6.3)
    sender = connection.sender(queue)
    for number, (colour, size) in enumerate([("blue", 5), ("red", 5), ("blue", 1), ("blue", 9)]):
        sender.accepted(data(b"%d" % number, properties={"colour": colour, "size": size}))
    assert texts(receiver.take(2)) == [b"0", b"3"]
    assert receiver.drain(5) == 0
    assert texts(connection.receiver(queue).take(2)) == [b"1", b"2"]


def test_a_selector_sees_header_and_properties(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    selector = "JMSPriority > 5 AND JMSType = 'order' AND JMSCorrelationID = 'c' AND JMSDeliveryMode = 'PERSISTENT'"
    receiver = connection.receiver(queue, selector=selector)
    message = data(b"yes", priority=6, subject="order", correlation_id="c", durable=True)
    connection.sender(queue).accepted(data(b"no"), {**message, "priority": 2, "body": b"no"}, message)
    assert texts(receiver.take()) == [b"yes"]
    assert receiver.drain(5) == 0


def test_a_selector_chooses_on_a_topic(client: Client, scene: Scene) -> None:
    connection, address = client.connect(), scene.name("news")
    chosen = connection.receiver(address, selector="area = 'sport'", **TOPIC)
    everything = connection.receiver(address, **TOPIC)
    sender = connection.sender(address, **TOPIC)
    for area in ("sport", "weather"):
        sender.accepted(value(area, properties={"area": area}))
    assert texts(everything.take(2)) == ["sport", "weather"]
    assert texts(chosen.everything()) == ["sport"]


def test_a_wrong_selector_is_refused_with_its_place(client: Client, scene: Scene) -> None:
    with pytest.raises(Refused) as caught:
        client.connect().receiver(scene.name(), selector="colour = = 'blue'")
    assert caught.value.condition == "amqp:invalid-field"
    assert "selector" in caught.value.text


def test_an_unknown_filter_is_refused(proton: Client, scene: Scene) -> None:
    with pytest.raises(Refused) as caught:
        proton.connect().receiver(scene.name(), filters={"mine": ["example:unheard-of:string", "x"]})
    assert caught.value.condition == "amqp:not-implemented"
    assert "unheard-of" in caught.value.text


def test_no_local_leaves_out_what_the_same_container_sent(client: Client, scene: Scene) -> None:
    connection, address = client.connect(), scene.name("news")
    receiver = connection.receiver(address, no_local=True, **TOPIC)
    assert receiver.facts["filter"]
    connection.sender(address, **TOPIC).accepted(value("own"))
    publish(client, address, "other")
    assert texts(receiver.take()) == ["other"]
    assert receiver.drain(5) == 0


def test_browsing_leaves_the_messages_where_they_are(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    connection.sender(queue).accepted(*[data(b"%d" % number) for number in range(3)])
    browser = connection.receiver(queue, distribution_mode="copy")
    assert browser.facts["distribution_mode"] == "copy"
    seen = browser.everything(10)
    browser.settle(seen, "accepted")
    browser.detach()
    assert texts(seen) == [b"0", b"1", b"2"]
    assert texts(connection.receiver(queue).take(3)) == [b"0", b"1", b"2"]


def test_a_browser_takes_nothing_from_a_consumer(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    browser = connection.receiver(queue, distribution_mode="copy")
    browser.grant(10)
    receiver = connection.receiver(queue)
    receiver.grant(10)
    connection.sender(queue).accepted(data(b"x"))
    assert texts(receiver.receive(1, grant=False)) == [b"x"]


def test_a_subscription_is_looked_up_by_its_name_alone(proton: Client, scene: Scene) -> None:
    """JMS clients attach without a source to end a durable subscription: an unknown one is not found."""
    connection: Connection = proton.connect(container_id=scene.name("container"))
    with pytest.raises(Refused) as caught:
        connection.receiver(None, link_name="never-made", without_source=True)
    assert caught.value.condition == "amqp:not-found"


def test_a_queue_and_a_topic_of_one_name_are_two(client: Client, scene: Scene) -> None:
    connection, address = client.connect(), scene.name("both")
    receivers = {kind: connection.receiver(address, capabilities=[kind]) for kind in ("topic", "queue")}
    for kind in receivers:
        connection.sender(address, capabilities=[kind]).accepted(value(kind))
    assert {kind: texts(receiver.everything()) for kind, receiver in receivers.items()} == {
        "topic": ["topic"],
        "queue": ["queue"],
    }
