"""Undo over HTTP: listed, previewed, done, and for users with the permissions of the operation."""

from __future__ import annotations

import asyncio
from typing import Any

from annulet.store.database.definitions import PermissionRecord
from tests.admin.conftest import PASSWORD_HASH, Site

PATH = "/api/v1/queues/%2F/shop"


async def finished(site: Site, path: str, body: dict[str, Any], *, queue: str = "shop") -> dict[str, Any]:
    """Start an operation and wait for its end."""
    status, answer = await site.send("POST", path, body)
    assert status == 202, answer
    while answer["state"] == "running":
        await asyncio.sleep(0)
        _, answer = await site.send("GET", f"/api/v1/queues/%2F/{queue}/operations/{answer['id']}")
    found: dict[str, Any] = answer
    return found


async def test_a_deletion_is_undone(site: Site) -> None:
    queue = site.queue("shop")
    for body in (b"one", b"two"):
        site.publish("shop", body)
    deleted = await finished(site, f"{PATH}/operations", {"operation": "delete", "everything": True})
    assert (queue.order.count, deleted["undo"]["kept"], deleted["undo"]["unkept"]) == (0, 2, 0)
    token = deleted["undo"]["undo"]
    assert deleted["undo"]["until"] == site.clock() + 3_600_000
    (listed,) = (await site.get(f"{PATH}/undo")).json()["items"]
    assert (listed["undo"], listed["operation"], listed["count"], listed["user"]) == (token, "delete", 2, "guest")
    _, preview = await site.send("POST", f"{PATH}/undo/{token}", {"preview": True})
    assert (preview["count"], preview["moved_to"], queue.order.count) == (2, {}, 0)
    back = await finished(site, f"{PATH}/undo/{token}", {})
    assert (back["state"], back["done"], back["operation"], queue.order.count) == ("finished", 2, "undo", 2)
    assert (await site.get(f"{PATH}/undo")).json()["items"] == []
    assert (await site.refused("POST", f"{PATH}/undo/{token}"))[0] == 404
    operations = [entry["operation"] for entry in (await site.get("/api/v1/audit")).json()["items"]]
    assert operations[:2] == ["undo", "delete"]


async def test_a_preview_tells_what_an_undo_brings_back(site: Site) -> None:
    site.queue("shop")
    site.queue("till")
    for _ in range(3):
        site.publish("shop", b"x" * 500)
    window = site.broker.undo

    async def expected(**body: Any) -> dict[str, Any] | None:
        status, preview = await site.send("POST", f"{PATH}/operations", {**body, "preview": True})
        assert (status, preview["count"], "kept" in preview) == (200, 3, False), preview
        found: dict[str, Any] | None = preview["undo"]
        return found

    everything: dict[str, Any] = {"operation": "delete", "everything": True}
    all_kept = {"seconds": 3600, "kept": 3, "unkept": 0, "reason": ""}
    assert await expected(operation="purge") == await expected(**everything) == all_kept
    assert await expected(**everything, undo=False) is None
    assert await expected(operation="copy", everything=True, destination="till") == all_kept
    window.bytes_max = 1499
    partly = {"seconds": 3600, "kept": 2, "unkept": 1, "reason": "undo_bytes=1499 does not allow more"}
    assert await expected(operation="purge") == await expected(**everything) == partly
    assert await expected(operation="move", everything=True, destination="till") == all_kept
    deleted = await finished(site, f"{PATH}/operations", everything)
    assert (deleted["undo"]["kept"], deleted["undo"]["unkept"], deleted["undo"]["reason"]) == (2, 1, partly["reason"])
    window.seconds = 0


async def test_a_move_is_undone_with_the_permissions_for_both_queues(site: Site) -> None:
    queue, other = site.queue("shop"), site.queue("till")
    site.publish("shop", b"one")
    body = {"operation": "move", "everything": True, "destination": "till"}
    token = (await finished(site, f"{PATH}/operations", body))["undo"]["undo"]
    directory = site.broker.access_directory
    directory.set_user("half", ["management"], password_hash=PASSWORD_HASH)
    for manage, browse, words in (
        ("^till$", ".*", "manage access to 'shop'"),
        ("^shop$", ".*", "manage access to 'till'"),
        (".*", "^shop$", "browse access to 'till'"),
    ):
        directory.set_permission(PermissionRecord("half", "/", "", "", "", browse=browse, manage=manage))
        status, reason = await site.refused("POST", f"{PATH}/undo/{token}", user="half:pass")
        assert (status, words in reason) == (403, True)
    assert (queue.order.count, other.order.count) == (0, 1)
    await finished(site, f"{PATH}/undo/{token}", {})
    assert (queue.order.count, other.order.count) == (1, 0)


async def test_bad_requests(site: Site) -> None:
    site.queue("shop")
    assert (await site.refused("POST", f"{PATH}/undo/none", {"rat": 1}))[1].startswith("unknown field 'rat'")
    assert "give an integer from 1" in (await site.refused("POST", f"{PATH}/undo/none", {"rate": 0}))[1]
    status, reason = await site.refused("POST", f"{PATH}/undo/it's", {})
    assert (status, "nothing is kept of operation 'it's'" in reason) == (404, True)


async def test_find_takes_the_permission_to_browse(site: Site) -> None:
    site.queue("shop")
    for body in (b"apple", b"pear"):
        site.publish("shop", body)
    directory = site.broker.access_directory
    directory.set_user("looker", ["management"], password_hash=PASSWORD_HASH)
    directory.set_permission(PermissionRecord("looker", "/", "", "", "", browse="^shop$"))
    status, answer = await site.send("POST", f"{PATH}/find", {"everything": True, "text": "ear"}, user="looker:pass")
    assert status == 202
    status, _ = await site.refused("POST", f"{PATH}/operations", {"operation": "purge"}, user="looker:pass")
    assert status == 403
    while answer["state"] == "running":
        await asyncio.sleep(0)
        _, answer = await site.send("GET", f"{PATH}/operations/{answer['id']}")
    assert answer["changed"] == [[2, 2]]
    number = answer["id"]
    status, ended = await site.send("DELETE", f"{PATH}/find/{number}", user="looker:pass")
    assert (status, ended["state"]) == (200, "finished")
    _, purged = await site.send("POST", f"{PATH}/operations", {"operation": "purge"})
    status, reason = await site.refused("DELETE", f"{PATH}/find/{purged['id']}", user="looker:pass")
    assert (status, reason) == (404, f"operation {purged['id']} is no search; cancel it at operations/{purged['id']}")


async def test_the_undo_queue_is_no_definition(site: Site) -> None:
    site.queue("shop")
    site.publish("shop", b"one")
    await finished(site, f"{PATH}/operations", {"operation": "delete", "everything": True})
    assert "amq.undo" in site.broker.hosts["/"].queues
    document = (await site.get("/api/v1/definitions")).json()
    assert "amq.undo" not in [queue["name"] for queue in document["queues"]]
    of_earlier_versions = {"name": "amq.undo", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    document["queues"].append(of_earlier_versions)
    _, plan = await site.send("POST", "/api/v1/definitions?plan=true&prune=true", document)
    assert plan["steps"] == [], plan
