"""A client without a socket: bytes made by pamqp into a real connection object, frames out of a recording transport."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from pamqp import body, commands, frame, header, heartbeat
from pamqp.base import Frame

from annulet.broker.amqp091.connection import AmqpConnection
from annulet.broker.broker import Broker
from annulet.broker.connections.transport import AnyConnection
from annulet.wire.amqp091.connection.states import ConnectionState

AnyFrame = TypeVar("AnyFrame")
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"consumer_cancel_notify": True, "connection.blocked": True, "authentication_failure_close": True}
CLIENT_PROPERTIES: dict[str, Any] = {"capabilities": CAPABILITIES}


class RecordingTransport:
    """Stands in for asyncio's transport: takes everything until it is told not to."""

    def __init__(self) -> None:
        self.protocol: Any = None
        self.written = bytearray()
        self.reading = True
        self.closing = False
        self.buffered = 0  # what get_write_buffer_size answers
        self.lost = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 5672)}.get(name)

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self.closing = True
        if not self.lost:
            self.lost = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


READING_SECONDS = 0.0005
"""Between two looks whether a thread has read: it cannot while the loop goes round without a pause."""


class Peer:
    """One client. ``send`` hands methods over in one read; ``frames`` and ``take`` look at what came back.

    ``waits``: ``take`` comes back when no queue waits for the thread that reads ahead, as clients do not know of it.
    """

    waits = True
    channel_max = 100  # what it negotiates

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.transport = RecordingTransport()
        self.connection = AmqpConnection(broker)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    async def open(
        self,
        *channels: int,
        user: str = "guest",
        heartbeat_seconds: int = 0,
        frame_max: int = 131_072,
        product: str = "",
    ) -> Peer:
        """Negotiate and open channels. ``product``: the client's name for itself."""
        self.receive(PROTOCOL_HEADER)
        response = f"\0{user}\0{user}"
        properties = {**CLIENT_PROPERTIES, **({"product": product} if product else {})}
        start_ok = commands.Connection.StartOk(properties, "PLAIN", response, "en_US")
        await self.send(0, start_ok)
        await self.checked()
        tune_ok = commands.Connection.TuneOk(self.channel_max, frame_max, heartbeat_seconds)
        await self.send(0, tune_ok, commands.Connection.Open("/"))
        for channel in channels:
            await self.send(channel, commands.Channel.Open())
        await self.take()
        return self

    async def checked(self) -> None:
        """Return when the login is decided: passwords are checked in a thread."""
        while self.connection.engine.state is ConnectionState.CHECKING:
            await turns()
        await turns()

    def receive(self, data: bytes) -> None:
        """Hand bytes over as one read."""
        self.connection.data_received(data)

    async def send(self, channel: int, *methods: Frame | bytes) -> None:
        """Hand methods, or bytes that are made already, over as one read, and let the broker answer."""
        self.receive(b"".join(item if isinstance(item, bytes) else frame.marshal(item, channel) for item in methods))
        await turns()
        await answered(self.connection)

    async def take(self) -> list[Any]:
        """Return the frames written since the last call, heartbeats left out."""
        await turns()
        await answered(self.connection)
        written = 0
        while self.waits and (is_reading(self.broker) or len(self.transport.written) > written):
            written = len(self.transport.written)  # on a busy machine turns of deliveries are cut short: more may come
            if is_reading(self.broker):
                await asyncio.sleep(READING_SECONDS)
            await turns()
        data, found = bytes(self.transport.written), []
        self.transport.written.clear()
        start = 0
        while start < len(data):  # frame by frame: to copy what is left each time takes most of a large read
            size, _, what = frame.unmarshal(data[start : start + frame_bytes(data, start)])
            start += size
            if not isinstance(what, heartbeat.Heartbeat):
                found.append(what)
        return found

    async def one(self, kind: type[AnyFrame]) -> AnyFrame:
        """Return the only frame of a kind among those written since the last look."""
        found = [item for item in await self.take() if isinstance(item, kind)]
        assert len(found) == 1, found
        return found[0]

    async def ask(self, channel: int, method: Frame, kind: type[AnyFrame]) -> AnyFrame:
        """Send a method and return the answer of a kind."""
        await self.take()
        await self.send(channel, method)
        return await self.one(kind)


def frame_bytes(data: bytes, start: int) -> int:
    """Return the size of the frame that begins there; a protocol header counts as one."""
    if data.startswith(b"AMQP", start):
        return 8
    return 8 + int.from_bytes(data[start + 3 : start + 7], "big")


def publish(
    channel: int,
    routing_key: str,
    content: bytes = b"x",
    *,
    exchange: str = "",
    mandatory: bool = False,
    **properties: Any,
) -> bytes:
    """Return basic.publish with its content."""
    return b"".join(
        [
            frame.marshal(commands.Basic.Publish(0, exchange, routing_key, mandatory), channel),
            frame.marshal(header.ContentHeader(0, len(content), commands.Basic.Properties(**properties)), channel),
            *([frame.marshal(body.ContentBody(content), channel)] if content else []),
        ]
    )


def persistent(channel: int, routing_key: str, content: bytes = b"x", **options: Any) -> bytes:
    """Return a persistent publish."""
    return publish(channel, routing_key, content, delivery_mode=2, **options)


async def turns(count: int = 8) -> None:
    """Let the event loop go round: the broker writes at the end of a turn, and seals a window one turn later."""
    for _ in range(count):
        await asyncio.sleep(0)


async def answered(connection: AnyConnection) -> None:
    """Return when what the connection declared is durable, and the answers were written: a thread does it."""
    while connection.definitions_due and not connection.lost:
        await asyncio.sleep(READING_SECONDS)
        await turns()


def is_reading(broker: Broker) -> bool:
    """Say whether a queue waits for the thread that reads ahead."""
    return any(pages.awaits_read() for queue in broker.queues() for pages in queue.order.page_parts())


def settlements(frames: list[Any]) -> list[tuple[str, int, bool]]:
    """Return the confirms among frames as (ack or nack, tag, multiple)."""
    kinds = {commands.Basic.Ack: "ack", commands.Basic.Nack: "nack"}
    return [(kinds[type(item)], item.delivery_tag, item.multiple) for item in frames if type(item) in kinds]


def bodies(frames: list[Any]) -> list[bytes]:
    """Return the bodies among frames."""
    return [item.value for item in frames if isinstance(item, body.ContentBody)]
