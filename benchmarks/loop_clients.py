"""Clients of the measured broker: sockets that say what they have to, and read all that comes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pamqp import body, commands, frame, header

from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_AMQP, FRAME_SASL, SASL_HEADER, encode_frame
from annulet.wire.amqp10.frames.link_frames import Flow
from annulet.wire.amqp10.frames.performatives import Attach, Begin, Open, encode_performative
from annulet.wire.amqp10.frames.sasl import SaslInit
from annulet.wire.amqp10.frames.terminus import Source, Target
from benchmarks.watched_broker import BODY

QUIET_SECONDS: Final = 0.4
"""A client has got all when nothing more came for so long."""

PATIENCE_SECONDS: Final = 60.0
"""A queue is not going to be as wanted after so long."""


class Server:
    """The broker's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.ports: dict[str, Any] = self._answer()

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Have a command carried out."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def until(self, queue: str, **wanted: int) -> None:
        """Wait until a queue is as wanted, and nothing is left to be done in slices."""
        wanted["waiting"] = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(self.ask("state", queue=queue)[name] != value for name, value in wanted.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"wanted {wanted}, is {self.ask('state', queue=queue)}")
            time.sleep(0.02)


class Client:
    """A socket whose input is dropped by a thread; ``tail`` keeps its end."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.received = 0
        self.tail = b""
        self._last = time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while data := self.socket.recv(1 << 20):
            self.received += len(data)
            self.tail = (self.tail + data)[-4096:]
            self._last = time.monotonic()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._last = time.monotonic()
        self.socket.sendall(data)

    def quiet(self) -> None:
        """Wait until nothing comes any more."""
        while time.monotonic() - self._last < QUIET_SECONDS:
            time.sleep(0.02)

    def close(self) -> None:
        """Cut the connection."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def methods(*found: Any, channel: int = 1) -> bytes:
    """Encode methods of AMQP 0-9-1."""
    return b"".join(frame.marshal(method, channel) for method in found)


def publish(queue: str, exchange: str = "") -> bytes:
    """Encode a durable message of 100 octets."""
    parts = (
        commands.Basic.Publish(exchange=exchange, routing_key=queue),
        header.ContentHeader(body_size=len(BODY), properties=commands.Basic.Properties(delivery_mode=2)),
        body.ContentBody(BODY),
    )
    return b"".join(frame.marshal(part, 1) for part in parts)


def amqp091(server: Server, *more: Any) -> Client:
    """Connect, open channel 1 and send these methods."""
    client = Client(server.ports["amqp"])
    client.send(b"AMQP\x00\x00\x09\x01")
    time.sleep(0.1)
    client.send(methods(commands.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"), channel=0))
    time.sleep(0.2)
    client.send(methods(commands.Connection.TuneOk(100, 131_072, 0), commands.Connection.Open("/"), channel=0))
    client.send(methods(commands.Channel.Open(), *more))
    client.quiet()
    return client


def consumer(server: Server, count: int, queue: str = "q", arguments: dict[str, Any] | None = None) -> Client:
    """Hold so many deliveries of a new queue."""
    client = amqp091(server, commands.Queue.Declare(queue=queue, durable=True, arguments=arguments or {}))
    server.ask("fill", queue=queue, count=count)
    client.send(methods(commands.Basic.Consume(queue=queue, consumer_tag="c")))
    server.until(queue, pending=0, delivering=count)
    client.quiet()
    return client


def amqp10(server: Server, *performatives: Any) -> Client:
    """Connect, begin a session and send these."""
    client = Client(server.ports["amqp"])
    client.send(SASL_HEADER + encode_frame(FRAME_SASL, 0, encode_performative(SaslInit("PLAIN", b"\0guest\0guest"))))
    client.quiet()
    client.send(AMQP_HEADER + encoded(Open("client"), Begin(None, 0, 1 << 30, 1 << 30), *performatives))
    client.quiet()
    return client


def encoded(*performatives: Any) -> bytes:
    """Encode frames of AMQP 1.0 on channel 0."""
    return b"".join(encode_frame(FRAME_AMQP, 0, encode_performative(each)) for each in performatives)


def receiver(server: Server, count: int) -> Client:
    """Hold so many deliveries over a link with handle 0."""
    amqp091(server, commands.Queue.Declare(queue="q", durable=True)).close()
    server.ask("fill", queue="q", count=count)
    client = amqp10(
        server,
        Attach("l", 0, True, source=Source("q"), target=Target("c")),
        Flow(0, 1 << 30, 0, 1 << 30, handle=0, delivery_count=0, link_credit=count),
    )
    server.until("q", delivering=count)
    client.quiet()
    return client


def stomp_frame(command: str, text: str = "", **headers: str) -> bytes:
    """Encode a frame of STOMP."""
    lines = [command, *[f"{name}:{value}" for name, value in headers.items()]]
    return ("\n".join(lines) + "\n\n" + text + "\0").encode()


def stomp(server: Server, *frames: bytes) -> Client:
    """Connect and send these."""
    client = Client(server.ports["stomp"])
    login = {"host": "/", "login": "guest", "passcode": "guest", "accept-version": "1.1"}
    client.send(stomp_frame("CONNECT", **login))
    client.quiet()
    client.send(b"".join(frames))
    client.quiet()
    return client


def subscriber(server: Server, count: int) -> tuple[Client, str]:
    """Hold so many deliveries of a STOMP subscription in mode client. Returns the last message id, too."""
    amqp091(server, commands.Queue.Declare(queue="q", durable=True)).close()
    server.ask("fill", queue="q", count=count)
    subscribe = stomp_frame("SUBSCRIBE", id="1", destination="/queue/q", ack="client")
    client = stomp(server, subscribe)
    server.until("q", pending=0, delivering=count)
    client.quiet()
    identifier = client.tail.rpartition(b"message-id:")[2].partition(b"\n")[0].decode()
    return client, identifier


@contextmanager
def started(*, disk: bool) -> Iterator[Server]:
    """Run a broker."""
    with tempfile.TemporaryDirectory(prefix="loop-holds-") as folder:
        command = [sys.executable, "-m", "benchmarks.watched_broker", folder if disk else "memory"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield Server(process)
        finally:
            process.kill()
            process.wait()
