"""What receivers over AMQP 1.0 say of messages (§3.4), and what becomes of those they held."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.amqp10 import Client, Message, data, texts, value
from tests.clients.support import Peer, Scene, bodies


def filled(client: Client, queue: str, *messages: Message) -> Any:
    """Send messages and return the connection."""
    connection = client.connect()
    connection.sender(queue).accepted(*messages)
    return connection


def dead_letter_queues(scene: Scene, **more: Any) -> tuple[str, str]:
    """Declare a queue and the one its dead letters go to."""
    channel = scene.channel()
    dead = scene.queue(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, **more}
    return scene.queue(channel, arguments=arguments), dead


def test_accepted_messages_are_gone(client: Client, scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    connection = filled(client, queue, data(b"1"), data(b"2"))
    receiver = connection.receiver(queue)
    receiver.settle(receiver.receive(2), "accepted")
    receiver.detach()
    assert bodies(scene.channel(), queue) == []


def test_released_messages_come_back_in_their_places_uncounted(client: Client, scene: Scene, ours: Peer) -> None:
    queue = scene.name()
    connection = filled(client, queue, *[data(b"%d" % number) for number in range(3)])
    receiver = connection.receiver(queue)
    messages = receiver.receive(3)
    assert [message.get("delivery_count", 0) for message in messages] == [0, 0, 0]
    receiver.settle([messages[2], messages[0]], "released")
    again = receiver.receive(2)
    assert sorted(texts(again)) == [b"0", b"2"]
    assert [message.get("delivery_count", 0) for message in again] == [0, 0]
    receiver.settle([*again, messages[1]], "released")
    assert texts(connection.receiver(queue).take(3)) == [b"0", b"1", b"2"]


def test_modified_counts_a_failed_delivery_only_if_it_says_so(client: Client, scene: Scene, ours: Peer) -> None:
    """§3.4.5."""
    queue = scene.name()
    receiver = filled(client, queue, data(b"x")).receiver(queue)
    counts = []
    for failed in (True, False, True):
        messages = receiver.receive()
        counts.append(messages[0].get("delivery_count", 0))
        receiver.settle(messages, "modified", failed=failed)
    messages = receiver.take()
    assert [*counts, messages[0].get("delivery_count", 0)] == [0, 1, 1, 2]


def test_what_is_undeliverable_here_goes_elsewhere(client: Client, scene: Scene, ours: Peer) -> None:
    queue = scene.name()
    connection = filled(client, queue, data(b"not for me"), data(b"next"))
    first = connection.receiver(queue)
    first.settle(first.receive(), "modified", undeliverable=True)
    assert texts(first.receive()) == [b"next"]
    assert first.drain(5) == 0
    assert texts(connection.receiver(queue).take()) == [b"not for me"]


def test_modified_may_annotate_the_message(client: Client, scene: Scene, ours: Peer) -> None:
    queue = scene.name()
    message = data(b"x", annotations={"x-opt-kept": "kept", "x-opt-changed": "old"})
    receiver = filled(client, queue, message).receiver(queue)
    added = {"x-opt-changed": "new", "x-opt-added": 7}
    receiver.settle(receiver.receive(), "modified", annotations=added)
    (again,) = receiver.take()
    assert again["annotations"] == {"x-opt-kept": "kept", **added}
    assert again["body"] == b"x"


def test_a_rejected_message_is_gone_where_nothing_takes_dead_letters(client: Client, scene: Scene) -> None:
    queue = scene.queue(scene.channel())
    connection = filled(client, queue, data(b"bad"))
    receiver = connection.receiver(queue)
    receiver.settle(receiver.receive(), "rejected")
    receiver.detach()
    assert bodies(scene.channel(), queue) == []


def test_a_rejected_message_tells_its_dead_letter_queue_why(client: Client, scene: Scene, ours: Peer) -> None:
    queue, dead = dead_letter_queues(scene)
    connection = filled(client, queue, data(b"bad", properties={"own": "kept"}))
    receiver = connection.receiver(queue)
    receiver.settle(receiver.receive(), "rejected", condition=["app:wrong-order", "no such item", {}])
    (letter,) = connection.receiver(dead).receive()
    assert (letter["body"], letter["properties"]["own"]) == (b"bad", "kept")
    assert letter["annotations"]["x-opt-rejected-condition"] == "app:wrong-order"
    assert letter["annotations"]["x-opt-rejected-description"] == "no such item"


def test_a_rejected_message_tells_clients_of_amqp_0_9_1_why(client: Client, scene: Scene, ours: Peer) -> None:
    queue, dead = dead_letter_queues(scene)
    connection = filled(client, queue, data(b"bad"))
    receiver = connection.receiver(queue)
    receiver.settle(receiver.receive(), "rejected", condition=["app:wrong", "no", {}])
    receiver.detach()
    _, properties, body = scene.channel().basic_get(dead, auto_ack=True)
    assert body == b"bad"
    (death,) = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (queue, "rejected", 1)
    assert properties.headers["x-opt-rejected-condition"] == "app:wrong"
    assert properties.headers["x-opt-rejected-description"] == "no"


def test_failed_deliveries_end_at_the_dead_letter_queue(client: Client, scene: Scene, ours: Peer) -> None:
    queue, dead = dead_letter_queues(scene, **{"x-max-delivery-attempts": 2})
    connection = filled(client, queue, data(b"poison"))
    receiver = connection.receiver(queue)
    for _ in range(2):
        receiver.settle(receiver.receive(), "modified", failed=True)
    assert texts(connection.receiver(dead).take()) == [b"poison"]
    assert receiver.drain(1) == 0


def test_detaching_returns_what_is_not_settled(client: Client, scene: Scene, ours: Peer) -> None:
    queue = scene.name()
    connection = filled(client, queue, *[data(b"%d" % number) for number in range(5)])
    receiver = connection.receiver(queue)
    messages = receiver.receive(4)
    receiver.settle(messages[1:2], "accepted")
    receiver.detach()
    assert texts(connection.receiver(queue).take(4)) == [b"0", b"2", b"3", b"4"]


def test_closing_returns_what_is_not_settled(client: Client, scene: Scene) -> None:
    queue = scene.name()
    connection = filled(client, queue, value("a"), value("b"))
    connection.receiver(queue).receive(2)
    connection.close()
    assert texts(client.connect().receiver(queue).take(2)) == ["a", "b"]


def test_what_was_sent_in_vain_is_rejected(client: Client, scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    sender = client.connect().sender(queue)
    outcomes = sender.send(data(b"1"), data(b"2"), data(b"3"))
    assert [outcome["outcome"] for outcome in outcomes] == ["accepted", "accepted", "rejected"]
    assert outcomes[2]["condition"] == "amqp:resource-limit-exceeded"
    assert queue in outcomes[2]["text"]
    assert bodies(channel, queue) == [b"1", b"2"]


@pytest.mark.parametrize("outcome", ["accepted", "released", "rejected"])
def test_outcomes_of_many_at_once(client: Client, scene: Scene, outcome: str, ours: Peer) -> None:
    queue, dead = dead_letter_queues(scene)
    connection = filled(client, queue, *[data(b"%d" % number) for number in range(200)])
    receiver = connection.receiver(queue)
    receiver.settle(receiver.receive(200), outcome)
    receiver.detach()
    expected = {"accepted": (0, 0), "released": (200, 0), "rejected": (0, 200)}[outcome]
    channel = scene.channel()
    left = bodies(channel, queue)
    assert (len(left), len(bodies(channel, dead))) == expected
    assert left == [b"%d" % number for number in range(len(left))]
