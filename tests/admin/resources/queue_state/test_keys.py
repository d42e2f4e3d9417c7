from __future__ import annotations

from tests.admin.conftest import Site

PATH = "/api/v1/queues/%2F/board/keys"


async def test_keys_with_their_newest_message(site: Site) -> None:
    site.queue("board", last_value_key="share", keep_per_key=2)
    for share in ("a", "b", "a", "a", 7):
        site.publish("board", share=share)
    items = (await site.get(PATH)).json()["items"]
    found = [(item["key"], item["type"], item["messages"], item["latest"]) for item in items]
    assert found == [("7", "int", 1, 5), ("a", "str", 2, 4), ("b", "str", 1, 2)]
    assert (await site.get(f"{PATH}?sort=latest&sort_reverse=true&page_size=1")).json()["items"][0]["key"] == "7"


async def test_a_queue_without_keys_says_so(site: Site) -> None:
    site.queue("board", ring_size=5)
    status, reason = await site.refused("GET", PATH)
    assert (status, "last-value-key is not set" in reason) == (409, True)
