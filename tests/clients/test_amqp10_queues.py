"""Queue policies as clients of AMQP 1.0 meet them: order, rings, keys, groups, time, dynamic nodes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.clients.amqp10 import Client, Connection, data, texts
from tests.clients.driven import Refused, Typed
from tests.clients.support import PATIENCE_SECONDS, Scene, depth

pytestmark = pytest.mark.usefixtures("ours")


def queue_with(scene: Scene, **arguments: Any) -> str:
    """Declare a queue with arguments named without their ``x-``."""
    return scene.queue(
        scene.channel(), arguments={f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    )


def dynamic(connection: Connection, **properties: Any) -> str:
    """Let the broker make a queue with node properties and return its address; it stays until the connection ends."""
    named = {name.replace("_", "-"): value for name, value in properties.items()}
    return connection.sender(dynamic=True, node_properties=named).address


def all_of(connection: Connection, queue: str, credit: int = 100) -> list[Any]:
    """Return the bodies of everything that a consumer can have."""
    receiver = connection.receiver(queue)
    messages = receiver.everything(credit)
    receiver.settle(messages, "accepted")
    return texts(messages)


def test_a_ring_keeps_the_newest(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, ring_size=3)
    connection.sender(queue).accepted(*[data(b"%d" % number) for number in range(10)])
    assert all_of(connection, queue) == [b"7", b"8", b"9"]


def test_a_last_value_queue_keeps_the_newest_of_each_key(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, last_value_key="sensor")
    sender = connection.sender(queue)
    for sensor, reading in [("a", b"a1"), ("b", b"b1"), ("a", b"a2"), ("c", b"c1"), ("b", b"b2")]:
        sender.accepted(data(reading, properties={"sensor": sensor}))
    assert all_of(connection, queue) == [b"a2", b"c1", b"b2"]


def test_priorities_come_first(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, priorities=10)
    connection.sender(queue).accepted(
        *[data(b"%d" % priority, priority=priority) for priority in (1, 9, 4, 7)], data(b"none")
    )
    assert all_of(connection, queue) == [b"9", b"7", b"4", b"none", b"1"]


def test_a_sorted_queue_sorts_by_a_property(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, sort_key="rank")
    connection.sender(queue).accepted(*[data(b"%d" % rank, properties={"rank": rank}) for rank in (5, 1, 3)])
    assert all_of(connection, queue) == [b"1", b"3", b"5"]


def test_a_group_stays_with_its_consumer(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, group_mode="sticky")
    receivers = [connection.receiver(queue) for _ in range(2)]
    for receiver in receivers:
        receiver.grant(50)
    groups = ["red", "blue", "red", "red", "blue", "green", "red", "green"]
    connection.sender(queue).accepted(
        *[data(b"%s%d" % (group.encode(), number), group_id=group) for number, group in enumerate(groups)]
    )
    shares = [texts(receiver.pending()) for receiver in receivers]
    assert sorted(shares[0] + shares[1]) == sorted(
        b"%s%d" % (group.encode(), number) for number, group in enumerate(groups)
    )
    for group in (b"red", b"blue", b"green"):
        owners = [[body for body in share if body.startswith(group)] for share in shares]
        assert [] in owners, owners
        assert all(share == sorted(share) for share in owners)


def test_a_non_destructive_queue_keeps_what_it_shows(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, non_destructive=True)
    connection.sender(queue).accepted(data(b"1"), data(b"2"))
    assert all_of(connection, queue) == [b"1", b"2"]
    assert all_of(connection, queue) == [b"1", b"2"]


def test_a_message_expires(client: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, queue = client.connect(), scene.queue(channel)
    past = int(time.time() * 1000) - 1000
    connection.sender(queue).accepted(
        data(b"short", ttl=40), data(b"past", absolute_expiry_time=past), data(b"long", ttl=3_600_000), data(b"none")
    )
    deadline = time.monotonic() + PATIENCE_SECONDS
    while depth(channel, queue) > 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    receiver = connection.receiver(queue)
    left = receiver.everything()
    assert texts(left) == [b"long", b"none"]
    assert 3_500_000 < left[0]["ttl"] <= 3_600_000  # what is left of it (§3.2.1)


def test_a_time_to_live_of_zero_is_none(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    connection.sender(queue).accepted(data(b"x", ttl=0))
    assert all_of(connection, queue) == [b"x"]


def test_a_delayed_message_waits(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    sender, receiver = connection.sender(queue), connection.receiver(queue)
    receiver.grant(5)
    started = time.time()
    at = int((started + 0.5) * 1000)
    sender.accepted(
        data(b"later", annotations={"x-opt-delivery-time": at}),
        data(b"delayed", annotations={"x-opt-delivery-delay": 250}),
        data(b"far", annotations={"x-opt-delivery-time": at + 3_600_000}),
        data(b"now"),
    )
    assert texts(receiver.receive(1, grant=False)) == [b"now"]
    assert texts(receiver.receive(1, grant=False)) == [b"delayed"]
    assert time.time() - started >= 0.25
    assert texts(receiver.receive(1, grant=False)) == [b"later"]
    assert time.time() * 1000 >= at


def test_a_consumer_of_higher_priority_is_served_first(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    low = connection.receiver(queue, properties={"priority": Typed("int", 1)})
    high = connection.receiver(queue, properties={"priority": Typed("int", 9)})
    low.grant(10)
    high.grant(2)
    connection.sender(queue).accepted(*[data(b"%d" % number) for number in range(4)])
    assert texts(high.receive(2, grant=False)) == [b"0", b"1"]
    assert texts(low.receive(2, grant=False)) == [b"2", b"3"]


def test_a_full_queue_that_blocks_holds_back_the_credit(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), queue_with(scene, max_length=5, overflow="block")
    sender = connection.sender(queue)
    credit = sender.wait_credit()
    sender.send(*[data(b"%d" % number) for number in range(credit)], wait=False)
    with pytest.raises(Refused, match="timeout"):
        sender.wait_credit(1, seconds=0.3)
    receiver = client.connect().receiver(queue)
    assert len(receiver.take(credit)) == credit
    sender.accepted(data(b"again"))


# ---------------------------------------------------------------------- dynamic nodes


@pytest.mark.parametrize("name", ["ring-size", "x-ring-size"])
def test_a_dynamic_node_takes_queue_arguments(client: Client, scene: Scene, name: str) -> None:
    connection = client.connect()
    sender = connection.sender(dynamic=True, node_properties={name: 2})
    assert sender.facts["dynamic"]
    sender.accepted(*[data(b"%d" % number) for number in range(4)])
    assert all_of(connection, sender.address) == [b"2", b"3"]


def test_a_dynamic_node_refuses_what_it_does_not_know(client: Client, scene: Scene) -> None:
    with pytest.raises(Refused) as caught:
        client.connect().sender(dynamic=True, node_properties={"ring-sise": 2})
    assert caught.value.condition in {"amqp:invalid-field", "amqp:precondition-failed"}
    assert "ring-size" in caught.value.text


def test_others_may_send_to_a_dynamic_source(client: Client, scene: Scene) -> None:
    receiver = client.connect().receiver(dynamic=True)
    client.connect().sender(receiver.address).accepted(data(b"hello"))
    assert texts(receiver.take()) == [b"hello"]


def exists(scene: Scene, queue: str) -> bool:
    """Say whether a queue is there."""
    try:
        scene.channel().queue_declare(queue, passive=True)
    except ChannelClosedByBroker as error:
        return error.reply_code != 404
    return True


def gone_soon(scene: Scene, queue: str) -> bool:
    """Say whether a queue is gone before patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while exists(scene, queue):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_dynamic_node_goes_with_its_connection(client: Client, scene: Scene) -> None:
    connection = client.connect()
    queue = dynamic(connection)
    assert exists(scene, queue)
    connection.close()
    assert gone_soon(scene, queue)


