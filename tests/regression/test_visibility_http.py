"""A10: what HTTP lists and reads: of virtual hosts the user has an entry for, of no queue of another connection."""

from __future__ import annotations

import json

import pytest

from annulet.core.base.reply_names import REPLY_PREFIX, REPLY_QUEUE, new_reply_name
from tests.admin.conftest import REMOTE, Site, site

__all__ = ["site"]

MANAGER = "manager:pass"  # has an entry for the virtual host "other" only
SHOP = "shop:pass"  # may do everything with what begins with "shop" in "/"
WATCHER = "watcher:pass"  # monitoring, and has an entry for "/"


def series(text: str, host: str) -> list[str]:
    return [line for line in text.splitlines() if f'vhost="{host}"' in line]


async def test_metrics_have_series_of_visible_virtual_hosts_only(site: Site) -> None:
    """A10: `/metrics` shows queues of virtual hosts the user has no entry for."""
    site.queue("here", "/")
    site.queue("there", "other")
    for peer in (("127.0.0.1", 1), REMOTE):
        text = (await site.get("/metrics", user=MANAGER, peer=peer)).text
        assert not series(text, "/")
        assert 'annulet_queue_messages_pending{queue="there",vhost="other"} 0' in text
        assert "annulet_metrics_vhosts_omitted 1.0" in text
        assert "annulet_connections 0.0" in text  # of the broker as a whole
        text = (await site.get("/metrics", user=WATCHER, peer=peer)).text
        assert series(text, "/")
        assert series(text, "other")
    assert (await site.get("/metrics", user="plain:pass")).status_code == 403
    assert (await site.get("/metrics", user="manager:wrong")).status_code == 401


async def test_metrics_without_credentials_are_those_of_the_anonymous_user(site: Site) -> None:
    """A10: the same for a peer of this machine without credentials."""
    site.queue("here", "/")
    site.queue("there", "other")
    text = (await site.get("/metrics", user=None)).text
    assert series(text, "/")
    assert not series(text, "other")
    site.broker.catalogue.access.set_user("guest", "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAA$AAAAAAAAAAAAAAAA", ())
    site.broker.authenticator.reload()
    text = (await site.get("/metrics", user=None)).text
    assert not series(text, "/")
    assert "annulet_metrics_vhosts_omitted 2.0" in text
    assert "annulet_ready 1.0" in text


PATHS = (
    "queues/%2F/{queue}",
    "queues/%2F/{queue}/messages",
    "queues/%2F/{queue}/why-not",
    "queues/%2F/{queue}/operations",
    "queues/%2F/{queue}/operations/1",
    "queues?vhost=/",
    "addresses?vhost=/",
    "address-settings/%2F",
    "policies/%2F",
    "losses?vhost=/",
    "losses/counts?vhost=/",
    "audit?vhost=/",
)


@pytest.mark.parametrize("path", PATHS)
async def test_a_virtual_host_without_an_entry_is_not_there(site: Site, path: str) -> None:
    """A10: each route."""
    site.queue("shop")
    response = await site.get(f"/api/v1/{path.format(queue='shop')}", user=MANAGER)
    assert response.status_code == 404
    assert "no virtual host '/'" in response.json()["reason"]


async def test_listings_leave_other_virtual_hosts_out(site: Site) -> None:
    """A10: each listing without a virtual host in its path."""
    site.fill(site.queue("shop", ring_size=1), 3)
    status, _ = await site.send("POST", "/api/v1/queues/%2F/shop/pause")
    assert status == 200
    for path in ("queues", "losses", "losses/counts", "audit", "addresses"):
        assert (await site.get(f"/api/v1/{path}", user=MANAGER)).json()["items"] == []
    totals = (await site.get("/api/v1/overview", user=MANAGER)).json()
    assert totals["totals"]["messages_added"] == 0
    assert totals["object_totals"]["queues"] == 0
    assert len((await site.get("/api/v1/losses", user=SHOP)).json()["items"]) == 2


async def test_losses_are_of_queues_the_user_may_read(site: Site) -> None:
    """A10: a record of a loss tells the key and the publisher of a message."""
    for name in ("shop", "till"):
        site.fill(site.queue(name, ring_size=1), 2)
    for user, seen in ((SHOP, ["shop"]), (WATCHER, ["shop", "till"]), ("guest:guest", ["shop", "till"])):
        items = (await site.get("/api/v1/losses", user=user)).json()["items"]
        assert sorted(item["queue"] for item in items) == seen


