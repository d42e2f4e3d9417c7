"""Inputs that came through the doors of HTTP and WebSocket, or closed them for others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from pathlib import Path

import httpx
import pytest
import structlog
from wsproto import events

from annulet import testing
from annulet.broker.network.listening import PeerFacts, is_loopback
from annulet.broker.observing.limited_log import LINES_PER_SECOND
from annulet.broker.security.authentication import Authenticator
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.sasl import SaslExchange, Success
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.testing.in_process import RunningBroker
from tests.admin.listening.test_web_socket import Page
from tests.certificates import Certificates
from tests.databases import memory_catalogue

GUEST = "Basic " + base64.b64encode(b"guest:guest").decode()


@pytest.mark.parametrize("name", ["127.evil.example", "127.0.0.1.evil.example", "127.", "127.0.0.256", "::ffff:127.x"])
def test_a_name_that_begins_as_an_address_is_no_address_of_this_machine(name: str) -> None:
    """A2: a host counted as local when its name began with ``127.``."""
    assert not is_loopback(name)


@pytest.mark.parametrize("origin", ["http://127.evil.example", "http://127.0.0.1.evil.example:8161"])
async def test_a_page_of_such_a_name_opens_no_web_socket(origin: str) -> None:
    """A2: it did, without a password."""
    async with testing.broker() as running:
        page = Page(running)
        answer = await page.open(origin=origin)
        assert isinstance(answer, events.RejectConnection)
        assert answer.status_code == 403
        page.close()


@pytest.mark.parametrize(
    "host", ["127.evil.example", "rebound.example", "rebound.example:8161", "localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/metrics", "/api/v1/queues", "/api/v1/overview"])
async def test_a_rebound_name_reads_nothing_with_the_well_known_password(host: str, path: str) -> None:
    """A2: GET and /metrics did not look at ``Host`` on loopback (DNS rebinding)."""
    async with testing.broker() as running, httpx.AsyncClient(base_url=running.http_url) as client:
        assert (await client.get(path, headers={"Authorization": GUEST})).status_code == 200
        for headers in ({}, {"Authorization": GUEST}):
            answer = await client.get(path, headers={"Host": host, **headers})
            assert answer.status_code == 401
        assert "'local_host_names'" in answer.json()["reason"]


async def test_a_page_of_such_a_name_changes_nothing() -> None:
    """A2: the check of ``Origin`` passed."""
    async with testing.broker() as running, httpx.AsyncClient(base_url=running.http_url) as client:
        headers = {"Authorization": GUEST, "Origin": "http://127.evil.example", "Host": "127.evil.example"}
        answer = await client.put("/api/v1/policies/%2F/p", headers=headers, json={"pattern": ".*", "definition": {}})
        assert answer.status_code == 403


async def test_a_rebound_name_is_no_anonymous_guest_over_a_web_socket() -> None:
    """A2: a program that names the broker as a foreign site does is not taken for local."""
    async with testing.broker() as running:
        page = Page(running)
        assert isinstance(await page.open(host="rebound.example"), events.AcceptConnection)
        page.send(events.TextMessage("CONNECT\naccept-version:1.2\nhost:/\n\n\0"))
        assert (await page.next()).data.startswith("ERROR\nmessage:login refused")
        page.close()


@pytest.mark.parametrize("protocol", ["amqp10", "stomp"])
async def test_an_anonymous_peer_is_no_administrator(protocol: str) -> None:
    """A2: SASL ANONYMOUS from loopback had the tags of guest."""
    authenticator = Authenticator(memory_catalogue(), BrokerConfiguration())
    peer = PeerFacts("127.0.0.1", 1, is_loopback=True)
    step = await SaslExchange(authenticator, protocol).begin("ANONYMOUS", b"", peer=peer)
    assert isinstance(step, Success)
    assert (step.user.name, step.user.tags) == ("guest", frozenset())
    named = await authenticator.login("guest", "guest", peer=peer)
    assert named is not None
    assert named.tags == {"administrator"}


# ---------------------------------------------------------------------- slots

UPGRADE = (
    b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
HEALTH = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


async def ask(running: RunningBroker, octets: bytes, seconds: float | None = None) -> bytes:
    """Send octets to the HTTP port and return what comes until the broker closes, at most for some seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(running.http_url.rpartition(":")[2]))
    answer = b""
    writer.write(octets)
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(seconds):
            while data := await reader.read(65_536):
                answer += data
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer


async def all_slots_free(running: RunningBroker) -> None:
    """Return when no connection is counted anywhere; a leak is a hang."""
    broker = running.broker
    async with asyncio.timeout(20):
        while broker.web_sockets or broker.admission.http_connections or broker.admission.handshakes:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert broker.admission.web_socket_strangers == broker.admission.handshakes_by_address == {}


