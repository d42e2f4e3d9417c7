"""A real broker in a thread of the test process, as Spark's own processes reach it over its sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from annulet import testing
from annulet.core.message.message import Message, Origin
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

T = TypeVar("T")


class BrokerThread:
    """The broker's loop in a thread; calls go through :meth:`run`."""

    def __init__(self, data_directory: Path) -> None:
        self._data_directory = data_directory
        self._started = threading.Event()
        self._stop: asyncio.Event
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="broker", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(30), "the broker did not start"
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the broker did not stop"
        if self._error is not None:
            raise self._error

    def run(self, work: Callable[[], T]) -> T:
        """Call ``work`` on the loop."""

        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(30)

    @property
    def url(self) -> str:
        return self.running.bulk_url

    def declare(self, *names: str, durable: bool = True, arguments: dict[str, Any] | None = None) -> None:
        """Declare queues as a client would: in the core and in the catalogue."""

        def work() -> None:
            broker = self.running.broker
            for name in names:
                queue = broker.hosts["/"].declare_queue(name, now=broker.clock(), durable=durable, arguments=arguments)
                if durable:
                    queue.queue_id = broker.catalogue.add_queue("/", name, False, arguments or {})

        self.run(work)

    def publish(self, queue: str, bodies: Sequence[bytes], *, persistent: bool = True, **properties: Any) -> None:
        """Publish bodies through the default exchange."""

        def work() -> None:
            broker = self.running.broker
            host = broker.hosts["/"]
            route = host.route("", queue)
            for body in bodies:
                basic = BasicProperties()
                basic.delivery_mode = 2 if persistent else 1
                for name, value in properties.items():
                    setattr(basic, name, value)
                origin = Origin("", queue, "test", VIEW)
                message = Message(
                    encode_properties(basic), body, origin, durable=persistent, accepted_at=broker.clock()
                )
                host.publisher.publish(message, route, broker.clock())

        self.run(work)

    def bodies(self, queue: str) -> list[bytes]:
        """Bodies of all messages of a queue, pending and in delivery, in order."""
        return self.run(lambda: [entry.message.body for entry in self.queue(queue).browse()])

    def pending(self, queue: str) -> int:
        return self.run(lambda: self.queue(queue).order.count)

    def queue(self, name: str) -> Queue:
        return self.running.broker.hosts["/"].queues[name]

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - reported by start and stop
            self._error = error
            self._started.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        settings: dict[str, Any] = {"http": False, "event_queues": ("shipments", "parcels")}
        async with testing.broker(data_dir=self._data_directory, bulk=True, **settings) as running:
            self.running = running
            self._started.set()
            await self._stop.wait()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """One broker for the Spark tests; each test uses queues of its own."""
    thread = BrokerThread(tmp_path_factory.mktemp("broker"))
    thread.start()
    yield thread
    thread.stop()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name no other test uses."""
    return f"{request.node.name}".replace("[", "-").replace("]", "")


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port nobody listens on: bound here, and never listened to."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
