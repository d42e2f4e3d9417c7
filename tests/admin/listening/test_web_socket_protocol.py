"""The bounds of WebSockets below STOMP, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import weakref

import pytest
import structlog
from wsproto import ConnectionType, WSConnection, events
from wsproto.frame_protocol import FrameProtocol

from annulet import testing
from annulet.admin.listening import web_socket_protocol
from annulet.admin.listening.web_socket_protocol import BoundedWebSocketProtocol, end_parsing
from annulet.broker.settings.limits import Limits
from annulet.testing.in_process import RunningBroker
from tests.admin.listening.test_web_socket import Page, ended

PING = b"p" * 125
"""The largest payload of a control frame (RFC 6455 §5.5)."""


def server_side(running: RunningBroker) -> BoundedWebSocketProtocol:
    """Return the broker's end of the only WebSocket."""
    (connection,) = running.broker.connections
    protocol = connection.transport._lower.transport.get_protocol()  # type: ignore[union-attr]
    assert isinstance(protocol, BoundedWebSocketProtocol)
    return protocol


async def test_pings_of_who_reads_nothing_are_not_hoarded_and_the_latest_is_answered() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        server = server_side(running)
        page.writer.transport.pause_reading()  # type: ignore[attr-defined]
        server.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        while server.writable.is_set():
            server.transport.write(b"\x82\x7f" + (1_000_000).to_bytes(8) + bytes(1_000_000))  # a binary message
            await asyncio.sleep(0.02)  # the system's buffers take what they can
        before = server.transport.get_write_buffer_size()
        page.writer.write(b"".join(page.protocol.send(events.Ping(PING)) for _ in range(1000)))
        page.send(events.Ping(b"the last"))
        while server._unanswered is None or bytes(server._unanswered.payload) != b"the last":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert server.transport.get_write_buffer_size() <= before
        page.writer.transport.resume_reading()  # type: ignore[attr-defined]
        while not isinstance(pong := await page.next(), events.Pong):
            assert isinstance(pong, events.BytesMessage)
        assert bytes(pong.payload) == b"the last"
        page.close()
        await ended(running)


async def test_pings_of_one_read_have_few_answers() -> None:
    async with testing.broker() as running:
        page = await Page(running).connect()
        pings = [page.protocol.send(events.Ping(b"%d" % number)) for number in range(200)]
        page.writer.write(b"".join(pings))
        pongs = [await page.next()]
        while bytes(pongs[-1].payload) != b"199":
            pongs.append(await page.next())
        assert len(pongs) < 100, "one for each piece"
        page.close()


@pytest.mark.parametrize("octets", [b"\x89\x80\0\0\0\0", b"\x82\x80\0\0\0\0", b"\x8a\x80\0\0\0\0"])
async def test_a_stranger_says_only_so_much_on_the_line(octets: bytes) -> None:
    async with testing.broker(limits=Limits(max_unauthenticated_bytes=4096)) as running:
        page = Page(running)
        await page.open()
        page.writer.write(octets * 4096)
        with contextlib.suppress(ConnectionError):
            while await page.reader.read(65_536):
                pass
        await ended(running)
        assert running.broker.admission.limit_hits["STOMP", "max_unauthenticated_bytes"] == 1
        page.close()
        known = await Page(running).connect()
        known.writer.write(octets * 4096)
        known.send(events.TextMessage("BEGIN\ntransaction:t\nreceipt:1\n\n\0"))
        while not isinstance(answer := await known.next(), events.TextMessage):
            assert isinstance(answer, events.Pong)
        assert answer.data.startswith("RECEIPT")
        known.close()


async def test_what_a_parser_raises_ends_one_web_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker() as running:
        page, other = await Page(running).connect(), await Page(running).connect()
        monkeypatch.setattr(BoundedWebSocketProtocol, "handle_message", lambda self, event: 1 / 0)
        with structlog.testing.capture_logs() as lines:
            page.send(events.TextMessage("x"))
            with contextlib.suppress(ConnectionError):
                assert await page.reader.read() == b""
        refusals = [line for line in lines if line["log_level"] == "error"]
        assert [(line["event"], "exc_info" in line) for line in refusals] == [
            ("defect while serving a web socket", False)
        ]
        async with asyncio.timeout(10):
            while running.broker.web_sockets > 1:  # noqa: ASYNC110 - a counter tells nobody
                await asyncio.sleep(0.005)
        assert running.broker.web_sockets == 1, "the other one goes on"
        page.close()
        other.close()


async def test_who_is_not_read_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket_protocol, "CLOSE_GRACE_SECONDS", 0.01)
    async with testing.broker() as running:
        page = await Page(running).connect()
        server = server_side(running)
        server.read_paused = True
        server.send_keepalive_ping()
        server.keepalive_timeout()
        assert not server.transport.is_closing()
        assert server.ping_timer is not None, "it is asked again"
        server.read_paused = False
        server.send_keepalive_ping()
        server.keepalive_timeout()
        while not isinstance(closing := await page.next(), events.CloseConnection):
            assert isinstance(closing, events.Ping)
        assert closing.code == 1011
        await ended(running)
        page.close()


async def test_a_message_beyond_the_limit_cuts_who_does_not_read_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket_protocol, "CLOSE_GRACE_SECONDS", 0.01)
    monkeypatch.setattr("annulet.admin.service.WEB_SOCKET_MESSAGE_BYTES_MAX", 2000)
    async with testing.broker() as running:
        page = await Page(running).connect()
        server = server_side(running)
        page.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while server.writable.is_set():
            server.transport.write(b"x" * 1_000_000)
            await asyncio.sleep(0)
        page.send(events.TextMessage("\n" * 2001))
        await ended(running)
        assert server.disconnected
        page.close()


async def test_the_parser_ends_with_its_connection_and_drops_what_it_holds() -> None:
    """It held itself and what had come of a frame until a garbage collection, of a peer that is not logged in too."""
    async with testing.broker() as running:
        page = await Page(running).connect()
        parser = weakref.ref(server_side(running).conn)
        assert parser() is not None
        gc.disable()
        try:
            page.writer.write(b"\x82\xff" + (1_000_000).to_bytes(8) + bytes(4) + b"x" * 10_000)
            page.writer.transport.abort()
            await ended(running)
            await asyncio.sleep(0.01)
            assert parser() is None
            assert not [thing for thing in gc.get_objects() if isinstance(thing, FrameProtocol) and not thing.client]
        finally:
            gc.enable()


def test_a_connection_without_a_hand_shake_has_no_parser_to_end() -> None:
    end_parsing(WSConnection(ConnectionType.SERVER))