@pytest.mark.parametrize(
    "header",
    [
        b"Host: \xff\xfe.example",
        b"Host: xn--\x80",
        b"Host: localhost\r\nSec-WebSocket-Protocol: v12.stomp\xff",
        b"Host: localhost\r\nSec-WebSocket-Extensions: permessage-deflate\xff",
    ],
)
async def test_hand_shakes_that_cannot_be_parsed_leave_nothing_behind(header: bytes) -> None:
    """A5: 620 of them before any login, and HTTP answered 503 until the restart."""
    async with testing.broker() as running:
        server = running.broker.services[0]._server  # type: ignore[attr-defined] # uvicorn's own account is looked at
        with structlog.testing.capture_logs() as lines:
            answers = [await ask(running, UPGRADE + header + b"\r\n\r\n") for _ in range(LINES_PER_SECOND + 20)]
        assert all(answer.startswith(b"HTTP/1.1 400 ") for answer in answers)
        assert len(lines) < len(answers), "the lines are limited"
        assert not [line for line in lines if "exc_info" in line]
        await all_slots_free(running)
        assert not server.server_state.connections
        assert not server.server_state.tasks
        async with httpx.AsyncClient(base_url=running.http_url) as client:
            assert (await client.get("/health/live")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("PUT", "/api/v1/policies/%2F/p", {b"origin": b"http://[", b"authorization": GUEST.encode()}, b"{}", 403),
        ("GET", "/api/v1/queues", {b"authorization": b"Basic \xff\xfe"}, b"", 401),
        ("GET", "/api/v1/queues", {b"authorization": "Basic Z3Vlc3Q6Z3Vlc3Qé".encode()}, b"", 401),
        ("GET", "/metrics", {b"host": b"\xff"}, b"", 401),
        ("POST", "/api/v1/backups", {b"authorization": GUEST.encode()}, b'{"directory": "/tmp/a\\u0000b"}', 400),
        ("GET", "/api/v1/queues/%2F/%00%ff", {b"authorization": GUEST.encode()}, b"", 400),
        ("GET", "/api/v1/queues/%00/%00", {b"authorization": GUEST.encode()}, b"", 400),
    ],
)
async def test_what_cannot_be_read_is_refused_and_no_defect(
    method: str, path: str, headers: dict[bytes, bytes], body: bytes, status: int
) -> None:
    """A5: each was an exception with a traceback, and the answer 500."""
    async with testing.broker() as running, httpx.AsyncClient(base_url=running.http_url) as client:
        with structlog.testing.capture_logs() as lines:
            answer = await client.request(method, path, headers=list(headers.items()), content=body)
        assert answer.status_code == status, answer.text
        assert not [line for line in lines if line["log_level"] == "error"]


async def test_hostile_requests_cost_no_slot_and_no_defect() -> None:
    """A5: whatever a stranger sends to the HTTP port, all slots come back and no exception is one of ours."""
    dice = random.Random(30)
    names = (b"Host", b"Origin", b"Authorization", b"Sec-WebSocket-Protocol", b"Sec-WebSocket-Extensions", b"Upgrade",
             b"Connection", b"Sec-WebSocket-Key", b"Sec-WebSocket-Version", b"Content-Length", b"Transfer-Encoding",
             b"X-Forwarded-For", b"Expect", b"Accept-Encoding", b"Cookie")  # fmt: skip
    values = (b"localhost", b"\xff", b"http://[", b"http://[::1", b"[::1]:99999", b"null", b"Basic \xff", b"Basic Og==",
              b"websocket", b"Upgrade", b"13", b"v12.stomp", b"-1", b"9" * 20, b"chunked", b"100-continue", b"a, \xe9",
              b"x" * 300, b"", b"\x80:80", b"%00", b"xn--a", b"127.0.0.1@evil", b"a;b=\"")  # fmt: skip
    targets = (b"/ws", b"/stomp", b"/metrics", b"/health/ready", b"/api/v1/queues", b"/api/v1/queues/%2F/%ff?x=%ff",
               b"/%", b"*", b"http://[/", b"//evil/ws", b"/api/v1/losses?vhost=%00")  # fmt: skip
    async with testing.broker() as running:
        with structlog.testing.capture_logs() as lines:
            for _ in range(40):
                await asyncio.gather(*(ask(running, _request(dice, names, values, targets), 0.2) for _ in range(8)))
        await all_slots_free(running)
        assert [line for line in lines if line["log_level"] == "error"] == []
        assert not [line for line in lines if "exc_info" in line]
        assert b"200 OK" in await ask(running, HEALTH)


