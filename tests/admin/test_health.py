from __future__ import annotations

import pytest

from tests.admin.conftest import REMOTE, Site


@pytest.mark.parametrize("peer", [("127.0.0.1", 1), REMOTE])
async def test_health_is_open_to_everybody(site: Site, peer: tuple[str, int]) -> None:
    for path in ("/health/live", "/health/ready"):
        response = await site.get(path, peer=peer, user=None)
        assert response.status_code == 200
        assert response.json()["status"] == "ok"


async def test_not_ready_says_why(site: Site) -> None:
    site.broker.ready = False
    response = await site.get("/health/ready")
    assert (response.status_code, response.json()["reason"]) == (503, "starting")
    site.broker.stopping = True
    assert (await site.get("/health/ready")).json()["reason"] == "stopping"
    assert (await site.get("/health/live")).status_code == 200
    site.broker.stopping = False


async def test_a_failed_log_is_neither_live_nor_ready(site: Site) -> None:
    site.broker.commit.failed = True
    for path in ("/health/live", "/health/ready"):
        response = await site.get(path)
        assert response.status_code == 503
        assert "message log" in response.json()["reason"]
    site.broker.commit.failed = False


async def test_alarms_are_named_and_clients_may_connect_all_the_same(site: Site) -> None:
    assert (await site.get("/health/ready")).json()["alarms"] == []
    site.broker.memory_blocked = True
    response = await site.get("/health/ready")
    assert (response.status_code, response.json()["alarms"]) == (200, ["memory"])