LIFETIMES = {
    "delete-on-close": 0x2B,
    "delete-on-no-links": 0x2C,
    "delete-on-no-messages": 0x2D,
    "delete-on-no-links-or-messages": 0x2E,
}


def lifetime(name: str) -> dict[str, Typed]:
    """Return the node property of a lifetime policy (§3.5.10 to §3.5.13)."""
    return {"lifetime-policy": Typed("described", [Typed("ulong", LIFETIMES[name]), []])}


def test_delete_on_close_goes_with_the_link_that_made_it(client: Client, scene: Scene) -> None:
    connection = client.connect()
    sender = connection.sender(dynamic=True, node_properties=lifetime("delete-on-close"))
    sender.accepted(data(b"lost"))
    assert exists(scene, sender.address)
    sender.detach()
    assert gone_soon(scene, sender.address)


def test_delete_on_no_links_stays_while_a_link_is_there(client: Client, scene: Scene) -> None:
    connection = client.connect()
    sender = connection.sender(dynamic=True, node_properties=lifetime("delete-on-no-links"))
    receiver = client.connect().receiver(sender.address)
    sender.accepted(data(b"x"))
    sender.detach()
    assert texts(receiver.take()) == [b"x"]
    receiver.detach()
    assert gone_soon(scene, sender.address)


def test_delete_on_no_links_or_messages_stays_while_it_holds_any(client: Client, scene: Scene) -> None:
    connection = client.connect()
    sender = connection.sender(dynamic=True, node_properties=lifetime("delete-on-no-links-or-messages"))
    sender.accepted(data(b"x"))
    sender.detach()
    assert exists(scene, sender.address)
    receiver = connection.receiver(sender.address)
    assert texts(receiver.take()) == [b"x"]
    receiver.detach()
    assert gone_soon(scene, sender.address)