def _request(
    dice: random.Random, names: tuple[bytes, ...], values: tuple[bytes, ...], targets: tuple[bytes, ...]
) -> bytes:
    method = dice.choice([b"GET", b"GET", b"GET", b"PUT", b"POST", b"HEAD", b"CONNECT", b"\xff"])
    head = (
        method + b" " + dice.choice(targets) + dice.choice([b" HTTP/1.1", b" HTTP/1.1", b" HTTP/1.0", b"", b" HTTP/9"])
    )
    lines = [head]
    if dice.random() < 0.5:
        lines += UPGRADE.split(b"\r\n")[1:-1]
    if dice.random() < 0.7:
        lines.append(b"Host: localhost")
    lines += [dice.choice(names) + b": " + dice.choice(values) for _ in range(dice.randrange(5))]
    behind = dice.choice([b"", b"x", b"\x82\x81\0\0\0\0\n", b"\x89\x80\0\0\0\0", b"\xff" * 20, b"0\r\n\r\n"])
    return b"\r\n".join(lines) + b"\r\n\r\n" + behind


async def test_hostile_frames_cost_no_slot_and_no_defect() -> None:
    """A5: whatever comes behind the hand-shake of a WebSocket, its slot comes back and no exception is one of ours."""
    dice = random.Random(31)
    head = UPGRADE + b"Host: localhost\r\n\r\n"
    async with testing.broker() as running:
        with structlog.testing.capture_logs() as lines:
            for _ in range(12):
                await asyncio.gather(*(ask(running, head + _frames(dice), 0.2) for _ in range(10)))
                await asyncio.gather(*(ask_later(running, head, _frames(dice)) for _ in range(10)))
        await all_slots_free(running)
        assert [line for line in lines if line["log_level"] == "error"] == []
        assert b"200 OK" in await ask(running, HEALTH)


