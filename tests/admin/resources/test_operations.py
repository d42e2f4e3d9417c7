"""Operations over HTTP: begun, previewed, watched, cancelled; refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from annulet.core.management.operation import SLICE_MESSAGES
from annulet.store.database.definitions import PermissionRecord
from tests.admin.conftest import PASSWORD_HASH, Site

PATH = "/api/v1/queues/%2F/shop"


async def start(site: Site, body: dict[str, Any], *, user: str = "guest:guest") -> dict[str, Any]:
    status, answer = await site.send("POST", f"{PATH}/operations", body, user=user)
    assert status == 202, answer
    return answer


async def ended(site: Site, number: int) -> dict[str, Any]:
    for _ in range(100):
        _, answer = await site.send("GET", f"{PATH}/operations/{number}")
        if answer["state"] != "running":
            return dict(answer)
        await asyncio.sleep(0)
    raise AssertionError(answer)


async def done(site: Site, **body: Any) -> dict[str, Any]:
    return await ended(site, (await start(site, body))["id"])


def bodies(site: Site, name: str = "shop") -> list[bytes]:
    return [entry.message.body for entry in site.broker.hosts["/"].queues[name].order.entries()]


async def test_begun_watched_and_audited(site: Site) -> None:
    site.queue("shop")
    for colour in ("red", "blue", "red", "red"):
        site.publish("shop", colour=colour)
    async with site.client() as client:
        body = {"operation": "delete", "selector": "colour = 'red'", "limit": 2}
        response = await client.post(f"{PATH}/operations", json=body)
    begun = response.json()
    assert (response.status_code, response.headers["location"]) == (202, f"{PATH}/operations/{begun['id']}")
    assert (begun["operation"], begun["user"], begun["state"], begun["total"]) == ("delete", "guest", "running", 4)
    assert begun["selection"] == "selector colour = 'red', limit 2"
    answer = await ended(site, begun["id"])
    assert (answer["state"], answer["done"], answer["changed"]) == ("finished", 2, [[1, 0], [3, 0]])
    listed = (await site.get(f"{PATH}/operations")).json()
    assert [item["id"] for item in listed["items"]] == [begun["id"]]
    (entry,) = (await site.get("/api/v1/audit")).json()["items"]
    assert (entry["operation"], entry["target"], entry["count"]) == ("delete", "shop", 2)


async def test_a_preview_changes_nothing(site: Site) -> None:
    site.queue("shop")
    site.publish("shop", b"12345")
    status, answer = await site.send("POST", f"{PATH}/operations", {"operation": "purge", "preview": True})
    assert (status, answer["count"], answer["bytes"], answer["sample"][0]["id"]) == (200, 1, 5, 1)
    assert bodies(site) == [b"12345"]
    assert (await site.get(f"{PATH}/operations")).json()["total_count"] == 0


def let(site: Site, name: str, *, browse: str) -> str:
    """Make a user that may manage all queues, and return its credentials."""
    directory = site.broker.access_directory
    directory.set_user(name, ["management"], password_hash=PASSWORD_HASH)
    directory.set_permission(PermissionRecord(name, "/", "", "", "", browse=browse, manage=".*"))
    return f"{name}:pass"


@pytest.mark.parametrize("operation", ["delete", "purge", "expire", "move"])
async def test_a_preview_shows_no_message_to_a_user_who_may_not_look(site: Site, operation: str) -> None:
    site.queue("shop")
    site.publish("shop", b"12345")
    wanted: dict[str, Any] = {"operation": operation, "preview": True}
    if operation != "purge":
        wanted |= {"everything": True}
    if operation == "move":  # content travels
        site.queue("there")
        wanted["destination"] = "there"
        assert (await site.send("POST", f"{PATH}/operations", wanted, user=let(site, "blind", browse="^$")))[0] == 403
        return
    _, answer = await site.send("POST", f"{PATH}/operations", wanted, user=let(site, "blind", browse="^$"))
    assert (answer["count"], answer["sample"]) == (1, [])
    _, answer = await site.send("POST", f"{PATH}/operations", wanted, user=let(site, "seeing", browse=".*"))
    assert (answer["count"], [facts["id"] for facts in answer["sample"]]) == (1, [1])


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize(
    ("field", "value"), [("selector", "colour = 'red'"), ("text", "x"), ("key", "k"), ("routing_key", "shop")]
)
async def test_a_filter_on_content_takes_permission_to_look(site: Site, field: str, value: str, preview: bool) -> None:
    """A count of matching messages would tell of their content."""
    site.queue("shop")
    site.publish("shop", b"x")
    wanted: dict[str, Any] = {"operation": "delete", field: value, "preview": preview}
    if field != "selector":
        wanted["everything"] = True
    status, answer = await site.send("POST", f"{PATH}/operations", wanted, user=let(site, "blind", browse="^$"))
    assert (status, "browse access to 'shop'" in answer["reason"]) == (403, True)
    assert bodies(site) == [b"x"]
    status, _ = await site.send("POST", f"{PATH}/operations", wanted, user=let(site, "seeing", browse=".*"))
    assert status == (200 if preview else 202)


async def test_filters_on_ids_and_times_take_permission_to_manage_only(site: Site) -> None:
    site.queue("shop")
    site.publish("shop", b"x")
    wanted = {"operation": "delete", "everything": True, "first_id": 1, "since": 0, "preview": True}
    status, answer = await site.send("POST", f"{PATH}/operations", wanted, user=let(site, "blind", browse="^$"))
    assert (status, answer["count"]) == (200, 1)


async def test_selection_and_undo_token_are_for_their_user_and_administrators(site: Site) -> None:
    site.queue("shop")
    site.publish("shop", b"x")
    own, other = let(site, "own", browse=".*"), let(site, "other", browse=".*")
    wanted = {"operation": "delete", "selector": "secret IS NULL"}
    begun = await start(site, wanted, user=own)
    token = begun["undo"]["undo"]
    assert (begun["selection"], bool(token)) == ("selector secret IS NULL", True)
    await ended(site, begun["id"])
    place = f"{PATH}/operations/{begun['id']}"
    for user, shown in ((own, True), (other, False), ("guest:guest", True)):
        _, listed = await site.send("GET", f"{PATH}/operations", user=user)
        _, alone = await site.send("GET", place, user=user)
        _, cancelled = await site.send("DELETE", place, user=user)
        for answer in (listed["items"][0], alone, cancelled):
            assert answer["user"] == "own"
            assert answer["selection"] == (begun["selection"] if shown else None)
            assert answer["undo"]["undo"] == (token if shown else None)
            assert answer["undo"]["kept"] == 1


async def test_each_operation_does_what_it_says(site: Site) -> None:
    site.queue("shop", dead_letter_address="dead")
    for name in ("shop-late", "dead"):
        site.queue(name)
    for body in (b"1", b"2", b"3", b"4", b"5"):
        site.publish("shop", body)
    assert (await done(site, operation="move", ids=[1], destination="shop-late"))["changed"] == [[1, 1]]
    assert (await done(site, operation="copy", ids=[2], destination="shop-late"))["changed"] == [[2, 2]]
    assert (await done(site, operation="dead-letter", ids=[3]))["done"] == 1
    assert (await done(site, operation="change-priority", ids=[5], priority=9))["done"] == 1
    assert (await done(site, operation="expire", selector="JMSPriority = 9"))["done"] == 1
    assert (bodies(site), bodies(site, "shop-late"), bodies(site, "dead")) == ([b"2", b"4"], [b"1", b"2"], [b"3"])
    site.publish("shop", b"later", delay=1000)
    site.publish("shop", b"never", delay=1000)
    number = site.broker.hosts["/"].queues["shop"].next_sequence - 1
    assert (await done(site, operation="cancel-scheduled", ids=[number]))["done"] == 1
    assert (await done(site, operation="deliver-now", everything=True))["done"] == 1
    assert sorted(bodies(site)) == [b"2", b"4", b"later"]
    assert (await done(site, operation="delete", everything=True, scheduled=True))["done"] == 3
    site.publish("shop")
    assert (await done(site, operation="purge"))["done"] == 1
    status, answer = await site.send(
        "POST", "/api/v1/queues/%2F/dead/operations", {"operation": "retry", "everything": True}
    )
    assert (status, answer["operation"]) == (202, "retry")
    await asyncio.sleep(0.01)
    assert (bodies(site), bodies(site, "dead")) == ([b"3"], [])


async def test_a_cancelled_operation_says_how_far_it_came(site: Site) -> None:
    queue = site.queue("shop")
    for _ in range(20 * SLICE_MESSAGES):
        site.publish("shop")
    begun = await start(site, {"operation": "purge"})
    status, answer = await site.send("DELETE", f"{PATH}/operations/{begun['id']}")
    assert (status, answer["state"]) == (200, "cancelled")
    assert queue.order.count == 20 * SLICE_MESSAGES - answer["done"] > 0
    page = (await site.get(f"{PATH}/operations/{begun['id']}?page_size=3")).json()
    assert len(page["changed"]) == min(3, answer["done"])


BAD = [
    ({}, "field 'operation' is missing; give one of delete"),
    ({"operation": "delet", "everything": True}, "field 'operation': unknown value 'delet'; did you mean 'delete'?"),
    ({"operation": "delete"}, "messages are selected in exactly one way"),
    ({"operation": "delete", "ids": [1], "everything": True}, "messages are selected in exactly one way"),
    ({"operation": "delete", "ids": ["1"]}, "field 'ids' must be a list of integers, not ['1']"),
    ({"operation": "delete", "ids": [True]}, "field 'ids' must be a list of integers"),
    ({"operation": "delete", "ids": [0]}, "ids: 0 is no message id"),
    ({"operation": "delete", "everything": 1}, "field 'everything' must be true or false, not 1"),
    ({"operation": "delete", "everything": True, "limit": 0}, "limit=0: give how many"),
    ({"operation": "delete", "selector": "a = "}, "invalid selector: character"),
    ({"operation": "delete", "selectr": "a = 1"}, "unknown field 'selectr'; did you mean 'selector'?"),
    ({"operation": "delete", "ids": [1], "destination": "x"}, "field 'destination' does not belong to operation"),
    ({"operation": "purge", "everything": True}, "'purge', which takes rate, undo"),
    ({"operation": "move", "ids": [1]}, "field 'destination' is missing; give the name of a queue"),
    ({"operation": "move", "ids": [1], "destination": "shp"}, "field 'destination': no queue 'shp'"),
    ({"operation": "move", "ids": [1], "destination": "shop"}, "is the queue the messages are in"),
    ({"operation": "change-priority", "ids": [1]}, "field 'priority' is missing"),
    (
        {"operation": "change-priority", "ids": [1], "priority": 256},
        "field 'priority' is 256; give an integer from 0",
    ),
    ([], "the body must be a JSON object, not []"),
]


@pytest.mark.parametrize(("body", "words"), BAD, ids=lambda value: str(value)[:40])
async def test_bad_bodies_are_refused_by_name(site: Site, body: Any, words: str) -> None:
    site.queue("shop")
    status, reason = await site.refused("POST", f"{PATH}/operations", body)
    assert status == 400
    assert words in reason


async def test_what_the_queue_cannot_do_is_a_conflict(site: Site) -> None:
    site.queue("shop")
    status, reason = await site.refused("POST", f"{PATH}/operations", {"operation": "dead-letter", "everything": True})
    assert status == 409
    assert "has no dead-letter target" in reason
    status, reason = await site.refused("POST", f"{PATH}/reset-groups")
    assert status == 409
    assert "does not group messages" in reason


async def test_pause_resume_and_groups(site: Site) -> None:
    queue = site.queue("shop", group_key="customer")
    assert await site.send("POST", f"{PATH}/pause") == (200, {"paused": True, "changed": True})
    assert await site.send("POST", f"{PATH}/pause") == (200, {"paused": True, "changed": False})
    assert queue.paused
    assert await site.send("POST", f"{PATH}/resume") == (200, {"paused": False, "changed": True})
    assert await site.send("POST", f"{PATH}/reset-groups", {"group": "anna"}) == (200, {"count": 0})
    assert (await site.refused("POST", f"{PATH}/pause", {"until": 5}))[1].startswith("unknown field 'until'")


async def test_unknown_operations(site: Site) -> None:
    site.queue("shop")
    site.queue("other")
    number = (await start(site, {"operation": "purge"}))["id"]
    for path in (f"{PATH}/operations/99", f"/api/v1/queues/%2F/other/operations/{number}"):
        for method in ("GET", "DELETE"):
            status, reason = await site.refused(method, path)
            assert status == 404
            assert reason.startswith("no operation")
    assert await site.refused("GET", f"{PATH}/operations/one") == (
        404, "no operation 'one'; operations have whole numbers"
    )  # fmt: skip


async def test_a_manager_needs_the_permissions_a_client_would(site: Site) -> None:
    for name in ("shop", "shop-late", "till"):
        site.queue(name)
    site.publish("shop")
    manager = "shop:pass"
    assert (await start(site, {"operation": "delete", "ids": [7]}, user=manager))["user"] == "shop"
    await start(site, {"operation": "copy", "ids": [1], "destination": "shop-late"}, user=manager)
    for path, body, words in (
        ("/api/v1/queues/%2F/till/operations", {"operation": "purge"}, "manage access to 'till'"),
        (f"{PATH}/operations", {"operation": "copy", "ids": [1], "destination": "till"}, "write access to 'till'"),
        (f"{PATH}/operations", {"operation": "retry", "everything": True}, "write access to 'till'"),
        ("/api/v1/queues/%2F/till/pause", None, "manage access to 'till'"),
    ):
        status, reason = await site.refused("POST", path, body, user=manager)
        assert status == 403
        assert words in reason
