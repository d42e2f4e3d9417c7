from __future__ import annotations

import httpx
import pytest

from tests.admin.conftest import REMOTE, Site

API = ("/api/v1/overview", "/api/v1/queues", "/api/v1/queues/%2F/q", "/api/v1/losses")


@pytest.mark.parametrize("path", API)
async def test_the_api_asks_for_credentials(site: Site, path: str) -> None:
    response = await site.get(path, user=None)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Basic ")
    assert response.json()["error"] == "not_authorised"
    assert (await site.get(path, user="guest:wrong")).status_code == 401


@pytest.mark.parametrize("path", API)
async def test_a_user_without_a_tag_is_refused(site: Site, path: str) -> None:
    response = await site.get(path, user="plain:pass")
    assert response.status_code == 403
    assert "needs one of the tags administrator, management, monitoring" in response.json()["reason"]


async def test_guest_from_another_machine_or_through_a_proxy_is_refused(site: Site) -> None:
    assert (await site.get("/api/v1/overview")).status_code == 200
    assert (await site.get("/api/v1/overview", peer=REMOTE)).status_code == 401
    async with site.client() as client:
        response = await client.get("/api/v1/overview", headers={"X-Forwarded-For": "127.0.0.1"})
    assert response.status_code == 401


async def test_management_sees_its_own_virtual_hosts_only(site: Site) -> None:
    site.queue("here", "/")
    site.queue("there", "other")
    seen = (await site.get("/api/v1/queues", user="manager:pass")).json()
    assert [item["name"] for item in seen["items"]] == ["there"]
    assert seen["total_count"] == 1
    assert (await site.get("/api/v1/queues/%2F/here", user="manager:pass")).status_code == 404
    assert (await site.get("/api/v1/overview", user="manager:pass")).json()["object_totals"]["vhosts"] == 1
    assert (await site.get("/api/v1/overview")).json()["object_totals"]["vhosts"] == 2


@pytest.mark.parametrize("header", ["Bearer x", "Basic", "Basic ###", "Basic Z3Vlc3Q=", "Basic /w=="])
async def test_malformed_credentials(site: Site, header: str) -> None:
    async with site.client(user=None) as client:
        response: httpx.Response = await client.get("/api/v1/overview", headers={"Authorization": header})
    assert response.status_code == 401
    assert "redentials" in response.json()["reason"]
