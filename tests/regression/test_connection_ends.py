"""B16: the last answer reaches a peer that still writes, in every protocol, with TLS and without.

Each peer sends many megabytes behind what ends its connection, and reads only then. The system resets a socket that is
closed with unread input, and the peer would read "connection reset" in the place of the answer.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pika import spec
from wsproto import ConnectionType, WSConnection, events

from annulet import testing
from annulet.admin.listening.web_socket import WEB_SOCKET_MESSAGE_BYTES_MAX
from annulet.broker.network.lingering import STRANGER_BYTES_MAX
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.broker.settings.limits import Limits
from annulet.broker.turns.input_shares import INPUT_SECONDS_MAX
from annulet.testing.in_process import RunningBroker
from tests.broker.conftest import slow_processor, until
from tests.certificates import Certificates
from tests.clients.raw import PROTOCOL_HEADER, content_header, frame, method, publish
from tests.clients.raw10 import AMQP_HEADER, CLOSE, OPEN, performative
from tests.regression.blocking_clients import BlockingClient, WebSocketClient

HUNDRED_PUBLISHES = b"".join([publish(1, "nowhere"), content_header(1, 65_536), frame(3, 1, bytes(65_536))]) * 100
MUCH = HUNDRED_PUBLISHES * 4
"""26 MB: more than the buffers of both sockets together."""

STOMP_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:%b\n\n\0"
STOMP_SEND = b"SEND\ndestination:/queue/nowhere\n\n" + b"x" * 65_536 + b"\0"
SENT = 2000
SECONDS = 20
"""A guard: a broker that does not read on is found by the reset."""

PAUSE_SECONDS = 0.8
"""Longer than any silence after which a socket was closed."""


def start_ok(password: str = "guest", *, capable: bool = True) -> bytes:
    capabilities = {"authentication_failure_close": True} if capable else {}
    return method(
        0,
        spec.Connection.StartOk(
            client_properties={"capabilities": capabilities}, mechanism="PLAIN", response=f"\0guest\0{password}"
        ),
    )


OPENED = [
    PROTOCOL_HEADER,
    start_ok(),
    method(0, spec.Connection.TuneOk(channel_max=10, frame_max=131_072, heartbeat=0))
    + method(0, spec.Connection.Open()),
    method(1, spec.Channel.Open()),
]
CONNECTION_CLOSE = method(0, spec.Connection.Close(200, "bye", 0, 0))
CLOSE_OK = method(0, spec.Connection.CloseOk())

ENDS: dict[str, tuple[str, list[bytes], bytes, bytes]] = {
    "0-9-1 close": ("amqp", OPENED, CONNECTION_CLOSE + MUCH, CLOSE_OK),
    "0-9-1 frame error": ("amqp", OPENED, b"\x09" + MUCH, b"FRAME_ERROR - unknown frame type 9"),
    "0-9-1 refused login": ("amqp", [PROTOCOL_HEADER], start_ok("wrong") + MUCH[:30_000], b"ACCESS_REFUSED"),
    "unknown header": ("amqp", [], b"HTTP?" + bytes(STRANGER_BYTES_MAX // 2), b"AMQP\x00\x01\x00\x00"),
    "1.0 close": (
        "amqp",
        [AMQP_HEADER, performative(OPEN, "peer")],
        performative(CLOSE) + bytes(26_000_000),
        b"\x00S\x18\xc0\x02\x01@",
    ),
    "1.0 frame error": (
        "amqp",
        [AMQP_HEADER, performative(OPEN, "peer")],
        bytes(26_000_000),
        b"amqp:connection:framing-error",
    ),
    "STOMP error": ("stomp", [STOMP_CONNECT % b"guest"], b"JUMP\n\n\0" + STOMP_SEND * 400, b"unknown command 'JUMP'"),
    "STOMP refused login": (
        "stomp",
        [],
        STOMP_CONNECT % b"wrong" + STOMP_SEND[:30_000],
        b"login refused",
    ),
}  # fmt: skip


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[RunningBroker, ssl.SSLContext]]:
    certificates = Certificates(tmp_path)
    settings: Any = dict.fromkeys(("amqps", "stomps", "https"), certificates.settings())
    free = Endpoint(LOOPBACK, 0)
    async with testing.broker(stomp=True, amqps=free, stomps=free, https=free, tls=settings) as running:
        yield running, certificates.client_context()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("case", ENDS)
async def test_the_last_answer_arrives_whatever_is_sent_behind_the_end(
    running: tuple[RunningBroker, ssl.SSLContext], case: str, secure: bool
) -> None:
    """B16: close-ok, ERROR and the reason of a refusal, while the peer still writes."""
    broker, context = running
    listener, before, last, expected = ENDS[case]
    reader, writer = await connect(broker, listener, context if secure else None)
    for piece in before:
        writer.write(piece)
        await reader.read(65_536)
    writer.write(last)
    await asyncio.wait_for(writer.drain(), SECONDS)
    received = await asyncio.wait_for(reader.read(), SECONDS)
    assert expected in received
    writer.close()
    await until(lambda: not broker.broker.lingering, SECONDS)
    admission = broker.broker.admission
    assert (admission.connections, admission.handshakes, dict(admission.by_address)) == (0, 0, {})


async def test_the_last_answer_waits_for_a_peer_that_pauses_and_then_writes_on(tmp_path: Path) -> None:
    """B16: through TLS the socket was closed after half a second of silence, and what came then reset it."""
    certificates = Certificates(tmp_path)
    settings: Any = dict.fromkeys(("amqps", "stomps", "https"), certificates.settings())
    free = Endpoint(LOOPBACK, 0)
    limits = Limits(login_delay_first=0.0, login_delay_most=0.0)
    async with testing.broker(stomp=True, amqps=free, stomps=free, https=free, tls=settings, limits=limits) as running:
        context = certificates.client_context()
        peers = [(case, tls) for case in [*ENDS, "WebSocket error"] for tls in (None, context)]
        received = await asyncio.gather(*(asyncio.to_thread(pause_and_write_on, running, *peer) for peer in peers))
        for (case, tls), answer in zip(peers, received, strict=True):
            expected = ENDS[case][3] if case in ENDS else b"unknown command 'JUMP'"
            assert expected in answer, (case, "plain" if tls is None else "TLS")
        await until(lambda: not running.broker.lingering, SECONDS)
        assert running.broker.lingering.cut == 0
        admission = running.broker.admission
        assert (admission.connections, admission.handshakes, dict(admission.by_address)) == (0, 0, {})


def pause_and_write_on(broker: RunningBroker, case: str, tls: ssl.SSLContext | None) -> bytes:
    """Send what ends the connection, say nothing for a while, send more, and only then read to the end."""
    if case in ENDS:
        listener, before, last, _ = ENDS[case]
        client = BlockingClient(address_of(broker, listener, tls), tls=tls)
        for piece in before:
            client.send(piece)
            client.more()
        client.send(last[:1000])
        send, more = client.send, last[1000:31_000]
    else:
        client = web_socket = WebSocketClient(address_of(broker, "http", tls), tls=tls).open()
        web_socket.message(b"JUMP\n\n\0")
        send, more = web_socket.message, STOMP_SEND[:30_000]
    time.sleep(PAUSE_SECONDS)
    with client:
        try:
            for start in range(0, len(more), 1000):  # one write may be taken before the reset comes
                send(more[start : start + 1000])
        except ConnectionError as error:
            raise AssertionError(f"{case}, {'plain' if tls is None else 'TLS'}: {error}") from error
        while client.more():
            pass
    return client.received


def address_of(broker: RunningBroker, listener: str, tls: ssl.SSLContext | None) -> tuple[str, int]:
    name = listener if tls is None else f"{listener}s"
    parts = urlsplit(broker.amqp_url if name == "amqp" else broker.urls[name])
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("too_large", [False, True], ids=["STOMP error", "message too large"])
async def test_the_last_frame_of_a_web_socket_arrives_whatever_is_sent_behind_the_mistake(
    running: tuple[RunningBroker, ssl.SSLContext], secure: bool, too_large: bool
) -> None:
    """B16: the ERROR of STOMP and the close frame of RFC 6455."""
    broker, context = running
    reader, writer = await connect(broker, "http", context if secure else None)
    peer = WSConnection(ConnectionType.CLIENT)
    writer.write(peer.send(events.Request(host="localhost", target="/ws", subprotocols=["v12.stomp"])))
    peer.receive_data(await reader.read(65_536))
    assert isinstance(next(iter(peer.events())), events.AcceptConnection)
    writer.write(peer.send(events.BytesMessage(STOMP_CONNECT % b"guest")))
    peer.receive_data(await reader.read(65_536))
    assert [item.data[:9] for item in peer.events()] == [b"CONNECTED"]
    begun = b"SEND\ndestination:/queue/a\n\n"
    mistake = begun + b"x" * WEB_SOCKET_MESSAGE_BYTES_MAX if too_large else b"JUMP\n\n\0"
    writer.write(peer.send(events.BytesMessage(mistake)))
    for _ in range(400):
        writer.write(peer.send(events.BytesMessage(STOMP_SEND)))
    await asyncio.wait_for(writer.drain(), SECONDS)
    seen: list[events.Event] = []
    while not seen or not isinstance(seen[-1], events.CloseConnection):
        data = await asyncio.wait_for(reader.read(65_536), SECONDS)
        assert data, seen
        peer.receive_data(data)
        seen += peer.events()
    assert seen[-1].code == (1009 if too_large else 1000)
    if not too_large:
        assert b"unknown command 'JUMP'" in b"".join(bytes(i.data) for i in seen if isinstance(i, events.BytesMessage))
    writer.write(peer.send(seen[-1].response()))
    # asyncio's client answers close_notify by closing at once, and its own unread input resets the connection.
    with suppress(ConnectionResetError) if secure else nullcontext():
        assert await asyncio.wait_for(reader.read(), SECONDS) == b""
    writer.close()
    await until(lambda: not broker.broker.lingering and not broker.broker.web_sockets, SECONDS)


HTTP_ENDS: dict[str, tuple[bytes, bytes]] = {
    "bad header": (b"POST / HTTP/1.1\r\nbad header\r\n\r\n" + bytes(500_000), b"HTTP/1.1 400 "),
    "bad chunk": (
        b"PUT /api/vhosts/v HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n" + bytes(500_000),
        b"HTTP/1.1 400 ",
    ),
    "body too large": (
        b"PUT /api/vhosts/v HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"
        b"content-type: application/json\r\ncontent-length: 26000000\r\n\r\n" + bytes(26_000_000),
        b"HTTP/1.1 413 ",
    ),
}


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("case", HTTP_ENDS)
async def test_the_answer_to_a_request_arrives_whatever_is_sent_behind_it(
    running: tuple[RunningBroker, ssl.SSLContext], case: str, secure: bool
) -> None:
    """B16: over HTTP the peer was reset while it wrote on."""
    broker, context = running
    request, expected = HTTP_ENDS[case]
    reader, writer = await connect(broker, "http", context if secure else None)
    writer.write(request)
    await asyncio.wait_for(writer.drain(), SECONDS)
    received = await asyncio.wait_for(reader.read(), SECONDS)
    assert received.startswith(expected)
    writer.close()
    await until(lambda: not broker.broker.lingering, SECONDS)
    assert broker.broker.admission.http_connections == 0


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
async def test_a_web_socket_that_sends_too_much_before_its_login_is_told(
    running: tuple[RunningBroker, ssl.SSLContext], secure: bool
) -> None:
    """B16: 140 KB of frames of one octet ended without a word, 420 KB with a reset."""
    broker, context = running
    reader, writer = await connect(broker, "http", context if secure else None)
    peer = WSConnection(ConnectionType.CLIENT)
    writer.write(peer.send(events.Request(host="localhost", target="/ws", subprotocols=["v12.stomp"])))
    peer.receive_data(await reader.read(65_536))
    assert isinstance(next(iter(peer.events())), events.AcceptConnection)
    writer.write(b"\x82\x81\0\0\0\0\n" * 60_000)
    await asyncio.wait_for(writer.drain(), SECONDS)
    peer.receive_data(await asyncio.wait_for(reader.read(), SECONDS))
    closed = next(iter(peer.events()))
    assert isinstance(closed, events.CloseConnection)
    assert closed.code == 1008
    assert str(closed.reason).endswith("octets before the login; 131072 are the limit")
    writer.close()
    await until(lambda: not broker.broker.lingering and not broker.broker.web_sockets, SECONDS)


async def connect(
    broker: RunningBroker, listener: str, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        *address_of(broker, listener, context),
        ssl=context,
        server_hostname=None if context is None else "localhost",
    )


async def test_what_a_connection_owned_is_gone_when_it_has_its_close_ok() -> None:
    """B16: the socket is read on, but the connection has ended: its queue is deleted, its user not counted."""
    async with testing.broker(http=False) as running:
        host, port = running.broker.amqp_address
        reader, writer = await asyncio.open_connection(host, port)
        for piece in [*OPENED, method(1, spec.Queue.Declare(queue="own", exclusive=True))]:
            writer.write(piece)
            await reader.read(65_536)
        assert "own" in running.broker.hosts["/"].queues
        writer.write(CONNECTION_CLOSE)
        assert await asyncio.wait_for(reader.read(), SECONDS) == CLOSE_OK
        assert "own" not in running.broker.hosts["/"].queues
        assert (running.broker.connections, len(running.broker.lingering)) == (set(), 1)
        assert (running.broker.admission.connections, dict(running.broker.admission.by_user)) == (1, {})
        writer.close()
        await until(lambda: running.broker.admission.connections == 0, SECONDS)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("protocol", ["amqp", "stomp"])
async def test_input_that_waits_for_its_turn_is_served_before_the_end_of_its_peer(
    running: tuple[RunningBroker, ssl.SSLContext], protocol: str, secure: bool
) -> None:
    """A8: a client that sent 3,000 messages to 500 queues each and closed lost most of them: the end was read first."""
    running_broker, context = running
    broker = running_broker.broker
    reader, writer = await connect(running_broker, protocol, context if secure else None)
    for piece in OPENED if protocol == "amqp" else [STOMP_CONNECT % b"guest"]:
        writer.write(piece)
        await reader.read(65_536)
    queue = broker.hosts["/"].declare_queue("ends", now=0)
    slow_processor(broker, INPUT_SECONDS_MAX / 2)
    if protocol == "amqp":
        body = publish(1, "ends") + content_header(1, 1) + frame(3, 1, b"x")
    else:
        body = b"SEND\ndestination:/queue/ends\n\nx\0"
    writer.write(body * SENT)
    await writer.drain()
    writer.close()
    while broker.connections:
        for connection in list(broker.connections):
            connection.look_for_end()
        await asyncio.sleep(0)
    assert broker.inputs.rests
    assert queue.order.count == SENT
