from __future__ import annotations

from typing import Any

import pytest

from annulet import testing
from annulet.broker.amqp091.connection import AmqpConnection
from annulet.broker.amqp10.connection import Amqp10Connection
from annulet.broker.amqp_listener import NEWEST, VERSIONS_0_X, VERSIONS_1_0, AmqpListenerProtocol
from annulet.broker.broker import Broker
from annulet.broker.connections.transport import CLOSE_GRACE_SECONDS
from annulet.broker.network.listening import PeerFacts
from annulet.broker.settings.limits import Limits
from tests.broker.amqp091.peer import RecordingTransport, turns
from tests.broker.conftest import leave
from tests.broker.timers import Timers


class SwitchingTransport(RecordingTransport):
    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


def connected(broker: Broker) -> tuple[AmqpListenerProtocol, SwitchingTransport]:
    listener, transport = AmqpListenerProtocol(broker), SwitchingTransport()
    transport.protocol = listener
    listener.connection_made(transport)  # type: ignore[arg-type]
    return listener, transport


@pytest.mark.parametrize("header", [*VERSIONS_1_0, *VERSIONS_0_X], ids=repr)
@pytest.mark.parametrize("size", [8, 1, 3])
async def test_a_header_decides_however_it_is_cut(broker: Broker, header: bytes, size: int) -> None:
    listener, transport = connected(broker)
    assert broker.undecided == {listener}
    assert broker.admission.handshakes == 1
    for start in range(0, 8, size):
        assert transport.protocol is listener
        assert transport.written == b""
        listener.data_received(header[start : start + size])
    kind = Amqp10Connection if header in VERSIONS_1_0 else AmqpConnection
    assert type(transport.protocol) is kind
    assert broker.connections == {transport.protocol}
    assert broker.undecided == set()
    assert broker.admission.handshakes == 1, "of the connection now"
    await turns()
    assert transport.written  # it is served: a header, or connection.start


async def test_what_follows_the_header_in_the_same_read_is_not_lost(broker: Broker) -> None:
    listener, transport = connected(broker)
    listener.data_received(VERSIONS_1_0[0] + b"\x00\x00\x00\x08\x02\x00\x00\x00")
    assert transport.protocol.bytes_received == 16


@pytest.mark.parametrize(
    "received",
    [b"GET / HTTP/1.1\r\n", b"A", b"AMQP\x00\x02\x00\x00", b"AMQP\x02\x01\x00\x00", b"AMQX", b"\x16\x03\x01\x02\x00"],
)
async def test_anything_else_is_answered_with_the_newest_header(broker: Broker, received: bytes) -> None:
    listener, transport = connected(broker)
    listener.data_received(received)
    if received == b"A":  # it may become one
        assert (transport.closing, bytes(transport.written)) == (False, b"")
        return
    assert bytes(transport.written) == NEWEST == VERSIONS_1_0[0]
    assert transport.closing
    await turns()
    assert (broker.undecided, broker.connections, broker.admission.handshakes) == (set(), set(), 0)


async def test_who_does_not_let_his_socket_close_is_counted_until_it_is_cut(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As over TLS, where both sides have to agree on the end."""
    timers = Timers(broker, monkeypatch)
    listener, transport = connected(broker)
    transport.close = lambda: setattr(transport, "closing", True)  # type: ignore[method-assign]
    listener.data_received(b"GET / HTTP/1.1\r\n")
    await turns()
    assert (broker.undecided, broker.admission.handshakes) == ({listener}, 1)
    assert timers.waiting == [CLOSE_GRACE_SECONDS]
    transport.closing = False
    listener.abort()
    await turns()
    assert (broker.undecided, broker.admission.handshakes) == (set(), 0)


async def test_who_says_nothing_is_cut_and_counted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    listener, transport = connected(broker)
    assert timers.fire(listener) == broker.configuration.handshake_timeout
    assert (transport.closing, broker.admission.handshakes_timed_out) == (True, 1)
    await turns()
    assert broker.undecided == set()
    assert timers.waiting == []


async def test_there_is_a_limit_on_who_has_not_decided() -> None:
    async with testing.broker(http=False, limits=Limits(max_handshakes=2)) as running:
        undecided = [connected(running.broker)[1] for _ in range(2)]
        _, refused = connected(running.broker)
        assert [transport.closing for transport in (*undecided, refused)] == [False, False, True]
        assert not running.broker.admission.handshake_began(PeerFacts("127.0.0.1", 1)), (
            "they count for all who are not logged in"
        )
        undecided[0].abort()
        await turns()
        assert not connected(running.broker)[1].closing
        for transport in undecided:
            transport.abort()
        await turns()
        for listener in list(running.broker.undecided):
            listener.abort()
        await turns()
        leave(running.broker)


async def test_an_end_of_input_closes(broker: Broker) -> None:
    listener, _ = connected(broker)
    assert listener.eof_received() is False


@pytest.mark.parametrize("header", [VERSIONS_1_0[1], VERSIONS_0_X[0]], ids=["1.0", "0-x"])
async def test_waiting_for_the_header_uses_up_the_time_for_the_login(
    broker: Broker, header: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    listener, transport = connected(broker)
    waited = 0.75 * broker.configuration.handshake_timeout
    late = broker.loop.time() + waited
    monkeypatch.setattr(broker.loop, "time", lambda: late)
    listener.data_received(header)
    (connection,) = broker.connections
    (due,) = timers.of(connection)
    assert 0 < due.seconds <= 0.25 * broker.configuration.handshake_timeout
    transport.abort()
