from __future__ import annotations

import asyncio

import pytest
import structlog

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.limits import Limits
from annulet.broker.stomp import commands, connection
from annulet.broker.stomp.connection import HEARTBEAT_MISSES_MAX
from annulet.wire.stomp.frames import Frame, encode_frame
from tests.broker.stomp.peer import Peer
from tests.broker.timers import Timers


async def test_login_enters_a_virtual_host_and_any_other_host_name_means_the_default(broker: Broker) -> None:
    broker.create_host("other")
    broker.catalogue.access.set_permission("guest", "other", ".*", ".*", ".*")
    broker.authenticator.reload()
    for host, expected in (("/", "/"), ("broker.example", "/"), ("", "/"), ("other", "other")):
        peer = await Peer(broker).open(host=host)
        assert peer.connection.require_host().name == expected
        assert peer.connection.protocol_name == "STOMP 1.2"
        assert peer.connection.publisher.startswith("guest@127.0.0.1:")


async def test_a_wrong_password_is_an_error_and_the_end(broker: Broker) -> None:
    peer = Peer(broker)
    await peer.send("CONNECT", host="/", accept_version="1.2", login="guest", passcode="wrong", receipt="1")
    assert (await peer.error()).startswith("login refused: user name or password is wrong")
    assert peer.connection.session is None


async def test_without_login_a_local_peer_is_the_guest(broker: Broker) -> None:
    peer = Peer(broker)
    await peer.send("CONNECT", host="/", accept_version="1.2")
    assert (await peer.next("CONNECTED")).headers["version"] == "1.2"
    assert peer.connection.user_name == "guest"


async def test_a_user_without_permissions_may_not_enter(broker: Broker) -> None:
    broker.create_host("closed")
    peer = Peer(broker)
    await peer.send("CONNECT", host="closed", accept_version="1.2", login="guest", passcode="guest")
    assert await peer.error() == "access to vhost 'closed' refused for user 'guest'"


