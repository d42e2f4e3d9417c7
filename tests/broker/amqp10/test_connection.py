from __future__ import annotations

import asyncio

import pytest
import structlog

from annulet import testing
from annulet.broker.amqp10.connection import DEFAULT_HOST
from annulet.broker.broker import Broker
from annulet.broker.connections.transport import ANSWER_BYTES_MAX
from annulet.broker.observing.limited_log import LINES_PER_SECOND
from annulet.broker.security.admission import Admission
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, SASL_HEADER
from annulet.wire.amqp10.frames.limits import HELD_OUTPUT_BYTES
from annulet.wire.amqp10.frames.performatives import Attach, Begin, Close, Detach, Flow, Open, Source, Target
from annulet.wire.amqp10.frames.sasl import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from annulet.wire.amqp10.types import conditions
from tests.broker.amqp091.peer import turns
from tests.broker.amqp10.peer import Peer, frame, permit, sasl_frame
from tests.broker.conftest import leave
from tests.broker.security.test_sasl import ScramClient
from tests.broker.timers import Timers

# ---------------------------------------------------------------------- SASL, §5.3


async def test_mechanisms_are_offered_and_a_right_password_gets_in(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receive(SASL_HEADER)
    header, offered = await peer.take()
    assert header.performative == SASL_HEADER
    assert isinstance(offered.performative, SaslMechanisms)
    assert {"PLAIN", "ANONYMOUS"} <= set(offered.performative.sasl_server_mechanisms)
    peer = Peer(broker)
    assert (await peer.log_in("PLAIN", b"\0guest\0guest")).code == 0
    await peer.send(AMQP_HEADER, Open("client"))
    assert (await peer.one(Open)).container_id == "annulet"
    assert (peer.connection.user_name, peer.connection.opened) == ("guest", True)


async def test_who_never_opens_does_not_fill_the_log(broker: Broker) -> None:
    broker.admission = Admission(broker.admission.limits, clock=lambda: 0.0)  # all within one second
    with structlog.testing.capture_logs() as lines:
        for _ in range(20):
            peer = Peer(broker)
            peer.receive(b"AMQP\x03\x01\x00\x00garbage" * 10)
            await turns()
            assert peer.transport.closing
    told = [line for line in lines if line["event"] == "connection closed before it was open"]
    assert len(told) == LINES_PER_SECOND


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"\0guest\0wrong"),
        ("PLAIN", b"\0nobody\0guest"),
        ("PLAIN", b"garbage"),
        ("EXTERNAL", b""),
        ("no such", b""),
    ],
)
async def test_other_credentials_are_refused_without_saying_why(mechanism: str, response: bytes) -> None:
    limits = Limits(login_delay_first=0.001, login_delay_most=0.001)
    async with testing.broker(http=False, limits=limits) as running:
        peer = Peer(running.broker)
        assert (await peer.log_in(mechanism, response)).code == 1
        await turns()
        assert peer.transport.closing
        assert running.broker.connections == set()


@pytest.mark.parametrize(("password", "code"), [("guest", 0), ("wrong", 1)])
async def test_scram_takes_a_challenge_and_proves_the_broker_too(broker: Broker, password: str, code: int) -> None:
    peer = Peer(broker)
    client = ScramClient("SCRAM-SHA-256", "guest", password)
    peer.receive(SASL_HEADER + sasl_frame(SaslInit("SCRAM-SHA-256", client.first)))
    challenge = (await peer.until(SaslChallenge))[-1].performative.challenge
    peer.receive(sasl_frame(SaslResponse(client.final(challenge))))
    outcome = (await peer.until(SaslOutcome))[-1].performative
    assert outcome.code == code
    assert (outcome.additional_data or b"").startswith(b"v=") is (code == 0)


@pytest.mark.parametrize("response", [None, b"", b"somebody"])
async def test_anonymous_needs_no_response(broker: Broker, response: bytes | None) -> None:
    assert (await Peer(broker).log_in("ANONYMOUS", response)).code == 0


async def test_plain_without_a_response_is_asked_for_it(broker: Broker) -> None:
    peer = Peer(broker)
    peer.receive(SASL_HEADER + sasl_frame(SaslInit("PLAIN")))
    assert (await peer.until(SaslChallenge))[-1].performative.challenge == b""
    peer.receive(sasl_frame(SaslResponse(b"\0guest\0guest")))
    assert (await peer.until(SaslOutcome))[-1].performative.code == 0


async def test_a_peer_without_sasl_is_who_anonymous_would_make_it(broker: Broker) -> None:
    peer = Peer(broker)
    await peer.send(AMQP_HEADER, Open("client"))
    header, opened = await peer.take()
    assert header.performative == AMQP_HEADER
    assert isinstance(opened.performative, Open)
    assert peer.connection.user_name == "guest"


