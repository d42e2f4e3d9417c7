from __future__ import annotations

from tests.admin.conftest import Site

PATH = "/api/v1/queues/%2F/board/fair-keys"


async def test_keys_with_their_messages_and_turns(site: Site) -> None:
    site.queue("board", fair_key="tenant")
    for tenant in ("a", 1, "1", "a"):
        site.publish("board", tenant=tenant)
    site.publish("board")
    items = (await site.get(PATH)).json()["items"]
    found = {(item["type"], item["key"]): item["pending"] for item in items}
    assert found == {("", None): 1, ("str", "a"): 2, ("str", "1"): 1, ("int", "1"): 1}
    cursor = (await site.get(f"{PATH}?page_size=2")).json()
    rest = (await site.get(f"{PATH}?page_size=2&cursor={cursor['next']}")).json()["items"]
    assert [*cursor["items"], *rest] == items


async def test_a_queue_without_a_fair_key_says_so(site: Site) -> None:
    site.queue("board")
    status, reason = await site.refused("GET", PATH)
    assert (status, "fair-key is not set" in reason) == (409, True)
