"""The bounds of HTTP connections, at the limit, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable

import pytest
import structlog

from annulet import testing
from annulet.admin.listening import http_connection
from annulet.admin.listening.http_connection import BoundedHttpProtocol
from annulet.broker.broker import Broker
from annulet.broker.security.admission import LIMIT_HTTP

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def until(condition: Callable[[], bool]) -> None:
    while True:
        await asyncio.sleep(0.005)
        if condition():
            return


class Site:
    """A broker and raw connections to its HTTP port."""

    def __init__(self, broker: Broker, url: str) -> None:
        self.broker = broker
        self.port = int(url.rpartition(":")[2])
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, data: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    async def close(self) -> None:
        for writer in self.writers:
            writer.close()
            with contextlib.suppress(OSError):  # the broker cut it
                await writer.wait_closed()
        await self.until(0)

    async def until(self, connections: int) -> None:
        """Return when so many are counted; a hang is ended by the test's own time-out."""
        await until(lambda: self.broker.admission.http_connections == connections)


@contextlib.asynccontextmanager
async def site(seconds: float = 10.0) -> AsyncIterator[Site]:
    async with testing.broker(handshake_timeout=seconds) as running:
        made = Site(running.broker, running.http_url)
        yield made
        await made.close()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def test_connections_up_to_the_limit_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HTTP_CONNECTIONS_MAX", 2)
    async with site() as here:
        first, _ = await here.connect()
        await here.until(1)
        second, writer = await here.connect(REQUEST)
        assert b"200 OK" in await head_of(second)
        third, _ = await here.connect(REQUEST)
        assert b"200 OK" in await head_of(third), "a peer that is slow gives way"
        assert await ended(first)
        assert here.broker.admission.refused[LIMIT_HTTP] == 1
        assert here.broker.admission.http_connections == 2
        writer.close()
        await here.until(1)
        fourth, _ = await here.connect(REQUEST)
        assert b"200 OK" in await head_of(fourth)
        assert here.broker.admission.refused[LIMIT_HTTP] == 1, "there was room"


async def test_a_request_that_is_being_answered_keeps_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "HTTP_CONNECTIONS_MAX", 1)
    may_answer = asyncio.Event()

    async def slow(*_arguments: object, **_options: object) -> None:
        await may_answer.wait()

    async with site() as here:
        monkeypatch.setattr(here.broker.authenticator, "login", slow)
        request = b"GET /api/v1/queues HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
        reader, _ = await here.connect(request)
        await here.until(1)
        await asyncio.sleep(0.05)  # the request is there
        late, _ = await here.connect(REQUEST)
        assert await ended(late)
        may_answer.set()
        assert b"401" in await head_of(reader)


async def test_health_answers_beside_peers_that_send_slowly() -> None:
    async with site() as here:
        for number in range(3 * http_connection.HTTP_CONNECTIONS_MAX):
            await here.connect(REQUEST[: number % len(REQUEST)])
        reader, _ = await here.connect(REQUEST)
        assert b"200 OK" in await asyncio.wait_for(head_of(reader), 5)
        assert here.broker.admission.handshakes_timed_out == 0


async def test_what_a_parser_raises_ends_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site() as here:
        monkeypatch.setattr(BoundedHttpProtocol, "handle_events", lambda self: 1 / 0)
        reader, _ = await here.connect(REQUEST)
        with structlog.testing.capture_logs() as lines:
            assert await ended(reader)
        assert [(line["event"], "exc_info" in line) for line in lines] == [("defect while serving http", False)]
        await here.until(0)
        monkeypatch.undo()
        reader, _ = await here.connect(REQUEST)
        assert b"200 OK" in await head_of(reader)


async def test_a_body_of_tiny_chunks_lets_others_have_their_turns() -> None:
    async with site() as here:
        head = b"PUT /api/v1/policies/%2F/p HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
        body = b'{"pattern": ".*", "definition": {"max-length": 1}}'
        chunks = b"".join(b"1\r\n" + bytes([octet]) + b"\r\n" for octet in body + b" " * 20_000)
        reader, writer = await here.connect(head + b"authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n")
        writer.write(chunks + b"0\r\n\r\n")
        health, _ = await here.connect(REQUEST)
        assert b"200 OK" in await head_of(health)
        assert b"200 OK" in await head_of(reader)


@pytest.mark.parametrize("begun", [b"", b"G", REQUEST[:-1], b"GET /health/live HTTP/1.1\r\n"])
async def test_a_request_that_does_not_come_ends_its_connection(begun: bytes) -> None:
    async with site(0.2) as here:
        reader, _ = await here.connect(begun)
        assert await ended(reader)
        assert here.broker.admission.handshakes_timed_out == 1


async def test_dripping_octets_gives_no_more_time() -> None:
    async with site(0.3) as here:
        reader, writer = await here.connect()
        for octet in REQUEST[:-1]:
            writer.write(bytes([octet]))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    if await ended(reader):
                        break
        assert here.broker.admission.handshakes_timed_out == 1


async def test_a_body_that_does_not_come_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "BODY_SECONDS", 0.2)
    async with site() as here:
        head = (
            b"PUT /api/v1/address-settings/%2F/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n"
            b"authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n{"
        )
        reader, _ = await here.connect(head)
        assert await ended(reader)
        assert here.broker.admission.handshakes_timed_out == 1


async def test_a_kept_connection_waits_for_its_next_request() -> None:
    async with site(0.1) as here:
        reader, writer = await here.connect(REQUEST)
        for _ in range(3):
            head = await head_of(reader)
            assert b"200 OK" in head
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None
            await reader.readexactly(int(length[1]))
            await asyncio.sleep(0.15)  # longer than a request may take to come
            writer.write(REQUEST)
        assert here.broker.admission.handshakes_timed_out == 0


async def test_an_answer_that_nobody_reads_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "ANSWER_SECONDS", 0.2)
    async with site() as here:
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(peer, ("127.0.0.1", here.port))
            await loop.sock_sendall(peer, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n" * 400)
            await until(lambda: here.broker.admission.handshakes_timed_out == 1)
            await here.until(0)


async def test_a_reset_ends_the_time_out_of_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn's handle of it held the connection for 30 seconds, and then in a cycle."""
    lost: list[BoundedHttpProtocol] = []
    ends = BoundedHttpProtocol.connection_lost

    def noting(self: BoundedHttpProtocol, error: Exception | None) -> None:
        assert self.timeout_keep_alive_task is not None
        ends(self, error)
        lost.append(self)

    monkeypatch.setattr(BoundedHttpProtocol, "connection_lost", noting)
    async with site() as here:
        reader, writer = await here.connect(REQUEST)
        assert b"200 OK" in await head_of(reader)
        await reader.readuntil(b"}")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await until(lambda: bool(lost))
        assert lost[0].timeout_keep_alive_task is None