async def test_nobody_is_a_guest_who_has_a_password_of_his_own() -> None:
    users = {"guest": UserDeclaration(HASHER.hash("changed"), (), {"/": PermissionDeclaration(".*", ".*", ".*")})}
    async with testing.broker(http=False, users=users) as running:
        skipping, asking = Peer(running.broker), Peer(running.broker)
        await skipping.send(AMQP_HEADER, Open("client"))
        assert [item.performative for item in await skipping.take()] == [SASL_HEADER]
        assert skipping.transport.closing
        assert not skipping.connection.opened
        await asking.send(SASL_HEADER)
        assert "ANONYMOUS" not in (await asking.one(SaslMechanisms)).sasl_server_mechanisms
        asking.transport.abort()
        await turns()


async def test_who_can_use_no_mechanism_gets_a_list_that_is_not_empty_and_is_refused() -> None:
    async with testing.broker(http=False, sasl_mechanisms=("EXTERNAL",)) as running:
        peer = Peer(running.broker)
        await peer.send(SASL_HEADER)
        assert list((await peer.one(SaslMechanisms)).sasl_server_mechanisms) == ["PLAIN"]
        await peer.send(sasl_frame(SaslInit("PLAIN", b"\0guest\0guest")))
        await turns()
        assert (await peer.one(SaslOutcome)).code == 1
        await turns()


async def test_where_anonymous_is_not_offered_sasl_is_required() -> None:
    async with testing.broker(http=False, sasl_mechanisms=("PLAIN",)) as running:
        peer = Peer(running.broker)
        await peer.send(AMQP_HEADER, Open("client"))
        assert [item.performative for item in await peer.take()] == [SASL_HEADER]
        assert peer.transport.closing
        assert not peer.connection.opened


# ---------------------------------------------------------------------- open, §2.7.1


@pytest.mark.parametrize("hostname", [None, "", "/", "vhost:/", "broker.example.com"])
async def test_a_hostname_that_is_no_virtual_host_means_the_default_one(broker: Broker, hostname: str | None) -> None:
    peer = await Peer(broker).open(hostname=hostname)
    assert peer.connection.require_host().name == DEFAULT_HOST


async def test_a_virtual_host_is_chosen_by_its_name(broker: Broker) -> None:
    broker.create_host("orders")
    permit(broker, "orders")
    for hostname in ("orders", "vhost:orders"):
        peer = await Peer(broker).open(hostname=hostname)
        assert peer.connection.require_host().name == "orders"


async def test_an_unknown_virtual_host_is_refused_by_name(broker: Broker) -> None:
    peer = Peer(broker)
    await peer.log_in()
    await peer.send(AMQP_HEADER, Open("client", "vhost:missing"))
    frames = await peer.take()
    assert [type(item.performative) for item in frames] == [bytes, Open, Close]
    assert frames[2].performative.error.condition == conditions.NOT_FOUND
    assert "'missing'" in frames[2].performative.error.description
    await peer.send(Close())
    assert peer.transport.closing


async def test_a_user_without_permissions_may_not_enter(broker: Broker) -> None:
    broker.create_host("orders")
    peer = Peer(broker)
    await peer.log_in()
    await peer.send(AMQP_HEADER, Open("client", "orders"))
    error = (await peer.one(Close)).error
    assert error is not None
    assert error.condition == conditions.UNAUTHORIZED_ACCESS
    assert "'guest'" in (error.description or "")


async def test_limits_are_announced_and_kept() -> None:
    limits = Limits(max_links_per_session=2, max_connections_per_user=1)
    async with testing.broker(http=False, limits=limits, heartbeat=7, frame_max=4096) as running:
        peer = Peer(running.broker)
        await peer.log_in()
        await peer.send(AMQP_HEADER, Open("client"))
        opened = await peer.one(Open)
        assert (opened.idle_time_out, opened.max_frame_size) == (7000, 4096)
        await peer.begin(0)
        assert (await peer.one(Begin)).handle_max == 1
        for handle in range(2):
            await peer.receiver(f"q{handle}")
        peer.receive(frame(Attach("third", 2, True, source=Source("q2"))))
        error = (await peer.one(Close)).error
        assert error is not None
        assert error.condition == conditions.CONNECTION_FRAMING_ERROR
        leave(running.broker)
        await turns()
        first = await Peer(running.broker).open()
        second = Peer(running.broker)
        await second.log_in()
        await second.send(AMQP_HEADER, Open("client"))
        error = (await second.one(Close)).error
        assert error is not None
        assert error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
        assert not first.transport.closing
        leave(running.broker)


