from __future__ import annotations

import pytest

from annulet.admin.requests.parameters import PAGE_SIZE_MAX
from tests.admin.conftest import Site


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("pagesize=5", "unknown query parameter 'pagesize'; did you mean 'page_size'"),
        ("page=0", "page='0' is not an integer from 1 to"),
        ("page=-1", "page='-1' is not an integer"),
        ("page=x", "page='x' is not an integer"),
        ("page=", "page='' is not an integer"),
        ("page=%C2%B2", "is not an integer"),
        ("page=1&page=2", "query parameter 'page' is given twice"),
        ("vhost=none", "no virtual host 'none'; write \"/\" in a path as %2F"),
    ],
)
async def test_bad_queries_are_refused_by_name(site: Site, query: str, message: str) -> None:
    response = await site.get(f"/api/v1/queues?{query}")
    assert response.status_code == (404 if "vhost" in query else 400)
    assert message in response.json()["reason"]


@pytest.mark.parametrize(("size", "status"), [(PAGE_SIZE_MAX - 1, 200), (PAGE_SIZE_MAX, 200), (PAGE_SIZE_MAX + 1, 400)])
async def test_the_bound_of_a_page(site: Site, size: int, status: int) -> None:
    assert (await site.get(f"/api/v1/queues?page_size={size}")).status_code == status


async def test_pages_cover_everything_once(site: Site) -> None:
    names = [f"q{number:03}" for number in range(25)]
    for name in reversed(names):
        site.queue(name)
    seen: list[str] = []
    for number in (1, 2, 3, 4):
        answer = (await site.get(f"/api/v1/queues?page={number}&page_size=10")).json()
        assert (answer["page"], answer["page_count"], answer["filtered_count"], answer["total_count"]) == (
            number,
            3,
            25,
            25,
        )
        assert answer["item_count"] == len(answer["items"])
        seen += [item["name"] for item in answer["items"]]
    assert seen == names
