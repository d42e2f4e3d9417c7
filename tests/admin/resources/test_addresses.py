"""Addresses with limits over HTTP."""

from __future__ import annotations

from tests.admin.conftest import Site

ADDRESSES = "/api/v1/addresses"


def limited(site: Site) -> None:
    limits = {"max-size-messages": 1, "page-limit-messages": 1, "page-full-policy": "DROP"}
    site.broker.hosts["/"].address_settings.set("orders.#", limits)
    for name in ("orders.new", "orders.old", "free"):
        site.queue(name)
        site.publish(name, b"12")
    site.publish("orders.new", b"3456")
    site.publish("orders.new", b"dropped")


async def test_what_an_address_holds_stands_beside_its_limits(site: Site) -> None:
    limited(site)
    answer = (await site.get(f"{ADDRESSES}?name=new")).json()
    assert answer["items"] == [
        {
            "vhost": "/",
            "name": "orders.new",
            "messages": 2,
            "bytes": 6,
            "paged_count": 1,
            "paged_bytes": 4,
            "page_full": True,
            "blocked": False,
            "dropped": 1,
            "refused": 0,
            "limits": {
                "max-size-messages": 1,
                "max-size-bytes": -1,
                "address-full-policy": "page",
                "max-size-bytes-reject-threshold": -1,
                "page-limit-messages": 1,
                "page-limit-bytes": -1,
                "page-full-policy": "drop",
            },
        }
    ]
    assert (answer["filtered_count"], answer["total_count"]) == (1, 2)


async def test_only_addresses_with_limits_are_listed_by_page(site: Site) -> None:
    assert (await site.get(ADDRESSES)).json()["items"] == []
    limited(site)
    names = [
        [item["name"] for item in (await site.get(f"{ADDRESSES}?vhost=%2F&page={page}&page_size=1")).json()["items"]]
        for page in (1, 2)
    ]
    assert names == [["orders.new"], ["orders.old"]]


async def test_who_has_no_tag_or_asks_for_something_else_is_refused(site: Site) -> None:
    assert (await site.send("GET", ADDRESSES, user="plain:pass"))[0] == 403
    status, reason = await site.refused("GET", f"{ADDRESSES}?adress=a")
    assert (status, "unknown query parameter 'adress'" in reason) == (400, True)


async def test_an_address_is_made_and_deleted(site: Site) -> None:
    path = f"{ADDRESSES}/%2F/news"
    status, made = await site.send("PUT", path, {"routing_types": ["multicast", "anycast"]})
    assert (status, made["routing_types"], made["durable"]) == (201, ["anycast", "multicast"], True)
    assert (await site.send("PUT", path, {"routing_types": ["anycast", "multicast"]}))[0] == 200
    assert (await site.refused("PUT", path, {"routing_types": ["anycast"]}))[0] == 409
    assert (await site.refused("PUT", path, {"routing_types": ["any"]}))[0] == 400
    assert (await site.get(path)).json()["declared"] is True
    assert (await site.send("DELETE", path))[1] == {"vhost": "/", "name": "news", "deleted": True}
    assert await site.status("GET", path) == 404
    assert await site.status("DELETE", path) == 404
    assert await site.status("PUT", path, {}, user="shop:pass") == 403


async def test_an_address_that_is_a_queue_has_its_usage(site: Site) -> None:
    limited(site)
    answer = (await site.get(f"{ADDRESSES}/%2F/orders.new")).json()
    assert (answer["declared"], answer["messages"], answer["dropped"]) == (False, 2, 1)