async def ask_later(running: RunningBroker, head: bytes, octets: bytes) -> None:
    """Shake hands, then send octets and hang up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(running.http_url.rpartition(":")[2]))
    writer.write(head)
    with contextlib.suppress(ConnectionError, TimeoutError):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(octets)
        await asyncio.wait_for(reader.read(), 0.1)
    writer.transport.abort()


def _frames(dice: random.Random) -> bytes:
    """Return frames as they may be and as they may not, whole and cut."""
    octets = b""
    for _ in range(dice.randrange(1, 8)):
        first = dice.choice([0x01, 0x02, 0x81, 0x82, 0x80, 0x00, 0x88, 0x89, 0x8A, 0x83, 0xC1, 0x0F, 0x08])
        body = dice.choice([b"", b"\n", b"\xff", b"\x03\xe8", b"\x03", b"CONNECT\n\n\0", b"\xf0\x9f", b"x" * 125])
        mask = dice.choice([0x80, 0x80, 0x80, 0])
        octets += bytes([first, mask | len(body)]) + (b"\0\0\0\0" if mask else b"") + body
    octets += dice.choice([b"", b"\x82\xff" + b"\x7f" + b"\xff" * 7, b"\x82\xfe\0\x01", b"\x88"])
    return octets[: dice.randrange(len(octets) + 1)] if dice.random() < 0.3 else octets


# ---------------------------------------------------------------------- turns


@pytest.mark.parametrize("frame", [b"\x82\x81\0\0\0\0\n", b"\x89\x80\0\0\0\0"], ids=["frames", "pings"])
async def test_tiny_frames_before_the_login_let_others_have_their_turns(frame: bytes) -> None:
    """A8: a read of them held the loop for seconds; now pieces of it take turns, and so much is heard of a stranger."""
    # A busy machine takes longer than the ten seconds of a handshake, which would end the connection instead.
    async with testing.broker(handshake_timeout=600) as running:
        page = Page(running)
        assert isinstance(await page.open(), events.AcceptConnection)
        page.writer.write(frame * 60_000)
        with contextlib.suppress(ConnectionError):
            while await page.reader.read(65_536):
                assert b"200 OK" in await ask(running, HEALTH)
        assert running.broker.input_turns.cut > 0
        assert running.broker.admission.limit_hits["STOMP", "max_unauthenticated_bytes"] == 1
        page.close()
        await all_slots_free(running)


# ---------------------------------------------------------------------- one address


async def test_one_address_leaves_handshakes_to_others() -> None:
    """A10: one address could take all hand-shake slots."""
    default = Limits()
    assert 0 < default.max_handshakes_per_address < default.max_handshakes
    async with testing.broker(limits=Limits(max_handshakes=4, max_handshakes_per_address=2)) as running:
        host, port = running.broker.amqp_address
        greedy = [await asyncio.open_connection(host, port) for _ in range(6)]
        for reader, _ in greedy[2:]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b"", "cut"
        admission = running.broker.admission
        assert admission.handshakes_by_address == {"127.0.0.1": 2}
        assert admission.refused["max_handshakes_per_address"] == 4
        reader, writer = await asyncio.open_connection(host, port, local_addr=("127.0.0.2", 0))
        writer.write(b"AMQP\0\0\x09\x01")
        assert (await reader.readexactly(1)) == b"\x01", "another address is served"
        for _, each in (*greedy, (reader, writer)):
            each.close()
        await all_slots_free(running)


async def test_health_answers_while_every_slot_has_a_slow_request() -> None:
    """A10: slow requests kept health from answering for ten seconds."""
    async with testing.broker(handshake_timeout=600) as running:
        port = int(running.http_url.rpartition(":")[2])
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(150)]
        parts = (b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1")
        for number, (_, writer) in enumerate(slow):
            with contextlib.suppress(ConnectionError):
                writer.write(parts[number % 2])
        for _ in range(5):
            assert b"200 OK" in await ask(running, HEALTH)
        assert running.broker.admission.handshakes_timed_out == 0, "they were not waited for"
        for _, writer in slow:
            writer.close()
        await all_slots_free(running)


async def test_a_peer_that_hangs_up_is_no_defect() -> None:
    """A10: a peer that closed while its request was read or answered was logged as a defect."""
    head = b"PUT /api/v1/policies/%2F/p HTTP/1.1\r\nhost: localhost\r\nauthorization: " + GUEST.encode()
    async with testing.broker() as running:
        port = int(running.http_url.rpartition(":")[2])
        with structlog.testing.capture_logs() as lines:
            for octets in (
                head + b"\r\ncontent-length: 100\r\n\r\n{",
                b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
            ):
                for pause in (0.0, 0.05):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(octets)
                    await writer.drain()
                    await asyncio.sleep(pause)
                    writer.transport.abort()
            await all_slots_free(running)
        assert [line for line in lines if line["log_level"] == "error"] == []


async def test_logins_do_not_change_which_mechanisms_are_offered() -> None:
    """A10: SCRAM was offered after the first login only, so that a second connection met what the first did not."""
    peer = PeerFacts("127.0.0.1", 1, is_loopback=True)
    users = {"alice": UserDeclaration(HASHER.hash("secret")), "bob": UserDeclaration(HASHER.hash("word"))}
    for declared in ({}, users):
        authenticator = Authenticator(memory_catalogue(), BrokerConfiguration(users=declared))
        before = [authenticator.mechanisms(peer, protocol) for protocol in ("amqp091", "amqp10")]
        for name, password in (("guest", "guest"), ("alice", "secret"), ("bob", "word")):
            await authenticator.login(name, password, peer=peer)
        assert [authenticator.mechanisms(peer, protocol) for protocol in ("amqp091", "amqp10")] == before
        assert any(name.startswith("SCRAM") for name in before[1]) is (not declared)


UPGRADE = (
    b"GET /stomp HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n"
)
"""The head of a hand-shake, but for its end."""

CUT_SHORT = (
    UPGRADE + b"\r\n" + b"\xff" * 100,
    UPGRADE + b"\r\n",
    UPGRADE + b"origin: http://[\r\n\r\n",
    UPGRADE + b"sec-websocket-protocol: \xe9\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    b"POST /api/v1/backups HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nconnection: close\r\n\r\n",
    b"GET /health/live HTTP/1.0\r\n\r\nno head\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",  # parsed in pieces, of which more than one is refused
)


@pytest.mark.parametrize("over_tls", [False, True])
@pytest.mark.parametrize("sent", CUT_SHORT)
async def test_a_peer_that_goes_is_no_defect(sent: bytes, over_tls: bool, tmp_path: Path) -> None:
    """A5, A10: over TLS a WebSocket that was closed twice raised, in asyncio's callbacks with a traceback.

    So did a request behind the last answer of its connection.
    """
    certificates = Certificates(tmp_path)
    raised: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: raised.append(context))
    with structlog.testing.capture_logs() as lines:
        async with testing.broker(https=Endpoint(LOOPBACK, 0), tls={"https": certificates.settings()}) as running:
            url = running.urls["https"] if over_tls else running.http_url
            port = int(url.rpartition(":")[2])
            context = certificates.client_context() if over_tls else None
            name = "localhost" if over_tls else None
            for reads in (False, True, False):
                reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context, server_hostname=name)
                writer.write(sent)
                if reads:
                    await reader.read(1)
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            admission = running.broker.admission
            while admission.http_connections or running.broker.web_sockets or running.broker.lingering.sockets:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    assert not raised
    assert [line for line in lines if line["log_level"] == "error"] == []