async def test_disconnect_is_answered_and_closes(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.send("DISCONNECT", receipt="bye")
    assert (await peer.next("RECEIPT")).headers == {"receipt-id": "bye"}
    await peer.settle()
    assert peer.transport.closing
    assert peer.connection not in broker.connections


async def test_disconnect_before_connect_closes(broker: Broker) -> None:
    peer = Peer(broker)
    await peer.send("DISCONNECT")
    assert peer.transport.closing


async def test_a_stop_of_the_broker_is_told(broker: Broker) -> None:
    peer = await Peer(broker).open()
    peer.connection.force_close("broker shut down")
    assert await peer.error() == "broker shut down"


async def test_heartbeats_are_sent_and_a_silent_peer_is_given_up(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    peer = await Peer(broker).open(heart_beat="1000,1000")
    peer.connection.engine.received_since_check = False
    for _ in range(HEARTBEAT_MISSES_MAX * 2):
        assert timers.fire(peer.connection) == 0.5
        await peer.settle()
        assert bytes(peer.transport.written) == b"\n"
        peer.transport.written.clear()
    assert not peer.transport.closing
    timers.fire(peer.connection)
    assert peer.transport.closing
    assert broker.admission.silent_closed == 1


async def test_a_peer_that_promised_nothing_is_given_up_after_the_idle_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with testing.broker(http=False, limits=Limits(idle_timeout=4.0)) as running:
        timers = Timers(running.broker, monkeypatch)
        peer = await Peer(running.broker).open(heart_beat="0,2000")
        for _ in range(4):
            assert timers.fire(peer.connection) == 1.0
            await peer.settle()
        assert not peer.transport.closing
        assert running.broker.admission.idle_closed == 0
        timers.fire(peer.connection)  # our heart-beats are no sign of the peer's
        assert await peer.error() == "idle for 4 seconds; announce a heart-beat"
        assert running.broker.admission.idle_closed == 1


async def test_a_consumer_that_only_receives_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, limits=Limits(idle_timeout=4.0)) as running:
        timers = Timers(running.broker, monkeypatch)
        sender = await Peer(running.broker).open()
        peer = await Peer(running.broker).open()
        await peer.request("SUBSCRIBE", id="s", destination="/queue/q")
        for _ in range(6):
            await sender.send("SEND", destination="/queue/q")
            await peer.messages(1)
            assert timers.fire(peer.connection) == 2.0
        assert not peer.transport.closing
        for _ in range(2):
            assert timers.fire(peer.connection) == 2.0
        assert "idle for 4 seconds" in await peer.error()
        sender.lose()
        await sender.settle()


async def test_a_heartbeat_from_the_peer_counts(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    peer = await Peer(broker).open(heart_beat="1000,0")
    for _ in range(HEARTBEAT_MISSES_MAX * 4):
        peer.connection.data_received(b"\n")
        assert timers.fire(peer.connection) == 0.5
        await peer.settle()
    assert not peer.transport.closing
    assert bytes(peer.transport.written) == b""


async def test_a_peer_that_says_nothing_is_cut_after_the_handshake_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    peer = Peer(broker)
    assert timers.fire(peer.connection) == broker.configuration.handshake_timeout
    assert peer.transport.closing


async def test_a_peer_that_leaves_during_its_login_costs_nothing_more(broker: Broker) -> None:
    peer = Peer(broker)
    connect = {"host": "/", "accept-version": "1.2", "login": "guest", "passcode": "guest"}
    peer.connection.data_received(encode_frame(Frame("CONNECT", connect)))
    task = peer.connection._login
    assert task is not None
    peer.lose()
    await peer.settle()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert peer.connection not in broker.connections


async def test_a_login_that_comes_too_late_leaves_nothing_behind(broker: Broker) -> None:
    peer = Peer(broker)
    connect = {"host": "/", "accept-version": "1.2", "login": "guest", "passcode": "guest"}
    peer.connection.data_received(encode_frame(Frame("CONNECT", connect)) + b"\n" * 65_536)
    task = peer.connection._login
    assert task is not None
    assert "octets before authentication" in await peer.error()
    await asyncio.wait([task])
    assert peer.connection.session is None
    assert broker.admission.by_user == {}


async def test_a_defect_in_a_login_is_told_and_logged(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: object, *arguments: object, **named: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(connection.SaslExchange, "begin", fail)
    peer = Peer(broker)
    with structlog.testing.capture_logs() as lines:
        await peer.send("CONNECT", host="/", accept_version="1.2", login="guest", passcode="guest")
        assert await peer.error() == "login refused: internal error; the broker's log says more"
    assert "defect while serving a connection" in [line["event"] for line in lines]


async def test_a_defect_in_what_waited_for_the_login_is_told(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, *arguments: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(commands.StompCommands, "send", fail)
    peer = Peer(broker)
    connect = {"host": "/", "accept-version": "1.2", "login": "guest", "passcode": "guest"}
    send = Frame("SEND", {"destination": "/queue/q"})
    with structlog.testing.capture_logs():
        peer.connection.data_received(encode_frame(Frame("CONNECT", connect)) + encode_frame(send))
        for _ in range(2000):
            frames = peer.take()
            if frames:
                break
            await asyncio.sleep(0.001)
    assert [frame.command for frame in frames] == ["CONNECTED", "ERROR"]
    assert frames[1].headers["message"] == "internal error; the broker's log says more"


async def test_who_never_logs_in_does_not_fill_the_log(broker: Broker) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(20):
            peer = Peer(broker)
            await peer.send("SEND", destination="/queue/q")
            assert peer.transport.closing
    assert 1 <= len(lines) <= 6
    assert {line["event"] for line in lines} == {"connection closed before it was open"}


async def test_a_connection_over_the_limit_is_told_why(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker.admission, "may_connect", lambda peer: "the broker has enough connections")
    peer = Peer(broker)
    await peer.send("CONNECT", host="/", accept_version="1.2", login="guest", passcode="guest")
    assert await peer.error() == "the broker has enough connections"


async def test_the_debug_log_is_a_protocol_trace_without_passwords(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(connection, "frame_trace", lambda configuration, client: lines.append)
    await Peer(broker).open()
    incoming, outgoing = lines
    assert incoming.startswith("<- CONNECT host='/' login='guest' passcode='***'")
    assert outgoing.startswith("-> CONNECTED version='1.2'")
