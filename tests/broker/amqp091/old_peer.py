"""A client of AMQP 0-8 or 0-9 without a socket: hand-written octets in, frames taken apart by hand."""

from __future__ import annotations

import asyncio
import struct
import time

from annulet.broker.broker import Broker
from tests.broker.amqp091.peer import Peer, turns
from tests.wire.amqp091.old_versions import (
    HEADER_0_9,
    Received,
    handshake,
    long_string,
    method,
    short_string,
    take_apart,
)

LOGIN_SECONDS = 30.0  # only a failing test waits so long
TICKET = struct.pack("!H", 1)


class OldPeer(Peer):
    """A client that speaks the version of its protocol header."""

    def __init__(self, broker: Broker, header: bytes) -> None:
        super().__init__(broker)
        self.header = header

    async def start(self, frame_max: int = 131_072) -> OldPeer:
        data = handshake(self.header).replace(
            struct.pack("!HIH", 100, 131_072, 0), struct.pack("!HIH", 100, frame_max, 0)
        )
        self.receive(data)
        deadline = time.monotonic() + LOGIN_SECONDS
        while not self.connection.opened:  # passwords are checked beside the loop
            assert time.monotonic() < deadline, "the login took too long"
            await asyncio.sleep(0.001)
        await self.received()
        return self

    async def received(self) -> list[Received]:
        await turns()
        data = bytes(self.transport.written)
        self.transport.written.clear()
        return take_apart(data)

    async def say(self, *pieces: bytes) -> list[Received]:
        self.receive(b"".join(pieces))
        return await self.received()

    def consume(self, queue: str, *, no_ack: bool = True) -> bytes:
        filter_table = long_string(b"") if self.header == HEADER_0_9 else b""
        bits = b"\x02" if no_ack else b"\x00"
        return method(1, 60, 20, TICKET + short_string(queue) + short_string("c") + bits + filter_table)
