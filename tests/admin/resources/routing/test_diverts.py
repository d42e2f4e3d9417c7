"""Diverts: made, replaced and deleted while the broker runs, and there again after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from annulet import testing
from tests.admin.conftest import Site

PATH = "/api/v1/diverts/%2F"
DIVERT = {"address": "orders", "forwarding_addresses": ["audit"], "filter": "amount > 10"}


async def test_a_divert_acts_at_once(site: Site) -> None:
    site.queue("orders")
    site.queue("audit")
    status, made = await site.send("PUT", f"{PATH}/large", DIVERT)
    assert (status, made["durable_change"], made["routing_type"]) == (201, True, "strip")
    site.publish("orders", amount=50)
    site.publish("orders", amount=5)
    counts = {name: queue.statistics().message_count for name, queue in site.broker.hosts["/"].queues.items()}
    assert counts == {"orders": 2, "audit": 1}
    assert (await site.send("PUT", f"{PATH}/large", {**DIVERT, "filter": "", "exclusive": True}))[0] == 200
    site.publish("orders", amount=5)
    counts = {name: queue.statistics().message_count for name, queue in site.broker.hosts["/"].queues.items()}
    assert counts == {"orders": 2, "audit": 2}
    [item] = (await site.get(PATH)).json()["items"]
    assert (item["name"], item["exclusive"]) == ("large", True)
    assert (await site.send("DELETE", f"{PATH}/large"))[0] == 200
    assert await site.status("DELETE", f"{PATH}/large") == 404
    assert await site.status("GET", f"{PATH}/large") == 404


async def test_wrong_diverts_change_nothing(site: Site) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({**DIVERT, "filter": "amount >"}, "filter of divert 'large'"),
        ({**DIVERT, "forwarding_addresses": []}, "at least one forwarding address"),
        ({**DIVERT, "routing_type": "strp"}, "did you mean 'strip'?"),
        ({"address": "orders"}, "field 'forwarding_addresses' is missing"),
    )
    for body, words in wrong:
        status, reason = await site.refused("PUT", f"{PATH}/large", body)
        assert (status, words in reason) == (400, True), reason
    assert not site.broker.hosts["/"].diverts
    assert await site.status("PUT", f"{PATH}/large", DIVERT, user="shop:pass") == 403


async def test_a_divert_survives_a_restart(tmp_path: Path) -> None:
    for first in (True, False):
        async with (
            testing.broker(data_dir=tmp_path) as running,
            httpx.AsyncClient(base_url=running.http_url, auth=("guest", "guest")) as client,
        ):
            if first:
                assert (await client.put(f"{PATH}/large", json=DIVERT)).status_code == 201
                assert (await client.put(f"{PATH}/gone", json=DIVERT)).status_code == 201
                assert (await client.delete(f"{PATH}/gone")).status_code == 200
            items = (await client.get(PATH)).json()["items"]
            assert [(item["name"], item["filter"]) for item in items] == [("large", "amount > 10")]
