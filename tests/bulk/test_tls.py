"""Bulk transfer over TLS, with the client that Spark uses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from annulet import testing
from annulet.broker.configuration import LOOPBACK, Endpoint
from annulet.bulk import protocol
from annulet.bulk.client import AUTHORITIES_VARIABLE, BulkClient
from annulet.bulk.errors import AuthenticationError, BulkError, UnavailableError
from annulet.bulk.url import parse_url
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


async def test_an_unreadable_file_of_authorities_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTHORITIES_VARIABLE, "/absent/authorities.pem")
    with pytest.raises(BulkError, match=r"/absent/authorities.pem cannot be read: .*; set SSL_CERT_FILE to a PEM file"):
        await ask("annulets://guest:guest@localhost:1/")
