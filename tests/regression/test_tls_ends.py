"""A10: a connection through TLS that is cut while its protocol comes has ended for that protocol too.

asyncio's TLS chooses the protocol that is told of the end a turn before it tells it, unlike a plain transport. If
another protocol has the transport by then, it must hear of it: else the connection stays for ever, with its queues and
its memory.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any, cast

import pytest

from annulet import testing
from annulet.broker.amqp091.connection import AmqpConnection
from annulet.broker.amqp_listener import AmqpListenerProtocol
from annulet.broker.broker import Broker
from annulet.broker.network.lingering import LingeringSockets
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.security.admission import Admission
from annulet.broker.security.tls import TlsAcceptor, TlsCounters
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.broker.settings.limits import Limits
from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.methods import encode_method
from annulet.wire.amqp091.types.constants import PROTOCOL_HEADER
from tests.broker.amqp091.peer import RecordingTransport
from tests.broker.conftest import until
from tests.certificates import Certificates
from tests.regression.blocking_clients import BlockingClient

AT_ONCE = 10
TIMES = 20
SECONDS = 30.0


class HandedOn(RecordingTransport):
    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol


class Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost = 0

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost += 1


def test_the_acceptor_tells_the_protocol_that_came_a_moment_before() -> None:
    """A10: the one who awaits the hand-shake was told."""
    heard, transport = Heard(), HandedOn()
    acceptor = TlsAcceptor(
        cast("Any", None), lambda: heard, Admission(Limits()), TlsCounters(), 10.0, LimitedLog(None), cast("Any", None)
    )
    acceptor._hand_over(cast("asyncio.Transport", transport))
    acceptor.connection_lost(None)
    assert (transport.protocol, heard.lost) == (heard, 1)


async def test_early_input_of_several_reads_is_for_the_protocol_that_the_first_one_chose() -> None:
    """A10: the second read went to the one who had chosen: it closed the socket, and the connection stayed."""
    async with testing.broker(http=False) as running:
        acceptor = TlsAcceptor(
            cast("Any", None), lambda: AmqpListenerProtocol(running.broker), running.broker.admission, TlsCounters(),
            10.0, LimitedLog(None), cast("Any", None),
        )  # fmt: skip
        for piece in (PROTOCOL_HEADER, BEGINNINGS["amqps"].removeprefix(PROTOCOL_HEADER)):
            acceptor.data_received(piece)
        acceptor.eof_received()
        transport = HandedOn()
        acceptor._hand_over(cast("asyncio.Transport", transport))
        assert isinstance(transport.protocol, AmqpConnection)
        (connection,) = running.broker.connections
        await until(lambda: connection.user_name == "guest", SECONDS)
        assert not transport.closing
        acceptor.connection_lost(None)
        assert running.broker.connections == set()


@pytest.mark.parametrize("header", [b"AMQP\0\0\x09\x01", b"AMQP\x03\x01\0\0"], ids=["0-9-1", "1.0"])
async def test_the_chooser_of_the_protocol_tells_the_chosen(header: bytes) -> None:
    """A10: the one who read the header was told, and the connection stayed."""
    async with testing.broker(http=False) as running:
        chooser, transport = AmqpListenerProtocol(running.broker), HandedOn()
        chooser.connection_made(cast("asyncio.Transport", transport))
        chooser.data_received(header)
        assert len(running.broker.connections) == 1
        chooser.connection_lost(None)
        assert (len(running.broker.connections), len(running.broker.undecided)) == (0, 0)
        assert (running.broker.admission.connections, running.broker.admission.handshakes) == (0, 0)


async def test_a_socket_whose_end_was_told_does_not_linger() -> None:
    """A10: its end is never told again, so it would have stayed with the lingering ones."""
    sockets, transport = LingeringSockets(lambda: None), HandedOn()
    transport.can_write_eof = lambda: False  # type: ignore[attr-defined]
    transport.closing = True
    loop = asyncio.get_running_loop()
    assert not sockets.begin(cast("Any", transport), loop, seconds=1.0, most=1, release=lambda: None)
    assert len(sockets) == 0


ARGUMENTS: dict[str, PropertyValue] = {"mechanism": "PLAIN", "response": b"\0guest\0guest", "locale": "en_US"}
START_OK = encode_method("connection.start-ok", ARGUMENTS)

BEGINNINGS = {
    "amqps": PROTOCOL_HEADER + struct.pack(">BHI", 1, 0, len(START_OK)) + START_OK + b"\xce",
    "stomps": b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0",
    "https": (
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"
        b"\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    ),
}


async def test_peers_that_are_gone_at_once_leave_nothing(tmp_path: Path) -> None:
    """A10: of 300 damaged sessions through TLS three connections stayed, and their exclusive queues locked."""
    certificates = Certificates(tmp_path)
    free = Endpoint(LOOPBACK, 0)
    settings: Any = dict.fromkeys(BEGINNINGS, certificates.settings())
    async with testing.broker(stomp=True, amqps=free, stomps=free, https=free, tls=settings) as running:
        context = certificates.client_context()
        ports = {name: int(running.urls[name].rpartition(":")[2]) for name in BEGINNINGS}

        def come_and_go(door: str) -> None:
            for _ in range(TIMES):
                client = BlockingClient((LOOPBACK, ports[door]), tls=context)
                client.send(BEGINNINGS[door])
                client.reset()

        await asyncio.gather(*(asyncio.to_thread(come_and_go, door) for door in BEGINNINGS for _ in range(AT_ONCE)))
        await until(lambda: nothing_is_left(running.broker), SECONDS)


def nothing_is_left(broker: Broker) -> bool:
    admission = broker.admission
    sets = (broker.connections, broker.undecided, broker.lingering)
    counts = (broker.web_sockets, admission.connections, admission.handshakes, admission.http_connections)
    return not any(map(len, sets)) and not any(counts)