@pytest.mark.parametrize(("channel", "accepted"), [(1, True), (2, False)])
async def test_sessions_up_to_the_limit(channel: int, accepted: bool) -> None:
    limits = Limits(max_sessions_per_connection=2)
    async with testing.broker(http=False, limits=limits) as running:
        peer = Peer(running.broker)
        await peer.log_in()
        await peer.send(AMQP_HEADER, Open("client"))
        assert (await peer.one(Open)).channel_max == 1
        if accepted:
            await peer.begin(channel)
        else:
            peer.receive(frame(Begin(None, 0, 1, 1, 1), channel))
            error = (await peer.one(Close)).error
            assert error is not None
            assert error.condition == conditions.CONNECTION_FRAMING_ERROR
        hits = peer.connection.engine.limit_hits
        assert hits == ({} if accepted else {"channel_max": 1})
        leave(running.broker)


# ---------------------------------------------------------------------- signs of life, §2.4.5


async def test_signs_of_life_are_sent_and_a_silent_peer_is_given_up(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers(broker, monkeypatch)
    peer = await Peer(broker).open(idle_time_out=10_000)
    timers.fire(peer.connection)
    assert [item.performative for item in await peer.take()] == [None]
    ours = broker.configuration.heartbeat
    for _ in range(int(2 * ours / peer.connection.seconds_between_looks())):
        timers.fire(peer.connection)
        assert not peer.transport.closing
    timers.fire(peer.connection)
    assert peer.transport.closing
    assert broker.admission.silent_closed == 1


async def test_a_peer_that_speaks_is_not_given_up(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(broker, monkeypatch)
    peer = await Peer(broker).open()
    for _ in range(50):
        await peer.send(frame(Flow(0, 1, 0, 1)))
        timers.fire(peer.connection)
    assert not peer.transport.closing
    assert await peer.take() == []  # it wants no signs of life


async def test_who_wants_no_signs_of_life_is_closed_after_the_idle_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, heartbeat=0, limits=Limits(idle_timeout=5.0)) as running:
        timers = Timers(running.broker, monkeypatch)
        peer = await Peer(running.broker).open()
        timers.fire(peer.connection)
        assert not peer.connection.engine.closed  # something went since the last look
        await peer.take()
        timers.fire(peer.connection)
        error = (await peer.one(Close)).error
        assert error is not None
        assert error.condition == conditions.CONNECTION_FORCED
        leave(running.broker)


# ---------------------------------------------------------------------- end


async def test_a_close_is_answered_and_a_forced_one_waits_for_its_answer(broker: Broker) -> None:
    peer = await Peer(broker).open()
    await peer.send(Close())
    assert (await peer.one(Close)).error is None
    assert peer.transport.closing
    peer = await Peer(broker).open()
    peer.connection.force_close("maintenance")
    error = (await peer.one(Close)).error
    assert error is not None
    assert (error.condition, error.description) == (conditions.CONNECTION_FORCED, "maintenance")
    assert not peer.transport.closing
    await peer.send(Close())
    assert peer.transport.closing


async def test_a_connection_that_is_not_read_for_memory_is_read_again_to_close(broker: Broker) -> None:
    peer = await Peer(broker).open()
    peer.connection.publishes = True
    broker.memory_blocked = True
    peer.connection.flush()
    assert not peer.transport.reading
    peer.connection.force_close("maintenance")
    await turns()
    assert peer.transport.reading, "the peer's close could never be read"
    await peer.send(Close())
    assert peer.transport.closing


async def test_a_connection_that_is_not_open_yet_is_cut_when_it_is_to_close(broker: Broker) -> None:
    peer = Peer(broker)
    peer.connection.force_close("maintenance")
    assert peer.transport.closing


async def test_a_burst_of_large_questions_is_answered_as_fast_as_it_is_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a peer asks for in one read may be larger than memory, so its answers leave before the rest is served."""
    peer = await Peer(broker).open()
    monkeypatch.setattr(peer.transport, "get_write_buffer_size", lambda: len(peer.transport.written))
    name = "n" * 100_000
    count = 8 * HELD_OUTPUT_BYTES // len(name)
    pair = frame(Attach(name, 0, True, source=Source("q"), target=Target("here"))) + frame(Detach(0, True))
    peer.receive(pair * count)
    peer.connection.pause_writing()
    await turns(50)
    assert HELD_OUTPUT_BYTES <= len(peer.transport.written) <= ANSWER_BYTES_MAX + 2 * HELD_OUTPUT_BYTES
    assert not peer.transport.reading
    answered = 0
    async with asyncio.timeout(5):
        while answered < count:
            answered += len(await peer.all(Detach))
            peer.connection.resume_writing()
    await turns()
    assert peer.transport.reading


async def test_a_trace_is_logged_at_level_debug() -> None:
    async with testing.broker(http=False, log_level="debug", clock=VirtualClock()) as running:
        lines: list[str] = []
        peer = Peer(running.broker)
        assert peer.connection.engine.output.trace is not None
        peer.connection.engine.output.trace = lines.append
        await peer.open()
        assert lines[0] == f"<- protocol header {SASL_HEADER!r}"
        assert any(line.startswith("<- #0 open(container_id='client'") for line in lines)
        assert any(line.startswith("-> #0 begin(remote_channel=0") for line in lines)
        leave(running.broker)
