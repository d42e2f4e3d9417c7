"""Every client library behind the few actions that test_every_client.py needs, whatever its protocol.

The actions block and have deadlines of their own; a test lets many clients act at once, each in a thread.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import aio_pika
import aiormq
import amqp
import kombu
import pika
from stomp.exception import ConnectFailedException

from tests.clients.amqp10 import DEBIAN_PYTHON, NODE, Client, data, texts
from tests.clients.driven import DriverProcess, Refused, from_line, to_line
from tests.clients.stomp_client import StompClient
from tests.clients.support import PATIENCE_SECONDS, close_quietly

HEARTBEAT_SECONDS = 1
"""The shortest that AMQP 0-9-1 has."""


class Declined(Exception):
    """The client could not log in, in the client's own words."""


@dataclass(frozen=True)
class Place:
    """Where and how to connect: ports; with the file of an ``authority`` over TLS."""

    amqp: int
    stomp: int
    web: int
    authority: str = ""
    password: str = "guest"
    heartbeat: int = 0
    """Seconds; 0: as the client likes it."""

    @property
    def url(self) -> str:
        """Return the URL, without a path: every client takes that as the virtual host "/"."""
        return f"amqp{'s' if self.authority else ''}://guest:{self.password}@localhost:{self.amqp}"

    @property
    def url_with_heartbeat(self) -> str:
        """Return the URL for those who read the interval there; they take a bare slash for the virtual host "/"."""
        return f"{self.url}/?heartbeat={self.heartbeat}" if self.heartbeat else self.url


class EveryClient:
    """What a client does for these tests. One connection at a time, one queue, which exists."""

    queue = ""

    def connect(self, place: Place) -> None:
        """Connect, or raise :class:`Declined`."""
        raise NotImplementedError

    def publish(self, body: str) -> None:
        """Send a persistent message; returns when the broker has it."""
        raise NotImplementedError

    def leave(self, body: str) -> None:
        """Send what is to be taken when the broker was away meanwhile."""
        self.publish(body)

    def take(self) -> str:
        """Receive and acknowledge one message."""
        raise NotImplementedError

    def hold(self) -> str:
        """Receive one message and keep it."""
        raise NotImplementedError

    def wait_lost(self) -> str:
        """Return what the client says when it gives the connection up by itself."""
        raise NotImplementedError

    def reconnect(self, place: Place) -> None:
        """Return when the client is back after the broker was away: by itself, or as its users do it."""
        self.wait_lost()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.connect(place)
            except (OSError, pika.exceptions.AMQPConnectionError, Declined):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def close(self) -> None:
        """Let go of everything, whatever the state."""


class Pika(EveryClient):
    """pika, its blocking connection."""

    connection: pika.BlockingConnection | None = None

    def connect(self, place: Place) -> None:
        self.close()
        options = None
        if place.authority:
            options = pika.SSLOptions(ssl.create_default_context(cafile=place.authority), "localhost")
        parameters = pika.ConnectionParameters(
            "localhost", place.amqp, credentials=pika.PlainCredentials("guest", place.password),
            heartbeat=place.heartbeat or None, ssl_options=options,
        )  # fmt: skip
        try:
            self.connection = pika.BlockingConnection(parameters)
        except pika.exceptions.ProbableAuthenticationError as error:
            raise Declined(repr(error)) from error
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def publish(self, body: str) -> None:
        self.channel.basic_publish("", self.queue, body.encode(), pika.BasicProperties(delivery_mode=2))

    def hold(self) -> str:
        _, _, body = next(self.channel.consume(self.queue, inactivity_timeout=PATIENCE_SECONDS))
        return str(body, "utf-8")

    def take(self) -> str:
        method, _, body = next(self.channel.consume(self.queue, inactivity_timeout=PATIENCE_SECONDS))
        self.channel.basic_ack(method.delivery_tag)
        self.channel.cancel()
        return str(body, "utf-8")

    def wait_lost(self) -> str:
        assert self.connection is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                self.connection.process_data_events(time_limit=0.1)
            except (pika.exceptions.AMQPConnectionError, OSError) as error:
                return repr(error)
        raise TimeoutError("pika noticed nothing")

    def close(self) -> None:
        if self.connection is not None:
            close_quietly(self.connection)


