"""Every client the cross matrix publishes and consumes with, behind one small interface.

A message is told as a :class:`Told`: what its sender means and its receiver understands, whatever the protocol. How
each protocol says it is in docs/conversion.md.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pika
import stomp

from tests.clients import amqp10
from tests.clients.driven import DriverProcess, Refused, Typed, from_line, to_line
from tests.clients.qpid_bodies import body_of, read_list, read_map
from tests.clients.support import PATIENCE_SECONDS, Peer

BYTES, TEXT, MAP, LIST = "bytes", "text", "map", "list"
RECORD = "x-annulet-content"
CONTENT_TYPES = {MAP: "amqp/map", LIST: "amqp/list", TEXT: "text/plain"}
FIELDS = ("message_id", "correlation_id", "reply_to", "subject", "content_type", "group_id", "group_sequence")

ACCEPT, REJECT, FAIL = "accept", "reject", "fail"
"""What becomes of what was received: done, to where dead letters go, or back as a failed attempt."""
DEBIAN_PACKAGES = Path("/usr/lib/python3/dist-packages")


@dataclass
class Told:
    """One message as sender and receiver understand it. ``None``: not given."""

    kind: str
    body: Any
    message_id: Any = None
    correlation_id: Any = None
    reply_to: str | None = None
    subject: str | None = None
    content_type: str | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    priority: int | None = None
    durable: bool = False
    ttl: int | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    """What the receiver found besides: annotations, headers of the broker."""


class NotAccepted(Exception):
    """The broker refused a message and said so."""


class PikaClient:
    """pika: AMQP 0-9-1, in this process."""

    def __init__(self, peer: Peer) -> None:
        self.connection = pika.BlockingConnection(peer.parameters())
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def create(self, queue: str, arguments: dict[str, Any]) -> str:
        self.channel.queue_declare(queue, arguments={f"x-{name}": value for name, value in arguments.items()})
        return queue

    def publish(self, queue: str, message: Told) -> None:
        headers = dict(message.properties)
        if message.group_id is not None:
            headers["JMSXGroupID"] = message.group_id
        if message.group_sequence is not None:
            headers["JMSXGroupSeq"] = message.group_sequence
        properties = pika.BasicProperties(
            content_type=message.content_type or CONTENT_TYPES.get(message.kind),
            headers=headers or None, delivery_mode=2 if message.durable else None, priority=message.priority,
            correlation_id=message.correlation_id, reply_to=message.reply_to, message_id=message.message_id,
            expiration=None if message.ttl is None else str(message.ttl), type=message.subject,
        )  # fmt: skip
        try:
            self.channel.basic_publish("", queue, encoded(message), properties)
        except pika.exceptions.NackError as error:
            raise NotAccepted(str(error)) from error

    def receive(self, queue: str, count: int, *, settle: str = ACCEPT) -> list[Told]:
        received: list[Told] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(received) < count:
            method, properties, body = self.channel.basic_get(queue)
            if method is None:
                assert time.monotonic() < deadline, f"{len(received)} of {count} messages came to {queue}"
                self.connection.process_data_events(time_limit=0.01)
                continue
            if settle == ACCEPT:
                self.channel.basic_ack(method.delivery_tag)
            else:
                self.channel.basic_reject(method.delivery_tag, requeue=settle == FAIL)
            received.append(told_in_0_9_1(properties, body))
        return received

    def close(self) -> None:
        self.connection.close()


def encoded(message: Told) -> bytes:
    """Return the body of a message of AMQP 0-9-1."""
    if message.kind == TEXT:
        return str(message.body).encode()
    return body_of(message.body) if message.kind in {MAP, LIST} else bytes(message.body)


def understand_body(told: Told, content_type: str | None, body: bytes) -> None:
    """Note what a body of AMQP 0-9-1 says."""
    told.kind, told.body, told.content_type = BYTES, body, content_type
    if content_type == CONTENT_TYPES[MAP]:
        told.kind, told.body = MAP, read_map(body)
    elif content_type == CONTENT_TYPES[LIST]:
        told.kind, told.body = LIST, read_list(body)
    elif content_type is not None and content_type.startswith("text/"):
        told.kind, told.body = TEXT, body.decode()


def told_in_0_9_1(properties: pika.BasicProperties, body: bytes) -> Told:
    """Return what a client of AMQP 0-9-1 understands of a message."""
    told = Told(BYTES, body)
    understand_body(told, properties.content_type, body)
    told.message_id, told.correlation_id = properties.message_id, properties.correlation_id
    told.reply_to, told.subject, told.priority = properties.reply_to, properties.type, properties.priority
    told.durable = properties.delivery_mode == 2
    told.ttl = None if properties.expiration is None else int(properties.expiration)
    sort_out_headers(told, dict(properties.headers or {}))
    return told


class PythonAmqplibClient:
    """Debian's python3-amqplib: AMQP 0-8, in this process. It has no confirms: mandatory messages come back."""

    def __init__(self, peer: Peer) -> None:
        self.library = debian_amqplib()
        self.connection = self.library.Connection(f"{peer.host}:{peer.port}")
        self.channel = self.connection.channel()

    def create(self, queue: str, arguments: dict[str, Any]) -> str:
        named = {f"x-{name}": value for name, value in arguments.items()}
        self.channel.queue_declare(queue, auto_delete=False, arguments=named)
        return queue

    def publish(self, queue: str, message: Told) -> None:
        headers = dict(message.properties)
        if message.group_id is not None:
            headers["JMSXGroupID"] = message.group_id
        if message.group_sequence is not None:
            headers["JMSXGroupSeq"] = message.group_sequence
        given = {
            "content_type": message.content_type or CONTENT_TYPES.get(message.kind), "application_headers": headers,
            "delivery_mode": 2 if message.durable else None, "priority": message.priority,
            "correlation_id": message.correlation_id, "reply_to": message.reply_to, "message_id": message.message_id,
            "expiration": None if message.ttl is None else str(message.ttl), "type": message.subject,
        }  # fmt: skip
        properties = {name: value for name, value in given.items() if value is not None}
        sent = self.library.Message(encoded(message), **properties)
        self.channel.basic_publish(sent, routing_key=queue, mandatory=True)
        self.channel.queue_declare(queue, passive=True)  # answered after what was sent before
        returned = self.channel.returned_messages
        while not returned.empty():
            code, text, *_ = returned.get()
            if code == 506:  # resource error: the queue is full
                raise NotAccepted(text)

    def receive(self, queue: str, count: int, *, settle: str = ACCEPT) -> list[Told]:
        received: list[Told] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(received) < count:
            message = self.channel.basic_get(queue)
            if message is None:
                assert time.monotonic() < deadline, f"{len(received)} of {count} messages came to {queue}"
                time.sleep(0.01)  # there is no other way to wait with basic.get
                continue
            if settle == ACCEPT:
                self.channel.basic_ack(message.delivery_tag)
            else:
                self.channel.basic_reject(message.delivery_tag, settle == FAIL)
            known = {name: value for name, value in message.properties.items() if name != "application_headers"}
            headers = message.properties.get("application_headers")
            body = message.body or b""  # amqplib makes a text of no octets
            received.append(told_in_0_9_1(pika.BasicProperties(headers=headers, **known), body))
        return received

    def close(self) -> None:
        self.channel.close()
        self.connection.close()