READING = ("messages", "why-not")
CHANGING: tuple[tuple[str, str, object], ...] = (
    ("PATCH", "", {"settings": {"ring-size": 5}}),
    ("POST", "/operations", {"operation": "purge"}),
    ("POST", "/operations", {"operation": "delete", "everything": True}),
    ("POST", "/operations", {"operation": "delete", "everything": True, "preview": True}),
    ("POST", "/operations", {"operation": "copy", "everything": True, "destination": "mine"}),
    ("POST", "/operations", {"operation": "move", "everything": True, "destination": "mine"}),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("POST", "/reset-groups", {}),
    ("DELETE", "/operations/1", None),
)


async def test_an_exclusive_queue_is_closed_to_http(site: Site) -> None:
    """A10: another connection's exclusive queue can be read over HTTP. An administrator sees its figures."""
    site.queue("mine")
    queue = site.broker.hosts["/"].declare_queue("shop.own", now=1, owner=object(), arguments={"x-ring-size": 2})
    site.fill(queue, 3)
    path = "/api/v1/queues/%2F/shop.own"
    for user in ("guest:guest", SHOP):
        for resource in READING:
            status, reason = await site.refused("GET", f"{path}/{resource}", user=user)
            assert status == 409
            assert "it belongs to another connection" in reason
        for method, resource, body in CHANGING:
            status, reason = await site.refused(method, path + resource, body, user=user)
            assert (status, "it belongs to another connection" in reason) == (409, True), (method, resource)
        assert (await site.get(path, user=user)).json()["messages"] == 2
        assert (await site.get("/api/v1/losses", user=user)).json()["items"] == []
    assert not queue.paused
    assert queue.order.count == 2
    assert site.broker.hosts["/"].queues["mine"].order.count == 0


async def test_reply_queues_are_named_nowhere(site: Site) -> None:
    """A10: the name of a reply queue is all that an answer takes; lists and metrics told it to any monitoring user."""
    host = site.broker.hosts["/"]
    queues = [
        host.declare_queue(new_reply_name(), now=1, auto_delete=True, owner=object(), server_named=True)
        for _ in range(3)
    ]
    plain = site.queue("orders")
    for queue in (*queues, plain):
        site.fill(queue, 1)
    host.delete_queue(queues.pop(), site.clock())
    paths = ("queues", "queues?name=reply-to", "overview", "losses", "losses/counts", "audit", "addresses")
    texts = [(await site.get(f"/api/v1/{path}")).text for path in paths]
    listed, named, overview, _, counts, *_ = (json.loads(text) for text in texts)
    assert ([item["name"] for item in listed["items"]], listed["total_count"]) == (["orders"], 1)
    assert (named["items"], named["filtered_count"]) == ([], 0)
    totals = overview["object_totals"]
    assert (totals["queues"], totals["reply_queues"], overview["totals"]["messages"]) == (1, 2, 3)
    assert [(item["queue"], item["count"]) for item in counts["items"]] == [(REPLY_QUEUE, 1)]
    scraped = (await site.get("/metrics")).text
    assert 'annulet_reply_queues{vhost="/"} 2.0' in scraped
    assert 'annulet_queues{vhost="/"} 1.0' in scraped
    assert 'annulet_vhost_messages_pending{vhost="/"} 3.0' in scraped
    name = queues[0].name
    for resource in ("", "/messages", "/why-not", "/operations", "/operations/1"):
        status, reason = await site.refused("GET", f"/api/v1/queues/%2F/{name}{resource}")
        assert (status, "no queue" in reason) == (404, True)
    for method, resource, body in CHANGING:
        assert (await site.refused(method, f"/api/v1/queues/%2F/{name}{resource}", body))[0] == 404
    near = {"operation": "copy", "everything": True, "destination": name[:-1]}
    texts.append((await site.refused("POST", "/api/v1/queues/%2F/orders/operations", near))[1].replace(name[:-1], ""))
    assert not [queue.name for queue in queues if queue.name in "".join([*texts, scraped])]
    assert REPLY_PREFIX not in "".join([*texts, scraped])
