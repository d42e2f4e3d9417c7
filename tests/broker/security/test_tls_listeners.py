from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog

from annulet.broker.security.admission import Admission
from annulet.broker.security.tls_listeners import TlsListeners
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint
from annulet.broker.settings.limits import Limits
from annulet.broker.turns.input_turns import InputTurns
from tests.certificates import Certificates


class Echo(asyncio.Protocol):
    """Sends back what comes; has the attribute that the hand-shake's time-out looks at."""

    opened = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Site:
    """A listener with TLS before an echo."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        self.servers: list[asyncio.Server] = []

    async def listen(
        self, make: Callable[[], Any] = Echo, *, seconds: float = 10.0, handshakes: int = 10, **settings: Any
    ) -> int:
        configuration = BrokerConfiguration(
            tls={"amqps": self.certificates.settings(**settings)},
            handshake_timeout=seconds,
            limits=Limits(max_handshakes=handshakes),
        )
        self.admission = Admission(configuration.limits)
        self.listeners = TlsListeners(configuration, self.admission, InputTurns())
        server, bound = await self.listeners.listen("amqps", Endpoint(LOOPBACK, 0), make)
        self.servers.append(server)
        self.port = bound.port
        return bound.port

    async def connect(self, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("localhost", self.port, ssl=context)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    yield made
    for server in made.servers:
        server.close()


async def echoed(site: Site, context: ssl.SSLContext, data: bytes = b"x" * 100_000) -> bytes:
    reader, writer = await site.connect(context)
    try:
        writer.write(data)
        return await reader.readexactly(len(data))
    finally:
        writer.close()
        with contextlib.suppress(OSError):  # how it failed is told by the read
            await writer.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Return when a condition holds; a hang is ended by the test's own time-out."""
    while True:
        await asyncio.sleep(0.005)
        if condition():
            return


async def test_what_is_sent_arrives_and_nothing_is_left_counted(site: Site) -> None:
    await site.listen()
    assert await echoed(site, site.certificates.client_context()) == b"x" * 100_000
    assert (site.listeners.counters.completed, site.listeners.counters.failed) == (1, 0)
    assert site.admission.handshakes == 0


async def test_octets_sent_with_the_end_of_the_handshake_are_not_lost(site: Site) -> None:
    await site.listen(minimum_version="1.3")
    results = await asyncio.gather(*(echoed(site, site.certificates.client_context(), b"first") for _ in range(5)))
    assert results == [b"first"] * 5


@pytest.mark.parametrize("where", ["made", "connected"])
async def test_a_protocol_that_raises_costs_no_slot_and_no_traceback(site: Site, where: str) -> None:
    class Failing(Echo):
        def connection_made(self, transport: Any) -> None:
            raise ZeroDivisionError

    def make() -> Echo:
        if where == "made":
            raise ZeroDivisionError
        return Failing()

    await site.listen(make)
    with structlog.testing.capture_logs() as lines:
        reader, writer = await site.connect(site.certificates.client_context())
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    assert [(line["event"], "exc_info" in line) for line in lines] == [("defect while serving a connection", False)]
    assert (site.admission.handshakes, dict(site.admission.handshakes_by_address)) == (0, {})
    writer.close()


async def test_a_client_that_does_not_trust_us_is_counted(site: Site) -> None:
    await site.listen()
    with pytest.raises(ssl.SSLCertVerificationError):
        await site.connect(ssl.create_default_context())
    await until(lambda: site.listeners.counters.failed == 1)
    assert site.admission.handshakes == 0


@pytest.mark.parametrize("verify", ["required", "optional"])
async def test_certificates_of_other_authorities_are_refused(site: Site, tmp_path: Path, verify: str) -> None:
    await site.listen(verify=verify)
    other = Certificates(tmp_path / "other").issue("alice", common_name="alice")
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await echoed(site, site.certificates.client_context(other))
    await until(lambda: site.listeners.counters.failed == 1)
    own = site.certificates.issue("bob", common_name="bob")
    assert await echoed(site, site.certificates.client_context(own), b"x") == b"x"


async def test_a_client_without_certificate_is_refused_when_one_is_required(site: Site) -> None:
    await site.listen(verify="required")
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await echoed(site, site.certificates.client_context())
    await until(lambda: site.listeners.counters.failed == 1)


async def test_a_client_without_certificate_may_come_when_it_is_optional(site: Site) -> None:
    await site.listen(verify="optional")
    assert await echoed(site, site.certificates.client_context(), b"x") == b"x"


async def test_an_old_version_is_refused(site: Site) -> None:
    await site.listen(minimum_version="1.3")
    context = site.certificates.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await site.connect(context)
    await until(lambda: site.listeners.counters.failed == 1)


async def test_plain_octets_and_silence_end_a_handshake(site: Site) -> None:
    await site.listen(seconds=0.2)
    with socket.create_connection((LOOPBACK, site.port)) as plain, socket.create_connection((LOOPBACK, site.port)):
        plain.sendall(b"AMQP\x00\x00\x09\x01" * 10)
        await until(lambda: site.listeners.counters.failed == 2)  # one is no TLS, one says nothing
    assert site.admission.handshakes == 0


@pytest.mark.parametrize(("sockets", "refused"), [(2, 0), (3, 1)])
async def test_handshakes_under_way_are_bounded(site: Site, sockets: int, refused: int) -> None:
    await site.listen(handshakes=2)
    silent = [socket.create_connection((LOOPBACK, site.port)) for _ in range(sockets)]
    await until(lambda: site.admission.handshakes == 2)
    await until(lambda: site.admission.refused["max_handshakes"] == refused)
    for one in silent:
        one.close()
    await until(lambda: site.admission.handshakes == 0)
    assert await echoed(site, site.certificates.client_context(), b"x") == b"x"


class Undecided(asyncio.Protocol):
    """Says nothing of being open: hands over to another protocol later, or never."""


@pytest.mark.parametrize("kind", [None, Undecided])
async def test_the_time_out_covers_the_protocols_handshake_too(site: Site, kind: type[asyncio.Protocol] | None) -> None:
    class Slow(Echo):
        opened = False

    await site.listen(kind if kind is not None else Slow, seconds=0.3)
    reader, writer = await site.connect(site.certificates.client_context())
    assert await reader.read() == b"", "cut although its TLS was in time"
    assert site.admission.handshakes_timed_out == 1
    writer.close()


async def test_new_connections_get_a_renewed_certificate(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from annulet.broker.security import tls

    monkeypatch.setattr(tls, "RENEWAL_SECONDS", 0.0)
    await site.listen()

    async def serial_number() -> Any:
        _, writer = await site.connect(site.certificates.client_context())
        number = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return number

    before = await serial_number()
    assert await serial_number() == before
    site.certificates.issue("server", "localhost", "127.0.0.1")
    site.listeners.renew()
    assert await serial_number() != before
