"""Sending and receiving over AMQP 1.0 with Qpid Proton and rhea: bodies, properties, credit, settlement, frames."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.amqp10 import Client, Message, data, texts, value
from tests.clients.driven import Typed
from tests.clients.support import Peer, Scene

DELIVERY_FIELDS = ("tag", "settled", "first_acquirer")
UUID = "01234567-89ab-cdef-0123-456789abcdef"


def content(message: Message) -> Message:
    """Return what the sender wrote, without what belongs to the delivery."""
    return {name: entry for name, entry in message.items() if name not in DELIVERY_FIELDS}


def round_trip(client: Client, queue: str, message: Message) -> Message:
    """Send and receive one message on a connection of its own."""
    connection = client.connect()
    connection.sender(queue).accepted(message)
    (received,) = connection.receiver(queue).take()
    return content(received)


BODIES = [
    data(b""),
    data(b"octets"),
    data(bytes(range(256)) * 2),
    data(b"\0" * 3),
    data(b"x" * 100_000),
    value("a text, \u00e9\u4e16\U0001f4a7"),
    value(""),
    value(True),
    value(-5),
    value(1.5),
    value(b"value of octets"),
    value({"key": "value", "number": 7, "nothing": None, "deep": {"list": [1, "two", b"3"]}}),
    value(["a", 1, False, None]),
    value(Typed("uint", 7)),
    value(Typed("timestamp", 1_700_000_000_000)),
    value(Typed("uuid", UUID)),
    {"body": [1, "two", b"3"], "section": "sequence"},
]


@pytest.mark.parametrize("message", BODIES, ids=lambda message: f"{message['section']}-{str(message['body'])[:12]!a}")
def test_every_body_comes_through(client: Client, scene: Scene, message: Message, ours: Peer) -> None:
    assert round_trip(client, scene.name(), message) == message


def test_an_empty_value_comes_through(proton: Client, scene: Scene, ours: Peer) -> None:
    assert round_trip(proton, scene.name(), value(None)) == value(None)


def test_header_and_properties_come_through(client: Client, scene: Scene, ours: Peer) -> None:
    message = data(
        b"x", durable=True, priority=7, message_id="m-1", user_id=b"guest", to="somewhere", subject="greeting",
        reply_to="answers", correlation_id="c-1", content_type="text/plain", content_encoding="utf-8",
        creation_time=1_700_000_000_000, group_id="g", group_sequence=3, reply_to_group_id="rg",
    )  # fmt: skip
    assert round_trip(client, scene.name(), message) == message


@pytest.mark.parametrize("identifier", ["text", b"\x00\xff", Typed("ulong", 2**60 + 1), Typed("uuid", UUID)], ids=str)
def test_identifiers_keep_their_type(client: Client, scene: Scene, identifier: Any, ours: Peer) -> None:
    message = data(b"x", message_id=identifier, correlation_id=identifier)
    received = round_trip(client, scene.name(), message)
    assert (received["message_id"], received["correlation_id"]) == (identifier, identifier)


PROPERTIES = {
    "text": "text", "yes": True, "long": -(2**40), "double": 2.5, "binary": b"\x00\x01", "byte": Typed("byte", -1),
    "short": Typed("short", -300), "int": Typed("int", -70_000), "ubyte": Typed("ubyte", 200),
    "ushort": Typed("ushort", 60_000), "uint": Typed("uint", 4_000_000_000), "ulong": Typed("ulong", 2**63 + 1),
    "float": Typed("float", 0.5), "char": Typed("char", "\u00e9"), "symbol": Typed("symbol", "name"),
    "timestamp": Typed("timestamp", 1_700_000_000_123), "uuid": Typed("uuid", UUID),
}  # fmt: skip


def test_application_properties_keep_their_types(client: Client, scene: Scene, ours: Peer) -> None:
    assert round_trip(client, scene.name(), data(b"x", properties=PROPERTIES))["properties"] == PROPERTIES


def test_message_annotations_come_through_and_delivery_annotations_do_not(
    client: Client, scene: Scene, ours: Peer
) -> None:
    """Delivery annotations are for the next node only (§3.2.2)."""
    message = data(b"x", annotations={"x-opt-colour": "blue"}, instructions={"x-opt-hop": "one"})
    received = round_trip(client, scene.name(), message)
    assert received["annotations"] == {"x-opt-colour": "blue"}
    assert "instructions" not in received


def test_many_messages_arrive_in_order(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    messages = [data(b"%d" % number) for number in range(2000)]
    connection.sender(queue).accepted(*messages)
    assert texts(connection.receiver(queue).take(2000)) == texts(messages)


def test_no_more_comes_than_the_credit(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    connection.sender(queue).accepted(*[data(b"%d" % number) for number in range(6)])
    receiver = connection.receiver(queue)
    assert receiver.pending() == []
    receiver.grant(2)
    first = receiver.receive(2, grant=False)
    assert receiver.pending() == []
    receiver.grant(3)
    later = receiver.receive(3, grant=False)
    assert texts(first + later) == [b"0", b"1", b"2", b"3", b"4"]
    assert receiver.pending() == []
    receiver.settle(first + later, "accepted")


def test_credit_waits_for_messages(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    receiver = connection.receiver(queue)
    receiver.grant(5)
    connection.sender(queue).accepted(data(b"later"))
    assert texts(receiver.receive(1, grant=False)) == [b"later"]


def test_drain_gives_back_what_is_not_used(client: Client, scene: Scene, ours: Peer) -> None:
    """RabbitMQ 3.10 ends the session with a function clause."""
    connection, queue = client.connect(), scene.name()
    receiver = connection.receiver(queue)
    assert receiver.drain(10) == 0
    connection.sender(queue).accepted(*[data(b"%d" % number) for number in range(5)])
    assert receiver.drain(3) == 3
    assert receiver.drain(10) == 2
    assert texts(receiver.pending(0)) == [b"0", b"1", b"2", b"3", b"4"]
    assert receiver.credit == 0


def test_messages_sent_settled_have_no_outcome_and_arrive(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    sender = connection.sender(queue, snd_settle_mode=1)
    assert sender.send(*[data(b"%d" % number) for number in range(50)], settled=True) == []
    assert len(connection.receiver(queue).take(50)) == 50


def test_a_receiver_of_settled_messages_acknowledges_nothing(client: Client, scene: Scene, ours: Peer) -> None:
    connection, queue = client.connect(), scene.name()
    connection.sender(queue).accepted(data(b"1"), data(b"2"))
    receiver = connection.receiver(queue, snd_settle_mode=1)
    assert receiver.facts["snd_settle_mode"] == 1
    assert [message["settled"] for message in receiver.receive(2)] == [True, True]
    receiver.detach()
    assert connection.receiver(queue).everything() == []


def test_the_broker_settles_second_when_asked_to(proton: Client, scene: Scene, ours: Peer) -> None:
    connection, queue = proton.connect(), scene.name()
    connection.sender(queue).accepted(data(b"once"))
    receiver = connection.receiver(queue, rcv_settle_mode=1)
    assert receiver.facts["rcv_settle_mode"] == 1
    messages = receiver.receive()
    receiver.settle(messages, "accepted", settled=False)
    proton.driver.ask("wait_settled", link=receiver.name, tag=messages[0]["tag"])
    assert receiver.everything() == []


def test_a_big_message_takes_many_frames(client: Client, scene: Scene) -> None:
    message = data(bytes(range(256)) * 4 * 1024 * 5)
    assert len(message["body"]) == 5 * 1024 * 1024
    assert round_trip(client, scene.name(), message)["body"] == message["body"]


def test_a_peer_with_small_frames_gets_small_frames(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(max_frame_size=1024), scene.name()
    message = data(b"0123456789" * 5000)
    connection.sender(queue).accepted(message, message)
    assert texts(connection.receiver(queue).take(2)) == [message["body"]] * 2


def test_receivers_of_a_queue_share_its_messages(client: Client, scene: Scene) -> None:
    connection, queue = client.connect(), scene.name()
    first, second = connection.receiver(queue), connection.receiver(queue)
    first.grant(10)
    second.grant(10)
    connection.sender(queue).accepted(*[data(b"%d" % number) for number in range(10)])
    taken = first.pending() + second.pending()
    assert sorted(texts(taken)) == [b"%d" % number for number in range(10)]
    assert len(texts(taken)) == 10


def test_request_and_response_over_a_dynamic_node(client: Client, scene: Scene) -> None:
    asking, answering, queue = client.connect(), client.connect(), scene.name()
    requests = answering.receiver(queue)
    answers = asking.receiver(dynamic=True)
    assert answers.address
    asking.sender(queue).accepted(value("question", reply_to=answers.address, correlation_id="7"))
    (request,) = requests.take()
    reply = answering.sender(request["reply_to"])
    reply.accepted(value(f"answer to {request['body']}", correlation_id=request["correlation_id"]))
    (answer,) = answers.take()
    assert (answer["body"], answer["correlation_id"]) == ("answer to question", "7")


def test_the_anonymous_terminus_sends_where_each_message_says(client: Client, scene: Scene, ours: Peer) -> None:
    connection, queues = client.connect(), [scene.name(), scene.name()]
    receivers = [connection.receiver(queue) for queue in queues]
    sender = connection.sender(None)
    sender.accepted(*[value(queue, to=queue) for queue in queues])
    assert [texts(receiver.take()) for receiver in receivers] == [[queue] for queue in queues]


def test_a_message_to_nowhere_on_the_anonymous_terminus_is_rejected_alone(
    client: Client, scene: Scene, ours: Peer
) -> None:
    connection, queue = client.connect(), scene.name()
    receiver, sender = connection.receiver(queue), connection.sender(None)
    without, exchange, fine = sender.send(
        value("a"), value("b", to=f"/exchanges/{scene.name('missing')}/key"), value("c", to=queue)
    )
    assert (without["outcome"], exchange["outcome"], fine["outcome"]) == ("rejected", "rejected", "accepted")
    assert exchange["condition"] == "amqp:not-found"
    assert texts(receiver.take()) == ["c"]


def test_what_is_said_in_open(client: Client, ours: Peer) -> None:
    facts = client.connect().facts
    assert facts["container"]
    assert facts["max_frame_size"] >= 512
    assert "ANONYMOUS-RELAY" in facts["offered"]
