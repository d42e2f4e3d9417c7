"""The bounds of WebSockets below STOMP, over real sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest
from wsproto import events

from annulet import testing
from annulet.admin import web_socket_protocol
from annulet.admin.web_socket_protocol import BoundedWebSocketProtocol
from annulet.testing.in_process import RunningBroker
from tests.admin.test_web_socket import Page, ended

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
