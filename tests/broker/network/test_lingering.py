from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from annulet.broker.broker import Broker
from annulet.broker.network import lingering
from annulet.broker.network.lingering import LINGER_SECONDS, Lingering, LingeringSockets
from annulet.broker.settings.limits import Limits
from tests.broker.amqp091.peer import RecordingTransport, turns
from tests.broker.echo import EchoConnection, connected
from tests.broker.timers import Timers

SECONDS_SHORT = 0.02


class HalfClosing(RecordingTransport):
    """A transport whose halves end one by one."""

    reset = False

    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self.reset:
            raise OSError(107, "Transport endpoint is not connected")
        self.ended = True


class Reset(HalfClosing):
    reset = True


def begun(
    sockets: LingeringSockets, transport: RecordingTransport, *, seconds: float = LINGER_SECONDS, most: int = 10
) -> list[str]:
    released: list[str] = []
    assert sockets.begin(
        transport,  # type: ignore[arg-type]
        asyncio.get_running_loop(),
        seconds=seconds,
        most=most,
        release=lambda: released.append("released"),
    )
    return released


def over(broker: Broker, transport: RecordingTransport) -> EchoConnection:
    connection = EchoConnection(broker)
    transport.protocol = connection
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection


async def test_input_is_discarded_until_the_peer_ends() -> None:
    sockets, transport = LingeringSockets(lambda: None), HalfClosing()
    transport.reading = False
    released = begun(sockets, transport)
    assert (transport.ended, transport.reading, transport.closing, len(sockets)) == (True, True, False, 1)
    transport.protocol.data_received(b"0123456789")
    transport.protocol.pause_writing()
    transport.protocol.resume_writing()
    assert transport.protocol.eof_received() is False, "asyncio closes it then"
    assert (transport.closing, released) == (False, [])
    transport.close()
    await turns()
    assert (released, len(sockets), sockets.cut) == (["released"], 0, 0)


async def test_a_peer_that_sends_too_much_is_cut() -> None:
    sockets, transport = LingeringSockets(lambda: None), HalfClosing()
    released = begun(sockets, transport)
    transport.protocol.data_received(b"0123456789")
    assert not transport.closing, "as much as the bound says"
    transport.protocol.data_received(b"0")
    assert transport.closing
    await turns()
    assert (released, sockets.cut) == (["released"], 1)


async def test_a_peer_that_does_not_end_is_cut_in_time() -> None:
    ended: list[int] = []
    sockets, transport = LingeringSockets(lambda: ended.append(len(sockets))), HalfClosing()
    released = begun(sockets, transport, seconds=SECONDS_SHORT)
    await asyncio.sleep(SECONDS_SHORT * 2)
    assert (transport.closing, released, ended, sockets.cut) == (True, ["released"], [0], 1)


async def test_no_peer_has_more_time_than_the_bound() -> None:
    sockets, transport = LingeringSockets(lambda: None), HalfClosing()
    begun(sockets, transport, seconds=1000)
    socket = transport.protocol
    assert isinstance(socket, Lingering)
    assert socket._deadline is not None
    assert socket._deadline.when() - asyncio.get_running_loop().time() <= LINGER_SECONDS
    socket.abort()
    await turns()


async def test_a_peer_that_has_reset_the_connection_is_gone_at_once() -> None:
    sockets, transport = LingeringSockets(lambda: None), Reset()
    released = begun(sockets, transport)
    await turns()
    assert (transport.closing, released) == (True, ["released"])


class SecuredHalf:
    """Stands in for TLS: its close_notify is for the socket when reading begins anew."""

    def __init__(self) -> None:
        self.unwrapped = 0

    def unwrap(self) -> None:
        self.unwrapped += 1
        raise ssl.SSLWantReadError("the peer's close_notify has not come")