class AioPika(EveryClient):
    """aio-pika, in an event loop of its own. Without heartbeats it gives up after three intervals; here after one."""

    connection: aio_pika.abc.AbstractConnection | None = None

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def _run(self, action: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(action, self.loop).result(PATIENCE_SECONDS)

    def connect(self, place: Place) -> None:
        self._run(self._connect(place))

    async def _connect(self, place: Place) -> None:
        cafile = f"{'&' if place.heartbeat else '/?'}cafile={place.authority}" if place.authority else ""
        try:
            self.connection = await aio_pika.connect(place.url_with_heartbeat + cafile)
        except aiormq.exceptions.ProbableAuthenticationError as error:
            raise Declined(repr(error)) from error
        self.lost: asyncio.Future[str] = self.loop.create_future()
        self.connection.close_callbacks.add(self._note_lost)
        self.channel = await self.connection.channel()

    def _note_lost(self, _: Any, error: BaseException | None) -> None:
        if not self.lost.done():
            self.lost.set_result(repr(error))

    def publish(self, body: str) -> None:
        self._run(self.channel.default_exchange.publish(aio_pika.Message(body.encode(), delivery_mode=2), self.queue))

    def hold(self) -> str:
        return self._run(self._get()).body.decode()

    def take(self) -> str:
        message = self._run(self._get())
        self._run(message.ack())
        return message.body.decode()

    async def _get(self) -> aio_pika.abc.AbstractIncomingMessage:
        known = await self.channel.get_queue(self.queue)
        return await known.get(timeout=PATIENCE_SECONDS)

    def wait_lost(self) -> str:
        return self._run(asyncio.wait_for(self.lost, PATIENCE_SECONDS))

    def close(self) -> None:
        if self.connection is not None:
            self._run(self.connection.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Kombu(EveryClient):
    """kombu, which tries again by itself when told so."""

    connection: kombu.Connection | None = None
    simple: kombu.simple.SimpleQueue | None = None
    AGAIN: ClassVar[dict[str, float]] = {"interval_start": 0.05, "interval_step": 0.05, "max_retries": 100}

    def connect(self, place: Place) -> None:
        options: dict[str, Any] = {"transport_options": {"confirm_publish": True}, "connect_timeout": PATIENCE_SECONDS}
        if place.authority:
            options["ssl"] = {
                "ca_certs": place.authority, "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": "localhost",
            }  # fmt: skip
        self.connection = kombu.Connection(place.url, heartbeat=place.heartbeat, **options)
        try:
            self.connection.connect()
        except amqp.exceptions.AccessRefused as error:
            raise Declined(repr(error)) from error
        self.producer = self.connection.Producer()

    def publish(self, body: str) -> None:
        self.producer.publish(body, routing_key=self.queue, delivery_mode=2, retry=True, retry_policy=self.AGAIN)

    def _get(self) -> kombu.Message:
        assert self.connection is not None
        self.simple = self.connection.SimpleQueue(self.queue)
        return self.simple.get(timeout=PATIENCE_SECONDS)

    def hold(self) -> str:
        return str(self._get().payload)

    def take(self) -> str:
        message = self._get()
        message.ack()
        assert self.simple is not None
        self.simple.close()
        return str(message.payload)

    def wait_lost(self) -> str:
        assert self.connection is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                self.connection.heartbeat_check(rate=4)
                self.connection.drain_events(timeout=0.25)
            except TimeoutError:  # nothing came, as is to be expected
                continue
            except self.connection.connection_errors as error:
                self.connection.collect()  # a close would wait for an answer
                return repr(error)
        raise TimeoutError("kombu noticed nothing")

    def reconnect(self, place: Place) -> None:
        """Only notice: publishing tries again, on a new connection."""
        self.wait_lost()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.release()


class Amqplib(EveryClient):
    """amqplib of Node.js."""

    def __init__(self) -> None:
        self.driver = DriverProcess(["node", str(NODE / "amqplib_driver.mjs")], folder=NODE)

    def connect(self, place: Place) -> None:
        try:
            self.driver.ask("connect", url=place.url_with_heartbeat, authority=place.authority)
        except Refused as error:
            raise Declined(str(error)) from error

    def publish(self, body: str) -> None:
        options = {"persistent": True}
        self.driver.ask("publish", queue=self.queue, body=to_line(body.encode()), options=options, headers=[])

    def _receive(self, settle: str) -> str:
        (message,) = self.driver.ask("receive", queue=self.queue, count=1, settle=settle)
        return str(from_line(message["body"]), "utf-8")

    def take(self) -> str:
        return self._receive("accept")

    def hold(self) -> str:
        return self._receive("hold")

    def wait_lost(self) -> str:
        return str(self.driver.ask("wait_lost"))

    def close(self) -> None:
        self.driver.__exit__(None, None, None)


class Stompjs(Amqplib):
    """@stomp/stompjs of Node.js over WebSocket, which reconnects by itself."""

    def __init__(self) -> None:
        self.driver = DriverProcess(["node", str(NODE / "stompjs_driver.mjs")], folder=NODE)

    def connect(self, place: Place) -> None:
        url = f"ws{'s' if place.authority else ''}://localhost:{place.web}/ws"
        try:
            self.driver.ask(
                "connect", url=url, authority=place.authority, passcode=place.password,
                heartbeat=place.heartbeat * 1000, reconnect=0 if place.heartbeat else 50,
            )  # fmt: skip
        except Refused as error:
            raise Declined(str(error)) from error

    def publish(self, body: str) -> None:
        self.driver.ask("publish", queue=self.queue, body=body)

    def _receive(self, settle: str) -> str:
        return str(self.driver.ask("receive", queue=self.queue, settle=settle == "accept"))

    def reconnect(self, place: Place) -> None:
        self.driver.ask("wait_opens", count=2)


class Amqp10(EveryClient):
    """Qpid Proton or rhea."""

    def __init__(self, start: Callable[[], DriverProcess]) -> None:
        self.client = Client(start(), "")

    def connect(self, place: Place) -> None:
        self.connection = self.client.connect(place.url, heartbeat=place.heartbeat)

    def publish(self, body: str) -> None:
        self.connection.sender(self.queue).accepted(data(body.encode(), durable=True))

    def hold(self) -> str:
        (body,) = texts(self.connection.receiver(self.queue).receive())
        return str(body, "utf-8")

    def wait_lost(self) -> str:
        end = self.connection.wait_closed()
        return f"{end['condition']} {end['text']}"

    def close(self) -> None:
        self.client.driver.__exit__(None, None, None)


class StompPy(EveryClient):
    """stomp.py."""

    client: StompClient | None = None

    def connect(self, place: Place) -> None:
        beats = place.heartbeat * 1000
        self.client = StompClient(place.stomp, heartbeats=(beats, beats))
        try:
            self.client.connect(passcode=place.password)
        except ConnectFailedException as error:
            raise Declined(self.client.error()) from error

    def publish(self, body: str) -> None:
        assert self.client is not None
        self.client.send(f"/queue/{self.queue}", body, persistent="true")

    def hold(self) -> str:
        assert self.client is not None
        self.client.subscribe(f"/queue/{self.queue}", ack="client-individual")
        return str(self.client.next().body)

    def wait_lost(self) -> str:
        assert self.client is not None
        if not self.client.heartbeat_lost.wait(PATIENCE_SECONDS):
            raise TimeoutError("stomp.py noticed nothing")
        return "heartbeat timeout"

    def close(self) -> None:
        if self.client is not None:
            self.client.close()


class AmqpTools(EveryClient):
    """The programs of amqp-tools: one runs a command for a message it holds, and is busy with that; one waits idly."""

    def __init__(self) -> None:
        self.programs: list[subprocess.Popen[str]] = []

    def connect(self, place: Place) -> None:
        self.options = ["--url", place.url]
        self.options += ["--cacert", place.authority] if place.authority else []
        self.options += ["--heartbeat", str(place.heartbeat)] if place.heartbeat else []
        self._run("declare-queue", "--queue", "amqp-tools", "--durable")

    def _run(self, program: str, *arguments: str) -> str:
        command = [f"amqp-{program}", *self.options, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        if ended.returncode:
            raise Declined(ended.stderr)
        return ended.stdout

    def publish(self, body: str) -> None:
        self._run("publish", "--routing-key", self.queue, "--body", body, "--persistent")

    def take(self) -> str:
        return self._run("consume", "--queue", self.queue, "--count", "1", "cat")

    def _consume(self, queue: str) -> subprocess.Popen[str]:
        command = ["amqp-consume", *self.options, "--queue", queue, "--prefetch-count", "1"]
        command += ["--", "sh", "-c", "cat; echo; exec sleep 60"]  # without -- it takes -c for its own
        program = subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.programs.append(program)
        return program

    def hold(self) -> str:
        output = self._consume(self.queue).stdout
        assert output is not None
        body = output.readline().rstrip("\n")
        self._consume("amqp-tools")
        return body

    def wait_lost(self) -> str:
        _, complaint = self.programs[-1].communicate(timeout=PATIENCE_SECONDS)
        return complaint

    def close(self) -> None:
        for program in self.programs:
            with program, suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)  # with the command it runs


class PythonAmqplib(EveryClient):
    """Debian's python3-amqplib in its own interpreter: newer ones lack what its TLS is built on."""

    def connect(self, place: Place) -> None:
        program = str(Path(__file__).with_name("python3_amqplib_program.py"))
        self.command = [DEBIAN_PYTHON, "-W", "ignore", program, f"localhost:{place.amqp}", place.authority, self.queue]

    def _run(self, *arguments: str) -> str:
        command = [*self.command, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True).stdout

    def publish(self, body: str) -> None:
        self._run(body)

    def take(self) -> str:
        return self._run()
