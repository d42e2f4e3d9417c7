"""Leases: listed by queue for users that may read it, and ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from annulet.testing import VirtualClock, broker
from tests.admin.conftest import IMPATIENT, USERS, Site

PATH = "/api/v1/leases"


@pytest.fixture
async def bulk_site() -> AsyncIterator[Site]:
    clock = VirtualClock()
    async with broker(clock=clock, http=False, bulk=True, users=USERS, limits=IMPATIENT) as running:
        yield Site(running.broker, clock)


async def test_a_broker_without_bulk_transfer_has_none(site: Site) -> None:
    assert (await site.get(PATH)).json()["items"] == []
    status, reason = await site.refused("DELETE", f"{PATH}/%2F/q")
    assert (status, reason.startswith("no lease 'q' in virtual host '/'")) == (404, True)


async def test_a_lease_is_listed_and_ended(bulk_site: Site) -> None:
    from annulet.bulk.reading.adoption import LeaseRequest
    from annulet.bulk.reading.leases import LeaseManager

    site = bulk_site
    queue = site.broker.hosts["/"].declare_queue("board", now=1, owner=None, durable=True, arguments={})
    site.fill(queue, 3)
    manager = site.broker.leases
    assert isinstance(manager, LeaseManager)
    await manager.open(LeaseRequest("/", "spark", "board", owner="query", fresh=True))
    [item] = (await site.get(f"{PATH}?queue=board")).json()["items"]
    assert (item["name"], item["vhost"], item["queue"]) == ("spark", "/", "board")
    assert (await site.get(PATH, user="shop:pass")).json()["items"] == []
    for method in ("GET", "DELETE"):
        assert await site.status(method, f"{PATH}/%2F/spark", user="shop:pass") == 403
    assert (await site.get(f"{PATH}/%2F/spark")).json()["name"] == "spark"
    assert (await site.send("DELETE", f"{PATH}/%2F/spark"))[1] == {"vhost": "/", "name": "spark", "returned": 0}
    assert not queue.leases
    [entry] = (await site.get("/api/v1/audit")).json()["items"]
    assert (entry["operation"], entry["target"]) == ("end-lease", "spark")
