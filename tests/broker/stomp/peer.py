"""A STOMP client without a socket: frames into a real connection object, frames out of a recording transport."""

from __future__ import annotations

import asyncio
from typing import Any

from annulet.broker.broker import Broker
from annulet.broker.stomp.connection import StompConnection
from annulet.wire.stomp.frames import Frame, FrameReader, encode_frame
from tests.broker.amqp091.peer import RecordingTransport, answered

PATIENCE_TURNS = 2000
"""Looks at the output, a millisecond apart, before a test that waits for a frame fails."""


class Peer:
    """One client. ``send`` hands a frame over; ``take`` returns what came back since the last time."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.transport = RecordingTransport()
        self.connection = StompConnection(broker)
        self.transport.protocol = self.connection
        self.version = "1.2"
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    async def open(self, version: str = "1.2", **headers: str) -> Peer:
        """Log in as guest."""
        given = {"host": "/", "login": "guest", "passcode": "guest", **named(headers)}
        if version != "1.0":
            given["accept-version"] = version
        self.version = "1.0"
        await self.send("CONNECT", given)
        connected = await self.next("CONNECTED")
        assert connected.headers["version"] == version
        self.version = version
        return self

    async def send(self, command: str, headers: dict[str, str] | None = None, body: bytes = b"", **more: str) -> Peer:
        """Hand one frame over, and let the broker finish its turn. Names in ``more`` have - for _."""
        self.connection.data_received(
            encode_frame(Frame(command, {**(headers or {}), **named(more)}, body), self.version)
        )
        await self.settle()
        return self

    async def settle(self) -> None:
        """Let what was queued be written."""
        for _ in range(4):
            await asyncio.sleep(0)
        await answered(self.connection)

    def take(self) -> list[Frame]:
        """Return the frames since the last time."""
        reader = FrameReader()
        reader.version = self.version
        reader.feed(bytes(self.transport.written))
        found = []
        while (frame := reader.next_frame()) is not None:
            found.append(frame)
        del self.transport.written[: len(self.transport.written) - reader.pending]
        return found

    async def next(self, command: str) -> Frame:
        """Wait for one frame, which is of this command and alone."""
        for _ in range(PATIENCE_TURNS):
            frames = self.take()
            if frames:
                assert [frame.command for frame in frames] == [command], frames
                return frames[0]
            await asyncio.sleep(0.001)
        raise AssertionError(f"no {command} came")

    async def request(
        self, command: str, headers: dict[str, str] | None = None, body: bytes = b"", **more: str
    ) -> Peer:
        """Send a frame with a receipt and wait for it."""
        await self.send(command, {**(headers or {}), "receipt": "wanted"}, body, **more)
        receipt = await self.next("RECEIPT")
        assert receipt.headers == {"receipt-id": "wanted"}
        return self

    async def messages(self, count: int) -> list[Frame]:
        """Wait for so many messages, and nothing else."""
        found: list[Frame] = []
        for _ in range(PATIENCE_TURNS):
            found += self.take()
            assert all(frame.command == "MESSAGE" for frame in found), found
            if len(found) >= count:
                break
            await asyncio.sleep(0.001)
        assert len(found) == count, found
        return found

    async def error(self) -> str:
        """Wait for ERROR, and return what it says."""
        frame = await self.next("ERROR")
        await self.settle()
        assert self.transport.closing
        return frame.headers["message"]

    def lose(self) -> None:
        """The socket breaks."""
        self.transport.abort()


def named(headers: dict[str, Any]) -> dict[str, str]:
    return {name.replace("_", "-"): str(value) for name, value in headers.items()}
