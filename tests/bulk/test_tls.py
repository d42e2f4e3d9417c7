"""Bulk transfer over TLS, with the client that Spark uses."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from annulet import testing
from annulet.broker.security import tls
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from annulet.bulk.client import AUTHORITIES_VARIABLE, BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import AuthenticationError, BulkError, UnavailableError
from annulet.bulk.protocol.url import parse_url
from annulet.bulk.server import BulkService
from tests.bulk.helpers import Bench, away
from tests.certificates import Certificates

FREE = Endpoint(LOOPBACK, 0)
LIST = protocol.ListLeases(virtual_host="/")


def url_of(running: testing.RunningBroker, password: str = "guest") -> str:
    return running.urls["bulks"].replace("://", f"://guest:{password}@")


async def ask(url: str) -> dict[str, Any]:
    client = BulkClient(parse_url(url), retry_seconds=0)
    try:
        return await asyncio.to_thread(client.act, LIST)
    finally:
        client.close()


async def test_leases_over_tls_and_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = Certificates(tmp_path)
    async with testing.broker(bulk=True, bulks=FREE, tls={"bulks": certificates.settings()}) as running:
        with pytest.raises(UnavailableError):
            await ask(url_of(running))  # the system's authorities know nothing of ours
        monkeypatch.setenv(AUTHORITIES_VARIABLE, str(certificates.authority_file))
        answer = await ask(url_of(running))
        assert answer == await ask(running.bulk_url)
        with pytest.raises(AuthenticationError):
            await ask(url_of(running, "wrong"))


async def test_only_bulk_over_tls_with_certificates_of_clients(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    settings = {"bulks": certificates.settings(verify="required")}
    async with testing.broker(bulks=FREE, tls=settings) as running:
        location = running.urls["bulks"].replace("annulets://", "grpc+tls://")
        authorities = certificates.authority_file.read_bytes()
        certificate, key = (path.read_bytes() for path in certificates.issue("alice", common_name="alice"))

        def listed(**options: Any) -> int:
            with flight.connect(location, tls_root_certs=authorities, **options) as client:
                return len(list(client.list_actions(flight.FlightCallOptions(timeout=20))))

        assert await asyncio.to_thread(listed, cert_chain=certificate, private_key=key) > 5
        with pytest.raises(pa.ArrowException):
            await asyncio.to_thread(listed)


async def serial_number(certificates: Certificates, port: int) -> str:
    context = certificates.client_context()
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    number: str = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return number


async def test_new_certificates_are_taken_and_streams_under_way_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "RENEWAL_SECONDS", 0.0)
    certificates = Certificates(tmp_path)
    monkeypatch.setenv(AUTHORITIES_VARIABLE, str(certificates.authority_file))
    async with testing.broker(bulks=FREE, tls={"bulks": certificates.settings()}) as running:
        (service,) = [one for one in running.broker.services if isinstance(one, BulkService)]
        here = Bench(running.broker)
        here.declare("q", durable=False)
        await here.publish("q", [b"x" * 100_000] * 200, persistent=False)
        before = await serial_number(certificates, service.port)
        client = BulkClient(parse_url(url_of(running)), retry_seconds=0)
        try:
            opened = await away(lambda: client.act(protocol.OpenBrowse(queue="q")))
            stream = client.get(protocol.BrowseTicket(snapshot=opened["snapshot"], after=0, upto=200))
            rows = (await away(lambda: next(stream))).num_rows
            certificates.issue("server", "localhost", "127.0.0.1")
            running.broker.tls.renew()
            assert await serial_number(certificates, service.port) != before
            await away(lambda: client.act(LIST))
            rows += await away(lambda: sum(batch.num_rows for batch in stream))
            assert rows == 200
        finally:
            await away(client.close)


async def test_certificates_that_cannot_be_used_leave_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "RENEWAL_SECONDS", 0.0)
    certificates = Certificates(tmp_path)
    async with testing.broker(bulks=FREE, tls={"bulks": certificates.settings()}) as running:
        (service,) = [one for one in running.broker.services if isinstance(one, BulkService)]
        before = await serial_number(certificates, service.port)
        certificates.certificate.write_text("half written")
        running.broker.tls.renew()
        assert await serial_number(certificates, service.port) == before


async def test_an_unreadable_file_of_authorities_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTHORITIES_VARIABLE, "/absent/authorities.pem")
    with pytest.raises(BulkError, match=r"/absent/authorities.pem cannot be read: .*; set SSL_CERT_FILE to a PEM file"):
        await ask("annulets://guest:guest@localhost:1/")
