from __future__ import annotations

import pytest

from tests.admin.conftest import Site


async def test_losses_say_what_whose_why_and_what_came_instead(site: Site) -> None:
    queue = site.queue("q", ring_size=1)
    site.fill(queue, 1, size=9)
    site.clock.advance(250)
    site.fill(queue, 1)
    answer = (await site.get("/api/v1/losses")).json()
    assert (answer["filtered_count"], answer["total_count"], answer["forgotten"]) == (1, 1, 0)
    loss = answer["items"][0]
    assert (loss["vhost"], loss["queue"], loss["reason"], loss["size"]) == ("/", "q", "replaced-ring", 9)
    assert (loss["sequence"], loss["replaced_by"], loss["publisher"]) == (1, 2, "guest@test")
    assert (loss["age"], loss["at"] - loss["accepted_at"]) == (250, 250)


async def test_filters_and_order(site: Site) -> None:
    ring, other = site.queue("ring", ring_size=1), site.queue("other", "other")
    start = site.clock()
    for _ in range(3):
        site.fill(ring, 1)
        site.clock.advance(10)
    site.fill(other, 1)
    other.purge(site.clock())
    answer = (await site.get("/api/v1/losses")).json()
    assert [(item["queue"], item["sequence"]) for item in answer["items"]] == [("other", 1), ("ring", 2), ("ring", 1)]
    for query, expected in (
        ("queue=ring", ["ring", "ring"]),
        ("reason=purged", ["other"]),
        ("vhost=other", ["other"]),
        (f"since={start + 20}", ["other", "ring"]),
        ("queue=deleted-long-ago", []),
        ("page=2&page_size=2", ["ring"]),
    ):
        items = (await site.get(f"/api/v1/losses?{query}")).json()["items"]
        assert [item["queue"] for item in items] == expected, query


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("reason=replaced", "reason='replaced' is no loss; did you mean 'replaced-"),
        ("reason=acknowledged", "reason='acknowledged' is no loss"),
        ("since=yesterday", "since='yesterday' is not an integer"),
    ],
)
async def test_bad_filters(site: Site, query: str, message: str) -> None:
    response = await site.get(f"/api/v1/losses?{query}")
    assert response.status_code == 400
    assert message in response.json()["reason"]


async def test_forgotten_losses_are_counted(site: Site) -> None:
    queue = site.queue("q", ring_size=1)
    ledger = site.broker.hosts["/"].ledger
    site.fill(queue, 10_005)
    answer = (await site.get("/api/v1/losses?page_size=1")).json()
    assert answer["forgotten"] == ledger.forgotten == 4
    assert answer["total_count"] == 10_000
