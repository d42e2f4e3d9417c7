from __future__ import annotations

import pytest

from annulet.core.model.audit_trail import AuditEntry
from tests.admin.conftest import REMOTE, Site


def record(site: Site) -> None:
    for entry in (
        AuditEntry(100, "/", "anna", "purge", "orders", count=7),
        AuditEntry(200, "other", "ben", "move", "orders", "to=late", 2, 35, "finished"),
        AuditEntry(300, "/", "anna", "pause", "work"),
    ):
        site.broker.hosts["/"].effects.audited(entry)


async def test_operations_say_who_did_what_to_how_many(site: Site) -> None:
    record(site)
    answer = (await site.get("/api/v1/audit")).json()
    assert (answer["filtered_count"], answer["total_count"], answer["forgotten"]) == (3, 3, 0)
    assert answer["items"][1] == {
        "at": 200, "vhost": "other", "user": "ben", "operation": "move", "target": "orders", "arguments": "to=late",
        "count": 2, "duration": 35, "outcome": "finished",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [300, 200, 100]),
        ("user=anna", [300, 100]),
        ("operation=move", [200]),
        ("target=orders&vhost=%2F", [100]),
        ("since=200&until=200", [200]),
        ("page=2&page_size=2", [100]),
        ("user=nobody", []),
    ],
)
async def test_filters_and_order(site: Site, query: str, expected: list[int]) -> None:
    record(site)
    items = (await site.get(f"/api/v1/audit?{query}")).json()["items"]
    assert [item["at"] for item in items] == expected


async def test_operations_of_hidden_virtual_hosts_are_hidden(site: Site) -> None:
    record(site)
    answer = (await site.get("/api/v1/audit", peer=REMOTE, user="manager:pass")).json()
    assert ([item["at"] for item in answer["items"]], answer["total_count"]) == ([200], 1)


async def test_bad_filters(site: Site) -> None:
    response = await site.get("/api/v1/audit?until=never")
    assert response.status_code == 400
    assert "until='never' is not an integer" in response.json()["reason"]
