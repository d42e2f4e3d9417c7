"""How a 0-9-1 connection comes in, over a transport of the test's own: limits, SASL with challenges, hang-ups."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.security import admission as admission_module
from annulet.broker.settings.limits import Limits
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp091.connection.states import ConnectionState
from tests.broker.amqp091.peer import CLIENT_PROPERTIES, PROTOCOL_HEADER, Peer, turns
from tests.broker.security.test_sasl import ScramClient
from tests.broker.timers import Timers

CONNECTION = commands.Connection


def leave(broker: Broker) -> None:
    """Cut what a test left open: its peers do not answer connection.close, and stopping would wait for them."""
    for connection in list(broker.connections):
        connection.abort()


def limited(**limits: Any) -> Any:
    return testing.broker(http=False, clock=VirtualClock(), limits=Limits(login_delay_first=0, **limits))


async def codes(peer: Peer) -> list[int]:
    return [item.reply_code for item in await peer.take() if isinstance(item, CONNECTION.Close)]


async def log_in(peer: Peer, mechanism: str = "PLAIN", response: str = "\0guest\0guest") -> None:
    peer.receive(PROTOCOL_HEADER)
    await peer.send(0, CONNECTION.StartOk(dict(CLIENT_PROPERTIES), mechanism, response, "en_US"))
    await peer.checked()


async def test_mechanisms_are_offered(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receive(PROTOCOL_HEADER)
    start = await peer.one(CONNECTION.Start)
    assert start.mechanisms == "PLAIN AMQPLAIN SCRAM-SHA-512 SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("product", "flow", "qos"), [("RabbitMQ", True, False), ("py-amqp", False, True), ("", False, False)]
)
async def test_the_product_says_what_a_client_means(broker: Broker, product: str, flow: bool, qos: bool) -> None:
    peer = await Peer(broker).open(1, product=product)
    assert (peer.connection.obeys_flow, peer.connection.standard_qos) == (flow, qos)


async def test_scram_with_secure_and_secure_ok(broker: Broker) -> None:
    peer = Peer(broker)
    client = ScramClient("SCRAM-SHA-256", "guest", "guest")
    await log_in(peer, "SCRAM-SHA-256", client.first.decode())
    challenge = (await peer.one(CONNECTION.Secure)).challenge
    await peer.send(0, CONNECTION.SecureOk(client.final(challenge.encode()).decode()))
    await peer.checked()
    assert (await peer.one(CONNECTION.Secure)).challenge.encode() == client.server_signature
    await peer.send(0, CONNECTION.SecureOk(""))
    await peer.checked()
    assert isinstance(await peer.one(CONNECTION.Tune), CONNECTION.Tune)
    assert peer.connection.user_name == "guest"


@pytest.mark.parametrize("response", ["\0guest\0wrong", "\0nobody\0guest", "guest"])
async def test_a_refused_login_is_told_and_leaves_nothing(response: str) -> None:
    async with limited() as running:
        peer = Peer(running.broker)
        await log_in(peer, response=response)
        assert await codes(peer) == [403]
        await turns()
        assert running.broker.admission.connections == 0
        assert peer.transport.closing


async def test_a_peer_that_hangs_up_while_it_waits_costs_nothing_more(broker: Broker) -> None:
    waiting = asyncio.Event()

    async def forever(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    broker.authenticator._sleep = forever
    peer = Peer(broker)
    peer.receive(PROTOCOL_HEADER)
    await peer.send(0, CONNECTION.StartOk(dict(CLIENT_PROPERTIES), "PLAIN", "\0guest\0wrong", "en_US"))
    await waiting.wait()
    task = peer.connection.login._task
    assert task is not None
    peer.transport.abort()
    await turns()
    assert task.cancelled()
    assert (broker.admission.connections, broker.admission.handshakes) == (0, 0)
    assert broker.authenticator.attempts_waiting == 0


async def test_a_defect_while_checking_refuses_and_is_logged(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_arguments: Any, **_options: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broker.authenticator, "login", broken)
    peer = Peer(broker)
    with structlog.testing.capture_logs() as logs:
        await log_in(peer)
    assert await codes(peer) == [403]
    assert "defect while checking a login" in [line["event"] for line in logs]


# ---------------------------------------------------------------------- limits


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_address"])
async def test_connections_over_a_limit_are_told_506(limit: str) -> None:
    async with limited(**{limit: 2}) as running:
        broker = running.broker
        for _ in range(2):
            await Peer(broker).open()
        refused = Peer(broker)
        refused.receive(PROTOCOL_HEADER)
        frames = await refused.take()
        assert [type(item) for item in frames] == [CONNECTION.Start, CONNECTION.Close]
        assert frames[1].reply_code == 506
        assert f"which is the limit ({limit})" in frames[1].reply_text
        await turns()
        assert refused.transport.closing
        assert (broker.admission.connections, broker.admission.refused[limit]) == (2, 1)
        next(iter(broker.connections)).abort()
        await turns()
        await Peer(broker).open()
        leave(broker)


async def test_a_refused_peer_that_sends_all_at_once_is_told_too() -> None:
    async with limited(max_connections=1) as running:
        await Peer(running.broker).open()
        refused = Peer(running.broker)
        start_ok = CONNECTION.StartOk(dict(CLIENT_PROPERTIES), "PLAIN", "\0guest\0guest", "en_US")
        await refused.send(0, PROTOCOL_HEADER, start_ok)
        assert await codes(refused) == [506]
        leave(running.broker)


async def test_refused_peers_that_nobody_has_time_for_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_module, "EXPLANATIONS_PER_SECOND", 1)
    async with limited(max_connections=1) as running:
        await Peer(running.broker).open()
        told, cut = Peer(running.broker), Peer(running.broker)
        assert (told.transport.closing, cut.transport.closing) == (False, True)
        await turns()
        assert len(running.broker.connections) == 2
        leave(running.broker)


async def test_connections_of_a_user_over_the_limit_are_told_530() -> None:
    async with limited(max_connections_per_user=1) as running:
        first = await Peer(running.broker).open()
        second = Peer(running.broker)
        await log_in(second)
        await second.send(0, CONNECTION.TuneOk(100, 131_072, 0), CONNECTION.Open("/"))
        assert await codes(second) == [530]
        assert running.broker.admission.by_user == {"guest": 1}
        first.transport.abort()
        await turns()
        assert running.broker.admission.by_user == {}
        third = await Peer(running.broker).open()
        assert third.connection.opened
        leave(running.broker)


async def test_connections_that_are_not_logged_in_are_bounded() -> None:
    async with limited(max_handshakes=2) as running:
        await Peer(running.broker).open()  # logged in: does not count
        waiting = [Peer(running.broker) for _ in range(2)]
        refused = Peer(running.broker)
        refused.receive(PROTOCOL_HEADER)
        assert await codes(refused) == [506]
        waiting[0].transport.abort()
        await turns()
        await Peer(running.broker).open()
        leave(running.broker)


@pytest.mark.parametrize(("size", "code"), [(999, []), (1000, []), (1001, [406])])
async def test_the_size_of_messages_is_the_configured_one(size: int, code: list[int]) -> None:
    from tests.broker.amqp091.peer import publish

    async with limited(max_message_bytes=1000) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, publish(1, "q", b"x" * size))
        closes = [item.reply_code for item in await peer.take() if isinstance(item, commands.Channel.Close)]
        assert closes == code
        leave(running.broker)


async def test_octets_before_the_login_are_bounded() -> None:
    async with limited(max_unauthenticated_bytes=4096) as running:
        peer = Peer(running.broker)
        peer.receive(PROTOCOL_HEADER)
        peer.receive(b"\x01\x00\x00\x00\x00\x1f\x00" + b"x" * 5000)
        assert await codes(peer) == [506]


async def test_idle_peers_without_heartbeats_are_closed_when_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    async with limited(idle_timeout=30) as running:
        broker = running.broker
        timers = Timers(broker, monkeypatch)
        peer = await Peer(broker).open(1)
        await peer.send(1, commands.Basic.Qos(prefetch_count=1))
        assert timers.fire(peer.connection) == 30  # something has come since
        assert await codes(peer) == []
        timers.fire(peer.connection)
        assert await codes(peer) == [320]
        assert broker.admission.idle_closed == 1
        leave(broker)
    async with limited() as running:
        timers = Timers(running.broker, monkeypatch)
        peer = await Peer(running.broker).open()
        assert all(due.handle.cancelled() for due in timers.of(peer.connection)), "off by default"
        leave(running.broker)


async def test_a_handshake_that_timed_out_is_counted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    peer = Peer(broker)
    peer.receive(PROTOCOL_HEADER)
    assert peer.connection.engine.state is ConnectionState.STARTING
    timers.fire(peer.connection)
    assert broker.admission.handshakes_timed_out == 1


async def test_a_refused_peer_that_says_nothing_is_cut_and_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, limits=Limits(max_connections=1)) as running:
        timers = Timers(running.broker, monkeypatch)
        first, refused = Peer(running.broker), Peer(running.broker)
        timers.fire(refused.connection)
        assert refused.transport.closing
        admission = running.broker.admission
        assert (admission.refused["max_connections"], admission.handshakes_timed_out) == (1, 0)
        first.transport.abort()
        await turns()
