"""HTTP over TLS: the same API, certificates of clients, one server for both listeners."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from annulet import testing
from annulet.broker.settings.configuration import LOOPBACK, Endpoint
from tests.certificates import Certificates

FREE = Endpoint(LOOPBACK, 0)
CREDENTIALS = ("guest", "guest")


async def test_the_api_over_tls_beside_the_plain_one(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    settings = {"https": certificates.settings()}
    async with testing.broker(https=FREE, tls=settings) as running:
        for context, url in (
            (certificates.client_context(), running.urls["https"]),
            (ssl.create_default_context(), running.http_url),
        ):
            async with httpx.AsyncClient(verify=context, base_url=url, auth=CREDENTIALS) as client:
                for _ in range(2):  # a connection is kept
                    assert (await client.get("/api/v1/overview")).status_code == 200
                assert (await client.get("/api/v1/overview", auth=("guest", "wrong"))).status_code == 401
        async with httpx.AsyncClient(base_url=running.urls["https"]) as stranger:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get("/health/live")
        assert running.broker.tls.counters.completed == 1


async def test_only_https(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    settings = {"https": certificates.settings(verify="required")}
    async with testing.broker(http=False, https=FREE, tls=settings) as running:
        own = certificates.client_context(certificates.issue("alice", common_name="alice"))
        async with httpx.AsyncClient(verify=own, base_url=running.urls["https"]) as client:
            assert (await client.get("/health/live")).status_code == 200
        async with httpx.AsyncClient(verify=certificates.client_context(), base_url=running.urls["https"]) as client:
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                await client.get("/health/live")