class Secured(HalfClosing):
    def __init__(self) -> None:
        super().__init__()
        self.secured = SecuredHalf()
        self.resumed = 0

    def get_extra_info(self, name: str) -> Any:
        return self.secured if name == "ssl_object" else super().get_extra_info(name)

    def can_write_eof(self) -> bool:
        return False

    def resume_reading(self) -> None:
        self.resumed += not self.reading  # asyncio does nothing where it was not paused
        super().resume_reading()


async def test_through_tls_our_half_ends_and_the_peer_is_read_on() -> None:
    sockets, transport = LingeringSockets(lambda: None), Secured()
    begun(sockets, transport, seconds=SECONDS_SHORT)
    assert (transport.secured.unwrapped, transport.resumed, transport.ended) == (1, 1, False)
    transport.protocol.data_received(b"0123456789")
    assert not transport.closing
    await asyncio.sleep(SECONDS_SHORT * 2)
    assert (transport.closing, sockets.cut) == (True, 1), "it has the same time as one without TLS"


async def test_what_has_no_halves_and_what_comes_after_the_stop_is_left_to_its_owner() -> None:
    sockets = LingeringSockets(lambda: None)
    left, taken, late = RecordingTransport(), HalfClosing(), HalfClosing()
    options: Any = {"seconds": 1.0, "most": 1, "release": lambda: None}
    loop = asyncio.get_running_loop()
    assert not sockets.begin(left, loop, **options)  # type: ignore[arg-type]
    begun(sockets, taken)
    sockets.stop()
    assert not sockets.begin(late, loop, **options)  # type: ignore[arg-type]
    await turns()
    assert (left.closing, taken.closing, late.closing, len(sockets)) == (False, True, False, 0)


# ---------------------------------------------------------------------- of a broker


async def test_a_connection_ends_when_its_last_answer_is_written(broker: Broker) -> None:
    transport = HalfClosing()
    connection = over(broker, transport).open()
    connection.data_received(b"quit")
    await turns()
    assert (transport.written, transport.ended, transport.closing) == (b"quit", True, False)
    assert (connection.lost, connection.endings, broker.connections) == (True, 1, set())
    assert (broker.admission.connections, dict(broker.admission.by_user)) == (1, {})
    connection.connection_lost(None)
    assert connection.endings == 1
    transport.close()
    await turns()
    assert (broker.admission.connections, broker.admission.handshakes, dict(broker.admission.by_address)) == (0, 0, {})


async def test_a_stranger_keeps_its_place_and_has_no_more_time_than_for_its_handshake(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = HalfClosing()
    connection = EchoConnection(broker)
    connection.waited = broker.configuration.handshake_timeout - 1
    timers = Timers(broker, monkeypatch)
    transport.protocol = connection
    connection.connection_made(transport)  # type: ignore[arg-type]
    connection.data_received(b"quit")
    await turns()
    socket = transport.protocol
    assert isinstance(socket, Lingering)
    assert 0 < timers.of(socket)[-1].seconds <= 1
    assert (broker.admission.connections, broker.admission.handshakes) == (1, 1)
    socket.data_received(bytes(lingering.STRANGER_BYTES_MAX))
    assert not transport.closing
    socket.data_received(b"x")
    assert transport.closing
    await turns()
    assert (broker.admission.connections, broker.admission.handshakes) == (0, 0)


async def test_a_refused_connection_was_not_counted(broker: Broker) -> None:
    broker.admission.limits = Limits(max_connections=1)
    connected(broker)
    transport = HalfClosing()
    connection = over(broker, transport)
    assert connection.refusal
    connection.data_received(b"quit")
    await turns()
    assert len(broker.lingering) == 1
    transport.close()
    await turns()
    assert (len(broker.lingering), broker.admission.connections) == (0, 1)


async def test_an_end_of_input_behind_the_last_question_ends_both_halves(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    transport = HalfClosing()
    connection = over(broker, transport).open()
    connection.data_received(b"quit")
    assert connection.eof_received() is False
    assert (transport.written, transport.ended, connection.lost) == (b"quit", True, True)
    assert all(due.handle.cancelled() for due in timers.of(connection))
    transport.close()
    await turns()
    assert len(broker.lingering) == 0
