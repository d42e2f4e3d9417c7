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
        ("reason=dead-lettered", []),
        ("vhost=other", ["other"]),
        (f"since={start + 20}", ["other", "ring"]),
        (f"until={start + 10}", ["ring"]),
        (f"since={start + 11}&until={start + 20}", ["ring"]),
        ("key=", ["other", "ring", "ring"]),
        ("key=a", []),
        ("publisher=guest%40test", ["other", "ring", "ring"]),
        ("publisher=guest", []),
        ("queue=deleted-long-ago", []),
        ("page=2&page_size=2", ["ring"]),
    ):
        items = (await site.get(f"/api/v1/losses?{query}")).json()["items"]
        assert [item["queue"] for item in items] == expected, query


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("reason=replaced", "reason='replaced' is unknown; did you mean 'replaced-"),
        ("reason=acknowledged", "reason='acknowledged' is unknown"),
        ("since=yesterday", "since='yesterday' is not an integer"),
        ("until=-1", "until='-1' is not an integer"),
    ],
)
async def test_bad_filters(site: Site, query: str, message: str) -> None:
    for path in ("losses", "losses/counts"):
        response = await site.get(f"/api/v1/{path}?{query}")
        assert response.status_code == 400
        assert message in response.json()["reason"]


async def test_losses_name_the_rule_and_where_a_copy_went(site: Site) -> None:
    site.fill(site.queue("q", ring_size=1), 2)
    (loss,) = (await site.get("/api/v1/losses")).json()["items"]
    assert (loss["rule"], loss["forwarded_to"]) == ("ring-size=1", "")


async def test_counts_by_queue_and_reason_the_largest_first(site: Site) -> None:
    ring = site.queue("ring", ring_size=1)
    site.fill(ring, 4)
    ring.purge(site.clock())
    site.fill(site.queue("elsewhere", "other", ring_size=1), 3)
    answer = (await site.get("/api/v1/losses/counts")).json()
    assert [tuple(item.values()) for item in answer["items"]] == [
        ("/", "ring", "replaced-ring", 3), ("other", "elsewhere", "replaced-ring", 2), ("/", "ring", "purged", 1),
    ]  # fmt: skip
    assert (answer["filtered_count"], answer["forgotten"]) == (3, 0)
    answer = (await site.get("/api/v1/losses/counts?vhost=%2F&reason=purged")).json()
    assert [tuple(item.values()) for item in answer["items"]] == [("/", "ring", "purged", 1)]


async def test_forgotten_losses_are_counted(site: Site) -> None:
    queue = site.queue("q", ring_size=1)
    ledger = site.broker.hosts["/"].ledger
    site.fill(queue, 10_005)
    answer = (await site.get("/api/v1/losses?page_size=1")).json()
    assert answer["forgotten"] == ledger.forgotten == 4
    assert answer["total_count"] == 10_000