def debian_amqplib() -> Any:
    """Import python3-amqplib; its folder holds other packages that the tests must not see."""
    sys.path.append(str(DEBIAN_PACKAGES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("amqplib.client_0_8")
    finally:
        sys.path.remove(str(DEBIAN_PACKAGES))


def sort_out_headers(told: Told, headers: dict[str, Any]) -> None:
    """Put 0-9-1 headers where they belong: groups, what the broker says, the application's own."""
    told.group_id = headers.pop("JMSXGroupID", None)
    told.group_sequence = headers.pop("JMSXGroupSeq", None)
    for name in [RECORD, *[name for name in headers if name.startswith(("x-", "_AMQ"))]]:
        if name in headers:
            told.extra[name] = headers.pop(name)
    told.properties = headers


class AmqplibClient:
    """amqplib of Node.js: AMQP 0-9-1."""

    def __init__(self, peer: Peer) -> None:
        self.driver = DriverProcess(["node", str(amqp10.NODE / "amqplib_driver.mjs")], folder=amqp10.NODE)
        self.driver.ask("connect", url=peer.url)

    def publish(self, queue: str, message: Told) -> None:
        options = {
            "contentType": message.content_type or CONTENT_TYPES.get(message.kind), "persistent": message.durable,
            "priority": message.priority, "correlationId": message.correlation_id, "replyTo": message.reply_to,
            "messageId": message.message_id, "expiration": message.ttl, "type": message.subject,
        }  # fmt: skip
        headers = dict(message.properties)
        if message.group_id is not None:
            headers["JMSXGroupID"] = message.group_id
        if message.group_sequence is not None:
            headers["JMSXGroupSeq"] = Typed("int", message.group_sequence)  # the JMS type; amqplib would pick a byte
        try:
            self.driver.ask(
                "publish", queue=queue, body=to_line(encoded(message)),
                options={name: value for name, value in options.items() if value is not None},
                headers=[[name, to_line(value)] for name, value in headers.items()],
            )  # fmt: skip
        except Refused as error:
            raise NotAccepted(str(error)) from error

    def receive(self, queue: str, count: int, *, settle: str = ACCEPT) -> list[Told]:
        return [self._told(line) for line in self.driver.ask("receive", queue=queue, count=count, settle=settle)]

    @staticmethod
    def _told(line: dict[str, Any]) -> Told:
        options = line["options"]
        told = Told(BYTES, b"")
        understand_body(told, options.get("contentType"), from_line(line["body"]))
        told.message_id = options.get("messageId")
        told.correlation_id, told.reply_to = options.get("correlationId"), options.get("replyTo")
        told.subject, told.priority = options.get("type"), options.get("priority")
        told.durable = options.get("deliveryMode") == 2
        told.ttl = int(options["expiration"]) if "expiration" in options else None
        sort_out_headers(told, {name: from_line(value) for name, value in line["headers"]})
        return told

    def close(self) -> None:
        self.driver.__exit__(None, None, None)


class Amqp10Client:
    """Qpid Proton or rhea: AMQP 1.0."""

    def __init__(self, peer: Peer, process: Callable[[], DriverProcess]) -> None:
        self.driver = process()
        self.connection = amqp10.Client(self.driver, peer.url).connect()
        self.senders: dict[str, amqp10.Sender] = {}

    def create(self, queue: str, arguments: dict[str, Any]) -> str:
        return self.connection.sender(dynamic=True, node_properties=arguments).address

    def publish(self, queue: str, message: Told) -> None:
        section = "data" if message.kind == BYTES else "value"
        sent = {"body": message.body, "section": section}
        for name in (*FIELDS, "priority", "durable", "ttl"):
            value = getattr(message, name)
            if value is not None:
                sent[name] = value
        if message.properties:
            sent["properties"] = message.properties
        if queue not in self.senders:
            self.senders[queue] = self.connection.sender(queue)
        (outcome,) = self.senders[queue].send(sent)
        if outcome["outcome"] != "accepted":
            raise NotAccepted(str(outcome))

    def receive(self, queue: str, count: int, *, settle: str = ACCEPT) -> list[Told]:
        receiver = self.connection.receiver(queue)
        messages = receiver.receive(count)
        failed = {"failed": True} if settle == FAIL else {}
        receiver.settle(messages, {ACCEPT: "accepted", REJECT: "rejected", FAIL: "modified"}[settle], **failed)
        receiver.detach()
        return [self._told(message) for message in messages]

    @staticmethod
    def _told(message: dict[str, Any]) -> Told:
        body = message["body"]
        kinds = {str: TEXT, dict: MAP, list: LIST}
        told = Told(BYTES if message["section"] == "data" else kinds.get(type(body), BYTES), body)
        if told.kind == BYTES and body is None:
            told.body = b""
        for name in (*FIELDS, "priority", "ttl"):
            setattr(told, name, message.get(name))
        told.durable = bool(message.get("durable"))
        told.properties = message.get("properties", {})
        told.extra = {**message.get("annotations", {}), "to": message.get("to")}
        return told

    def close(self) -> None:
        self.driver.__exit__(None, None, None)


class StompListener(stomp.ConnectionListener):  # type: ignore[misc]
    """Collects frames of one connection."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: dict[str, list[Any]] = {}
        self.receipts: set[str] = set()
        self.errors: list[str] = []

    def on_message(self, frame: Any) -> None:
        with self.changed:
            self.messages.setdefault(frame.headers["subscription"], []).append(frame)
            self.changed.notify_all()

    def on_receipt(self, frame: Any) -> None:
        with self.changed:
            self.receipts.add(frame.headers["receipt-id"])
            self.changed.notify_all()

    def on_error(self, frame: Any) -> None:
        with self.changed:
            self.errors.append(f"{frame.headers.get('message')}: {frame.body}")
            self.changed.notify_all()


STOMP_NAMES = {
    "message_id": "amqp-message-id", "correlation_id": "correlation-id", "reply_to": "reply-to", "subject": "type",
    "group_id": "JMSXGroupID", "group_sequence": "JMSXGroupSeq", "priority": "priority", "ttl": "expiration",
}  # fmt: skip
OF_STOMP = {"subscription", "message-id", "destination", "ack", "content-length", "redelivered", "persistent"}
NUMBERS = {"priority", "ttl", "group_sequence"}


class StompClient:
    """stomp.py: STOMP 1.2."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.number = 0
        self._connect()

    def _connect(self) -> None:
        self.listener = StompListener()
        self.connection = stomp.Connection12(
            [(self.peer.host, self.peer.stomp_port)], auto_decode=False, auto_content_length=True
        )
        self.connection.set_listener("", self.listener)
        self.connection.connect("guest", "guest", wait=True)

    def _next(self) -> str:
        self.number += 1
        return str(self.number)

    def _until(self, condition: Callable[[], Any], what: str) -> None:
        with self.listener.changed:
            done = self.listener.changed.wait_for(condition, PATIENCE_SECONDS)
        assert done, f"waited in vain for {what}"

    def create(self, queue: str, arguments: dict[str, Any]) -> str:
        number = self._next()
        headers = {
            f"x-{name}": str(value).lower() if value is True else str(value) for name, value in arguments.items()
        }
        self.connection.subscribe(f"/queue/{queue}", id=number, ack="client-individual", headers=headers)
        self._receipt(lambda receipt: self.connection.unsubscribe(number, receipt=receipt))
        return queue

    def _receipt(self, action: Callable[[str], Any]) -> None:
        receipt = self._next()
        action(receipt)
        self._until(lambda: receipt in self.listener.receipts or self.listener.errors, f"receipt {receipt}")
        if self.listener.errors:
            error = self.listener.errors[0]
            self._connect()  # an ERROR ends the connection
            raise NotAccepted(error)

    def publish(self, queue: str, message: Told) -> None:
        headers = {name: text_of(value) for name, value in message.properties.items()}
        for name, header in STOMP_NAMES.items():
            value = getattr(message, name)
            if value is not None:
                headers[header] = text_of(value)
        if message.durable:
            headers["persistent"] = "true"
        body: str | bytes = message.body
        content_type = message.content_type
        if message.kind in {MAP, LIST}:
            headers["amq-msg-type"] = message.kind
            body = json.dumps(message.body)
        elif message.kind == TEXT:
            content_type = content_type or "text/plain"
        destination = f"/queue/{queue}"
        self._receipt(
            lambda receipt: self.connection.send(destination, body, content_type, dict(headers), receipt=receipt)
        )

    def receive(self, queue: str, count: int, *, settle: str = ACCEPT) -> list[Told]:
        number = self._next()
        headers = {"prefetch-count": str(count)}
        self.connection.subscribe(f"/queue/{queue}", id=number, ack="client-individual", headers=headers)
        messages = self.listener.messages
        self._until(
            lambda: len(messages.get(number, [])) >= count or self.listener.errors, f"{count} messages of {queue}"
        )
        assert not self.listener.errors, self.listener.errors
        frames = messages[number][:count]
        for frame in frames:
            if settle == ACCEPT:
                self.connection.ack(frame.headers["ack"])
            else:
                self.connection.nack(frame.headers["ack"], requeue="true" if settle == FAIL else "false")
        self._receipt(lambda receipt: self.connection.unsubscribe(number, receipt=receipt))
        for frame in messages.pop(number)[count:]:  # came for what was acknowledged
            acknowledge = frame.headers["ack"]
            self._receipt(lambda receipt, one=acknowledge: self.connection.nack(one, requeue="true", receipt=receipt))
        return [self._told(frame) for frame in frames]

    @staticmethod
    def _told(frame: Any) -> Told:
        headers = dict(frame.headers)
        body = frame.body if isinstance(frame.body, bytes) else frame.body.encode()
        told = Told(BYTES, body)
        kind = headers.pop("amq-msg-type", "")
        told.content_type = headers.pop("content-type", None)
        if kind in {MAP, LIST}:
            told.kind, told.body = kind, json.loads(body)
        elif kind == TEXT or (kind != BYTES and (told.content_type or "").startswith("text/")):
            told.kind, told.body = TEXT, body.decode()
        elif kind == "value" and body == b"null":
            told.body = b""
        for name, header in STOMP_NAMES.items():
            value = headers.pop(header, None)
            if value is not None:
                setattr(told, name, int(value) if name in NUMBERS else value)
        told.durable = headers.get("persistent") == "true"
        told.extra = {name: value for name, value in headers.items() if name in OF_STOMP or name.startswith("x-")}
        told.properties = {name: value for name, value in headers.items() if name not in told.extra}
        return told

    def close(self) -> None:
        self.connection.disconnect()


def text_of(value: Any) -> str:
    """Return a value as STOMP writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


MAKERS: dict[str, Callable[[Peer], Any]] = {
    "pika": PikaClient,
    "amqplib": AmqplibClient,
    "python3-amqplib": PythonAmqplibClient,
    "proton": lambda peer: Amqp10Client(peer, amqp10.proton_process),
    "rhea": lambda peer: Amqp10Client(peer, amqp10.rhea_process),
    "stomp.py": StompClient,
}


def missing(name: str) -> str:
    """Return why a client cannot be used, empty when it can."""
    if name == "proton":
        return amqp10.proton_missing()
    if name == "python3-amqplib":
        return "" if (DEBIAN_PACKAGES / "amqplib").is_dir() else "python3-amqplib is not installed"
    if name in {"rhea", "amqplib"}:
        return amqp10.rhea_missing()
    return ""
