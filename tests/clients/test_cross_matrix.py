"""Published with each client, consumed with each other: bodies, properties, ids, queue policies, dead letters.

What each protocol makes of the others' messages is in docs/conversion.md; here is what a receiver understands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.clients.driven import Typed
from tests.clients.matrix_clients import (
    BYTES,
    FAIL,
    LIST,
    MAKERS,
    MAP,
    REJECT,
    TEXT,
    NotAccepted,
    Told,
    missing,
    text_of,
)
from tests.clients.support import Peer, Scene, bodies

pytestmark = pytest.mark.usefixtures("ours")

OLD = "python3-amqplib"  # AMQP 0-8
MARKS = {
    "proton": [pytest.mark.debian],
    "rhea": [pytest.mark.node],
    "amqplib": [pytest.mark.node],
    OLD: [pytest.mark.debian],
}
NAMES = [pytest.param(name, marks=MARKS.get(name, [])) for name in MAKERS]
AMQP10 = ("proton", "rhea")
AMQP091 = ("pika", "amqplib", OLD)


class Clients:
    """Each client, started when first asked for and kept for the whole matrix."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._clients: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """Return a client; skips the test where it is not installed."""
        if missing(name):
            pytest.skip(missing(name))
        if name not in self._clients:
            self._clients[name] = MAKERS[name](self.peer)
        return self._clients[name]

    def close(self) -> None:
        """Close all."""
        for client in self._clients.values():
            client.close()


@pytest.fixture(scope="module")
def clients(peer: Peer) -> Iterator[Clients]:
    clients = Clients(peer)
    yield clients
    clients.close()


PROPERTIES = {
    "text": "grün", "empty": "", "yes": True, "no": False, "small": 7, "negative": -300, "large": 2**40,
    "fraction": 2.5, "octets": b"\x00\xff",
}  # fmt: skip

MESSAGES = [
    Told(BYTES, b"octets \xff"),
    Told(BYTES, b""),
    Told(BYTES, b"\0" * 5),
    Told(BYTES, bytes(range(256)) * 400),
    Told(BYTES, b'{"a": 1}', content_type="application/json"),
    Told(BYTES, b"\x89PNG", content_type="image/png"),
    Told(TEXT, "a text: \u00e9, \u4e16, \U0001f4a7\nand a line"),
    Told(TEXT, "<p>", content_type="text/html"),
    Told(MAP, {"name": "x", "number": 7, "truth": True, "fraction": 0.5, "inner": {"deep": "y"}}),
    Told(LIST, ["a", 1, False, 2.5, ["nested"]]),
    Told(
        BYTES, b"everything", message_id="m-1", correlation_id="c-1", reply_to="answers", subject="greeting",
        group_id="g-1", group_sequence=3, priority=7, durable=True, ttl=3_600_000, properties=PROPERTIES,
    ),
    Told(BYTES, b"octet of one", message_id="123", correlation_id="caf\u00e9", priority=0),
]  # fmt: skip


def plain(value: Any) -> Any:
    """Return a value without its type, as far as the protocols agree on it."""
    if isinstance(value, Typed):
        return plain(value.value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def understood(message: Told, sender: str, receiver: str) -> Told:
    """Return what a receiver should understand."""
    expected = replace(message, properties=dict(message.properties))
    if receiver == OLD:
        expected.properties = {name: in_0_8(value) for name, value in message.properties.items()}
    if "stomp.py" in (sender, receiver):
        expected.properties = {name: text_of(value) for name, value in message.properties.items()}
    if "pika" in (sender, receiver):
        expected.properties.pop("fraction", None)
    if message.ttl is not None:
        expected.ttl = None  # told by itself: some say what is left of it
    if expected.priority == 4 and receiver in AMQP10:
        expected.priority = None
    return expected


def in_0_8(value: Any) -> Any:
    """Return a property as tables of AMQP 0-8 have it: texts and integers of 32 bits."""
    if isinstance(value, float) or (isinstance(value, int) and not -(2**31) <= value < 2**31):
        return str(value)
    return value


def can_say(client: str, value: Any) -> bool:
    """Say whether a client writes and reads a property of this type."""
    if client == "pika":  # it writes no floating point numbers and reads them as whole
        return type(value) is not float
    return client != OLD or (in_0_8(value) == value and type(value) in (str, int))


def sendable(message: Told, sender: str, receiver: str) -> Told:
    """Return what the sender can say of a message and the receiver can bear: amqplib fails on octets in headers."""
    properties = {
        name: value
        for name, value in message.properties.items()
        if can_say(sender, value) and not (receiver == OLD and isinstance(value, bytes))
    }
    return replace(message, properties=properties)


def heard(message: Told, expected: Told) -> Told:
    """Return what was received in the form of what is expected."""
    found = replace(message, body=plain(message.body), properties=plain(message.properties), ttl=None, extra={})
    if "fraction" not in expected.properties:
        found.properties.pop("fraction", None)
    found.message_id, found.correlation_id = plain(message.message_id), plain(message.correlation_id)
    found.group_sequence = plain(message.group_sequence)
    if expected.content_type is None:
        found.content_type = None  # the kind is compared
    if expected.priority is None and found.priority == 4:
        found.priority = None  # the default, said or not
    return found


@pytest.mark.parametrize("receiver", NAMES)
@pytest.mark.parametrize("sender", NAMES)
def test_every_message_from_each_to_each(clients: Clients, scene: Scene, sender: str, receiver: str) -> None:
    queue = scene.queue(scene.channel(), durable=True)
    sending, receiving = clients.get(sender), clients.get(receiver)
    messages = [sendable(message, sender, receiver) for message in MESSAGES]
    for message in messages:
        sending.publish(queue, message)
    for sent, received in zip(messages, receiving.receive(queue, len(MESSAGES)), strict=True):
        expected = understood(sent, sender, receiver)
        assert heard(received, expected) == expected
        if sent.ttl is not None:
            assert received.ttl is not None
            assert 3_500_000 < received.ttl <= sent.ttl


IDENTIFIERS = [
    (Typed("ulong", 2**60 + 1), f"ID:AMQP_ULONG:{2**60 + 1}"),
    (Typed("uuid", "01234567-89ab-cdef-0123-456789abcdef"), "ID:AMQP_UUID:01234567-89ab-cdef-0123-456789abcdef"),
    (b"\x00\xff", "ID:AMQP_BINARY:00FF"),
    ("ID:AMQP_ULONG:7", "ID:AMQP_STRING:ID:AMQP_ULONG:7"),
]


@pytest.mark.parametrize("other", [name for name in NAMES if name.values[0] not in AMQP10])
@pytest.mark.parametrize("client", [name for name in NAMES if name.values[0] in AMQP10])
def test_a_reply_gives_the_requester_the_id_it_sent(clients: Clients, scene: Scene, client: str, other: str) -> None:
    """A responder copies the message id into the correlation id, whatever it looks like to it."""
    queue, answers = scene.queue(scene.channel()), scene.queue(scene.channel())
    for identifier, text in IDENTIFIERS:
        clients.get(client).publish(queue, Told(BYTES, b"?", message_id=identifier, reply_to=answers))
        (request,) = clients.get(other).receive(queue, 1)
        assert request.message_id == text
        clients.get(other).publish(request.reply_to, Told(BYTES, b"!", correlation_id=request.message_id))
        (answer,) = clients.get(client).receive(answers, 1)
        assert answer.correlation_id == identifier


@pytest.mark.parametrize("other", [name for name in NAMES if name.values[0] != "stomp.py"])
def test_each_can_answer_a_request_of_stomp(clients: Clients, scene: Scene, other: str) -> None:
    """``/queue/name`` is how STOMP spells what a reply of AMQP 0-9-1 has to have as its routing key."""
    queue, answers = scene.queue(scene.channel()), scene.queue(scene.channel())
    stomp, responder = clients.get("stomp.py"), clients.get(other)
    stomp.publish(queue, Told(BYTES, b"?", message_id="m", reply_to=f"/queue/{answers}"))
    (request,) = responder.receive(queue, 1)
    responder.publish(request.reply_to, Told(BYTES, b"!", correlation_id=request.message_id))
    (answer,) = stomp.receive(answers, 1)
    assert (answer.body, answer.correlation_id) == (b"!", "m")


@pytest.mark.debian
def test_to_leads_where_the_message_was_sent_whatever_the_names(clients: Clients, scene: Scene) -> None:
    channel = scene.channel()
    queue, exchange, key = scene.queue(channel), scene.name("logs/all"), "a/b c%2F"
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(queue, exchange, key)
    channel.basic_publish(exchange, key, b"there")
    client = clients.get("proton")
    (received,) = client.receive(queue, 1)
    client.publish(received.extra["to"], Told(BYTES, b"and back"))
    assert bodies(channel, queue) == [b"and back"]


TYPED = {
    "byte": Typed("byte", -1), "short": Typed("short", -300), "int": Typed("int", -70_000),
    "ubyte": Typed("ubyte", 200), "ushort": Typed("ushort", 60_000), "uint": Typed("uint", 4_000_000_000),
    "ulong": Typed("ulong", 2**63 + 1), "float": Typed("float", 0.5), "char": Typed("char", "\u00e9"),
    "symbol": Typed("symbol", "name"), "timestamp": Typed("timestamp", 1_700_000_000_123),
    "uuid": Typed("uuid", "01234567-89ab-cdef-0123-456789abcdef"), "long": -(2**40), "octets": b"\x00\x01",
}  # fmt: skip
"""Application properties of AMQP 1.0 types, most of which AMQP 0-9-1 tables have under another name or not at all."""


@pytest.mark.debian
def test_types_of_amqp_1_0_survive_a_detour_over_amqp_0_9_1(clients: Clients, scene: Scene) -> None:
    """A 0-9-1 application that passes headers on as it got them, as a shovel does."""
    channel = scene.channel()
    queue, onward = scene.queue(channel), scene.queue(channel)
    identifier = Typed("ulong", 7)
    clients.get("proton").publish(queue, Told(MAP, {"a": Typed("uint", 1)}, message_id=identifier, properties=TYPED))
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    channel.basic_publish("", onward, body, properties)
    (received,) = clients.get("proton").receive(onward, 1)
    assert received.message_id == identifier
    kept = {name: TYPED[name] for name in ("ulong", "char", "symbol", "uuid", "long", "octets")}  # pika widens the rest
    assert {name: value for name, value in received.properties.items() if name in kept} == kept
    assert {name: plain(received.properties[name]) for name in TYPED if name != "float"} == {
        name: plain(value) for name, value in TYPED.items() if name != "float"
    }
    assert received.body == {"a": Typed("uint", 1)}


# ---------------------------------------------------------------------- queue policies


def numbered(*numbers: int, **fields: Any) -> list[Told]:
    """Return messages whose bodies are numbers."""
    return [Told(BYTES, b"%d" % number, **fields) for number in numbers]


def keyed(*pairs: tuple[str, int]) -> list[Told]:
    """Return messages with the property ``key``."""
    return [Told(BYTES, b"%d" % number, properties={"key": key}) for key, number in pairs]


POLICIES: dict[str, tuple[dict[str, Any], list[Told], list[int]]] = {
    "ring": ({"ring-size": 3}, numbered(1, 2, 3, 4, 5), [3, 4, 5]),
    "last value": ({"last-value-key": "key"}, keyed(("a", 1), ("b", 2), ("a", 3), ("c", 4), ("c", 5)), [2, 3, 5]),
    "keep per key": (
        {"last-value-key": "key", "keep-per-key": 2},
        keyed(("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)),
        [2, 3, 4, 5],
    ),
    "priority": (
        {"priorities": 10},
        [Told(BYTES, b"%d" % number, priority=number) for number in (1, 9, 5, 7)],
        [9, 7, 5, 1],
    ),
    "sorted": ({"sort-key": "key"}, keyed(("c", 1), ("a", 2), ("b", 3)), [2, 3, 1]),
    "ring of last values": (
        {"last-value-key": "key", "ring-size": 2}, keyed(("a", 1), ("b", 2), ("a", 3), ("c", 4)), [3, 4],
    ),
    "last value in its place": (
        {"last-value-key": "key", "last-value-place": "keep-place"}, keyed(("a", 1), ("b", 2), ("a", 3)), [3, 2],
    ),
    "RabbitMQ's priority": ({"max-priority": 9}, numbered(2) + numbered(1, priority=3), [1, 2]),
    "drop head": ({"max-length": 2}, numbered(1, 2, 3), [2, 3]),
    "drop head by octets": ({"max-bytes": 4}, numbered(11, 22, 33), [22, 33]),
    "evict the newest": ({"max-length": 2, "evict": "newest"}, numbered(1, 2, 3), [1, 2]),
    "evict the largest": ({"max-length": 2, "evict": "largest"}, numbered(1, 222, 33), [1, 33]),
    "time to live": ({"message-ttl": 3_600_000}, numbered(1, 2), [1, 2]),
    "at least so long": ({"min-ttl": 3_600_000}, numbered(1, 2, ttl=1), [1, 2]),
    "selector": ({"selector": "key = 'a'"}, keyed(("a", 1), ("b", 2), ("a", 3)), [1, 3]),
    "turns": ({"fair-key": "key"}, keyed(("a", 1), ("a", 2), ("b", 3), ("b", 4)), [1, 3, 2, 4]),
    "sent twice": ({"ring-size": 9}, numbered(1, 2, properties={"x-duplicate-id": "d"}) + numbered(3), [1, 3]),
    "exclusive consumer": ({"exclusive-consumer": True}, numbered(1, 2), [1, 2]),
    "nothing without a consumer": ({"purge-on-no-consumers": True}, numbered(1, 2), []),
}  # fmt: skip
"""Arguments, what is published, what is there afterwards. What several consumers at once are needed for (in delivery at
most, live consumers, gates before dispatch) has its tests with one client, as has what a consumer asks for."""

WAYS = [
    ("pika", "proton", "stomp.py"),
    ("pika", "stomp.py", "rhea"),
    ("proton", "pika", "stomp.py"),
    ("proton", "stomp.py", "amqplib"),
    ("rhea", "amqplib", "proton"),
    ("stomp.py", "rhea", "pika"),
    ("stomp.py", "pika", "proton"),
    ("stomp.py", "amqplib", "rhea"),
    (OLD, "rhea", "pika"),
    ("rhea", OLD, "stomp.py"),
    ("proton", "amqplib", OLD),
]
"""Who declares the queue, who publishes, who consumes."""

ALL_WAYS = [
    pytest.param(*way, marks=[mark for name in way for mark in MARKS.get(name, [])], id="-".join(way)) for way in WAYS
]


@pytest.mark.parametrize(("creator", "sender", "receiver"), ALL_WAYS)
def test_every_policy_declared_by_one_holds_for_all(
    clients: Clients, scene: Scene, creator: str, sender: str, receiver: str
) -> None:
    channel = scene.channel()
    for policy, (arguments, messages, left) in POLICIES.items():
        queue = clients.get(creator).create(scene.name(), arguments)
        for message in messages:
            clients.get(sender).publish(queue, message)
        clients.get(sender).publish(queue, last := Told(BYTES, b"0", properties={"key": "a"}, priority=0))
        expected = after_the_last(policy, left, last)
        taken = clients.get(receiver).receive(queue, len(expected)) if expected else []
        assert (policy, [int(told.body) for told in taken]) == (policy, expected)
        assert (policy, bodies(channel, queue)) == (policy, [])


def after_the_last(policy: str, left: list[int], last: Told) -> list[int]:
    """Return what is left after one more message came: number 0, key a, lowest priority."""
    number = int(last.body)
    return {
        "ring": [*left[1:], number],
        "last value": [2, 5, number],
        "keep per key": [2, 4, 5, number],
        "sorted": [2, number, 3, 1],
        "ring of last values": [4, number],
        "last value in its place": [number, 2],
        "drop head": [*left[1:], number],
        "drop head by octets": [33, number],
        "evict the newest": left,
        "evict the largest": [1, number],
        "nothing without a consumer": [],
    }.get(policy, [*left, number])


@pytest.mark.parametrize(("creator", "sender", "receiver"), ALL_WAYS)
def test_a_full_queue_tells_each_sender(
    clients: Clients, scene: Scene, creator: str, sender: str, receiver: str
) -> None:
    queue = clients.get(creator).create(scene.name(), {"max-length": 2, "overflow": "reject"})
    for message in numbered(1, 2):
        clients.get(sender).publish(queue, message)
    with pytest.raises(NotAccepted):
        clients.get(sender).publish(queue, Told(BYTES, b"3"))
    assert [told.body for told in clients.get(receiver).receive(queue, 2)] == [b"1", b"2"]


@pytest.mark.parametrize(("creator", "sender", "receiver"), ALL_WAYS)
def test_a_non_destructive_queue_shows_everybody_everything(
    clients: Clients, scene: Scene, creator: str, sender: str, receiver: str
) -> None:
    queue = clients.get(creator).create(scene.name(), {"non-destructive": True})
    for message in numbered(1, 2):
        clients.get(sender).publish(queue, message)
    for name in (receiver, creator, sender):
        if name not in {"pika", OLD}:  # basic.get takes the first again and again
            assert [told.body for told in clients.get(name).receive(queue, 2)] == [b"1", b"2"]


def death_of(told: Told, receiver: str) -> dict[str, Any]:
    """Return the latest record of a dead letter's trail, as the receiver's protocol has it."""
    if receiver in AMQP091:
        record = told.extra["x-death"]["0" if receiver == OLD else 0]  # AMQP 0-8 has no arrays
    elif receiver in AMQP10:
        record = told.extra["x-opt-deaths"][0]
    else:
        record = json.loads(told.extra["x-death"])[0]
    return {str(name): plain(value) for name, value in record.items()}


@pytest.mark.parametrize(("sender", "rejecting", "receiver"), ALL_WAYS)
def test_dead_letters_tell_each_where_they_come_from(
    clients: Clients, scene: Scene, sender: str, rejecting: str, receiver: str
) -> None:
    channel = scene.channel()
    dead = scene.queue(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = scene.queue(channel, arguments=arguments)
    clients.get(sender).publish(queue, Told(TEXT, "bad", message_id="m", properties={"own": "kept"}))
    clients.get(rejecting).receive(queue, 1, settle=REJECT)
    (letter,) = clients.get(receiver).receive(dead, 1)
    assert (letter.kind, letter.body, letter.message_id) == (TEXT, "bad", "m")
    assert letter.properties["own"] == "kept"
    death = death_of(letter, receiver)
    assert (death["queue"], death["reason"], int(death["count"])) == (queue, "rejected", 1)


@pytest.mark.parametrize(("creator", "failing", "receiver"), ALL_WAYS)
def test_attempts_of_each_count(clients: Clients, scene: Scene, creator: str, failing: str, receiver: str) -> None:
    channel = scene.channel()
    dead = scene.queue(channel)
    arguments = {"max-delivery-attempts": 1, "dead-letter-address": dead}
    queue = clients.get(creator).create(scene.name(), arguments)
    clients.get(receiver).publish(queue, Told(BYTES, b"too hard", message_id="m"))
    clients.get(failing).receive(queue, 1, settle=FAIL)
    (letter,) = clients.get(receiver).receive(dead, 1)
    assert (letter.body, letter.message_id) == (b"too hard", "m")
    assert death_of(letter, receiver)["reason"] == "delivery_limit"


@pytest.mark.parametrize(("creator", "sender", "receiver"), ALL_WAYS)
def test_what_a_ring_drops_is_sent_where_its_creator_wants(
    clients: Clients, scene: Scene, creator: str, sender: str, receiver: str
) -> None:
    dropped = scene.queue(scene.channel())
    queue = clients.get(creator).create(scene.name(), {"ring-size": 1, "dropped-address": dropped})
    for message in numbered(1, 2, 3, message_id="m"):
        clients.get(sender).publish(queue, message)
    taken = clients.get(receiver).receive(dropped, 2)
    assert [(told.body, told.message_id) for told in taken] == [(b"1", "m"), (b"2", "m")]
    assert [told.body for told in clients.get(receiver).receive(queue, 1)] == [b"3"]


@pytest.mark.parametrize(("sender", "other", "receiver"), ALL_WAYS)
def test_what_each_schedules_comes_later_to_each(
    clients: Clients, scene: Scene, sender: str, other: str, receiver: str
) -> None:
    queue = scene.queue(scene.channel())
    clients.get(sender).publish(queue, Told(BYTES, b"later", properties={"x-delay": 400}))
    clients.get(other).publish(queue, Told(BYTES, b"at once"))
    assert [told.body for told in clients.get(receiver).receive(queue, 2)] == [b"at once", b"later"]


@pytest.mark.parametrize(("sender", "receiver", "_"), ALL_WAYS)
def test_what_expired_is_a_dead_letter_for_each(
    clients: Clients, scene: Scene, sender: str, receiver: str, _: str
) -> None:
    channel = scene.channel()
    dead = scene.queue(channel)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = scene.queue(channel, arguments=arguments)
    clients.get(sender).publish(queue, Told(BYTES, b"late", ttl=30))
    (letter,) = clients.get(receiver).receive(dead, 1)
    assert letter.body == b"late"
    assert letter.ttl is None  # or it would expire again
    assert death_of(letter, receiver)["reason"] == "expired"


@pytest.mark.parametrize(("sender", "first", "second"), ALL_WAYS)
def test_a_group_comes_in_order_from_each_to_each(
    clients: Clients, scene: Scene, sender: str, first: str, second: str
) -> None:
    channel = scene.channel()
    for arguments in ({"x-group-mode": "sticky"}, {"x-group-mode": "shared"}, {"x-group-buckets": 2}):
        queue = scene.queue(channel, arguments=arguments)
        for number in range(6):
            group = "ab"[number % 2]
            clients.get(sender).publish(queue, Told(BYTES, b"%s%d" % (group.encode(), number), group_id=group))
        taken = clients.get(first).receive(queue, 3) + clients.get(second).receive(queue, 3)
        assert (arguments, sorted(told.group_id or "" for told in taken)) == (arguments, [*"aaabbb"])
        for group in ("a", "b"):
            mine = [told.body for told in taken if told.group_id == group]
            assert (arguments, mine) == (arguments, sorted(mine))
