from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from annulet.bulk.reading.adoption import LeaseRequest
from annulet.testing import VirtualClock
from tests.admin.conftest import Site
from tests.bulk.helpers import bench


async def test_a_queue_shows_our_counters_and_those_of_rabbitmq(site: Site) -> None:
    queue = site.queue("q", ring_size=3)
    site.fill(queue, 5, size=7)
    queue.acquire(1, -1, site.clock())
    queue.leases.add(("/", "to-parquet"))
    answer = (await site.get("/api/v1/queues/%2F/q")).json()
    assert (answer["name"], answer["vhost"]) == ("q", "/")
    assert (answer["messages"], answer["messages_ready"], answer["messages_unacknowledged"]) == (3, 2, 1)
    assert (answer["consumers"], answer["leases"]) == (0, ["to-parquet"])
    assert (answer["messages_added"], answer["messages_replaced"], answer["messages_delivered"]) == (5, 2, 1)
    assert (answer["pending_bytes"], answer["delivering_bytes"]) == (14, 7)
    assert answer["body_bytes_in_memory"] == {"in_delivery": 7, "direct": 14, "late": 0, "head": 0}
    assert answer["losses"] == {"replaced-ring": 2}
    assert answer["unaccounted"] == 0
    site.clock.advance(2_500)
    assert (await site.get("/api/v1/queues/%2F/q")).json()["lag_milliseconds"] == 2_500
    assert answer["arguments"] == {"x-ring-size": 3}
    assert answer["settings"]["ring_size"] == 3
    assert (answer["durable"], answer["auto_delete"], answer["exclusive"]) == (False, False, False)


async def test_a_queue_shows_age_and_size_of_its_leases(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with bench(tmp_path, clock=clock) as here:
        here.declare("q")
        await here.publish("q", [b"12345"] * 3)
        site = Site(here.broker, clock)
        assert (await site.get("/api/v1/queues/%2F/q")).json()["lease_statistics"] == []
        leases = here.service.leases
        for name in ("two", "one"):
            await leases.open(LeaseRequest("/", name, "q", "owner", fresh=True, generated=name == "one"))
        clock.advance(5_000)
        generation = int(str(leases.status("/", "two")["generation"]))
        assert await leases.extend("/", "two", generation, 0, messages_max=2) == 2
        clock.advance(1_000)

        answer = (await site.get("/api/v1/queues/%2F/q")).json()
        names = ("name", "held", "held_bytes", "age_milliseconds", "idle_milliseconds", "generated")
        assert [tuple(lease[name] for name in names) for lease in answer["lease_statistics"]] == [
            ("one", 0, 0, 6_000, 6_000, True),
            ("two", 2, 10, 6_000, 1_000, False),
        ]
        assert answer["leases"] == ["one", "two"]
        await leases.release("/", "one")
        answer = (await site.get("/api/v1/queues/%2F/q")).json()
        assert [lease["name"] for lease in answer["lease_statistics"]] == ["two"]


async def test_names_with_slashes_percent_signs_and_other_scripts(site: Site) -> None:
    for name, path in (("a/b", "a%2Fb"), ("100%", "100%25"), ("очередь", "%D0%BE%D1%87%D0%B5%D1%80%D0%B5%D0%B4%D1%8C")):
        site.queue(name)
        response = await site.get(f"/api/v1/queues/%2F/{path}")
        assert response.status_code == 200, path
        assert response.json()["name"] == name


async def test_unknown_queues_and_paths(site: Site) -> None:
    response = await site.get("/api/v1/queues/%2F/absent")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    reason = "no queue 'absent' in virtual host '/'"
    assert response.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": reason,
        "error": "not_found",
        "reason": reason,
    }
    assert (await site.get("/api/v1/queues/absent/q")).json()["reason"].startswith("no virtual host 'absent'")
    assert "write a slash within a name as %2F" in (await site.get("/api/v1/queues/%2F/a/b")).json()["reason"]
    assert (await site.get("/api/v1/nothing")).json()["error"] == "not_found"
    async with site.client() as client:
        assert (await client.post("/api/v1/queues")).json()["error"] == "method_not_allowed"


async def test_lists_filter_by_host_and_part_of_the_name(site: Site) -> None:
    for host, name in (("/", "red"), ("/", "green"), ("other", "reddish")):
        site.queue(name, host)
    listed = (await site.get("/api/v1/queues?name=red")).json()
    assert [(item["vhost"], item["name"]) for item in listed["items"]] == [("/", "red"), ("other", "reddish")]
    assert (listed["filtered_count"], listed["total_count"]) == (2, 3)
    listed = (await site.get("/api/v1/queues?name=red&vhost=%2F")).json()
    assert [item["name"] for item in listed["items"]] == ["red"]


async def test_settings_of_a_live_queue_are_changed(site: Site) -> None:
    queue = site.queue("shop", ring_size=5)
    status, answer = await site.send(
        "PATCH", "/api/v1/queues/%2F/shop", {"settings": {"ring-size": 2, "x-evict": "newest"}}
    )
    assert (status, answer["durable_change"], answer["settings"]["ring_size"]) == (200, False, 2)
    assert (answer["settings_from"]["ring_size"], answer["settings_from"]["evict"]) == ("operator", "operator")
    site.fill(queue, 3)
    assert queue.order.count == 2
    (entry,) = (await site.get("/api/v1/audit")).json()["items"]
    assert (entry["operation"], entry["target"], entry["user"]) == ("change-queue", "shop", "guest")
    assert entry["arguments"] == '{"ring-size":2,"x-evict":"newest"}'


async def test_changes_that_are_refused(site: Site) -> None:
    queue = site.queue("shop", ring_size=5)
    for body, status, words in (
        ({}, 400, "field 'settings' is missing"),
        ({"settings": {"ring-sise": 2}}, 400, "did you mean 'x-ring-size'?"),
        ({"settings": {"ring-size": "two"}}, 400, "'ring-size' must be"),
        ({"settings": {"priorities": 3}}, 400, "cannot be changed"),
        ({"settings": {"ring-size": None}}, 400, "setting 'ring-size' is null"),
        ({"ring-size": 2}, 400, "unknown field 'ring-size'"),
    ):
        answered, reason = await site.refused("PATCH", "/api/v1/queues/%2F/shop", body)
        assert answered == status
        assert words in reason
    assert queue.settings.ring_size == 5


async def test_a_manager_sends_messages_on_only_to_where_he_may_write(site: Site) -> None:
    for name in ("shop", "till"):
        site.queue(name)
    path = "/api/v1/queues/%2F/shop"
    for target, status in (("till", 403), ("shop-dead", 200)):
        body = {"settings": {"dead-letter-address": target}}
        assert (await site.send("PATCH", path, body, user="shop:pass"))[0] == status
    assert (await site.send("PATCH", "/api/v1/queues/%2F/till", {"settings": {}}, user="shop:pass"))[0] == 403


async def test_arguments_without_effect_are_listed(site: Site) -> None:
    site.queue("shop", **{"my-team": "payments", "ring_size": 5})
    described = (await site.get("/api/v1/queues/%2F/shop")).json()
    assert (described["arguments"], described["arguments_without_effect"]) == ({"x-ring-size": 5}, ["x-my-team"])


async def test_a_queue_is_made_and_deleted(site: Site) -> None:
    path = "/api/v1/queues/%2F/board"
    body = {"arguments": {"ring-size": 3}}
    status, made = await site.send("PUT", path, body)
    assert (status, made["durable"], made["arguments"]) == (201, True, {"x-ring-size": 3})
    assert (await site.send("PUT", path, body))[0] == 200
    status, reason = await site.refused("PUT", path, {"arguments": {"ring-size": 4}})
    assert (status, "ring-size" in reason) == (409, True)
    site.fill(site.broker.hosts["/"].queues["board"], 2)
    assert (await site.refused("DELETE", f"{path}?if_empty=true"))[0] == 409
    deleted = (await site.send("DELETE", path))[1]
    assert (deleted["name"], deleted["deleted"], deleted["messages"], deleted["undo"]["kept"]) == ("board", True, 2, 2)
    assert await site.status("DELETE", path) == 404
    trail = (await site.get("/api/v1/audit")).json()["items"]
    assert [item["operation"] for item in trail] == ["delete-queue", "delete", "create-queue"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"arguments": {"ring-sise": 3}}, "did you mean"),
        ({"arguments": {"ring-size": "many"}}, "ring-size"),
        ({"durabel": True}, "did you mean 'durable'?"),
    ],
)
async def test_wrong_queues_are_not_made(site: Site, body: dict[str, Any], words: str) -> None:
    site.broker.hosts["/"].unknown_arguments = "refuse"
    status, reason = await site.refused("PUT", "/api/v1/queues/%2F/board", body)
    assert (status, words in reason) == (400, True), reason
    assert "board" not in site.broker.hosts["/"].queues


async def test_a_queue_takes_the_permission_to_configure_it(site: Site) -> None:
    site.queue("board")
    for method in ("PUT", "DELETE", "PATCH"):
        assert await site.status(method, "/api/v1/queues/%2F/board", {"settings": {}}, user="shop:pass") == 403
    target = {"arguments": {"dead-letter-exchange": "", "dead-letter-routing-key": "board"}}
    assert await site.status("PUT", "/api/v1/queues/%2F/shop.q", target, user="shop:pass") == 403
    assert "shop.q" not in site.broker.hosts["/"].queues


async def test_counts_alone_are_those_of_the_whole_queue(site: Site) -> None:
    """A listing computes the columns that it is asked for; counts come another way than the other figures."""
    for name, arguments in {"plain": {}, "copies": {"non_destructive": True}, "later": {}}.items():
        site.fill(site.queue(name, **arguments), 5)
    site.publish("later", delay=60_000)
    counts = ("messages", "messages_ready", "messages_unacknowledged", "consumers")
    whole = (await site.get("/api/v1/queues")).json()["items"]
    alone = (await site.get(f"/api/v1/queues?columns=name,{','.join(counts)}")).json()["items"]
    assert [{"name": one["name"], **{name: one[name] for name in counts}} for one in whole] == alone
    for one in whole:
        given = (one["messages"], one["messages_ready"], one["messages_unacknowledged"], one["consumers"])
        assert given == (one["message_count"], one["pending_count"], one["delivering_count"], one["consumer_count"])
    assert {one["name"]: one["messages"] for one in whole} == {"copies": 5, "later": 6, "plain": 5}


async def test_queues_by_state_kind_and_with_messages_only(site: Site) -> None:
    ring, plain = site.queue("ring", ring_size=3), site.queue("plain")
    site.queue("levels", priorities=4)
    site.fill(plain, 1)
    ring.paused = True

    async def named(query: str) -> list[str]:
        return [one["name"] for one in (await site.send("GET", f"/api/v1/queues?{query}"))[1]["items"]]

    assert await named("state=paused") == ["ring"]
    assert await named("state=running") == ["levels", "plain"]
    assert await named("kind=ring") == ["ring"]
    assert await named("kind=priorities") == ["levels"]
    assert await named("kind=fifo") == ["plain"]
    assert await named("nonempty=true") == ["plain"]
    assert await named("nonempty=true&kind=ring") == []
    assert (await site.refused("GET", "/api/v1/queues?kind=rings"))[1].endswith("did you mean 'ring'?")


async def test_queues_are_asked_for_by_name(site: Site) -> None:
    for name in ("a/b", "c,d", "e"):
        site.queue(name)
    site.queue("e", "other")

    async def found(only: str, user: str = "guest:guest") -> list[tuple[str, str]]:
        items = (await site.get(f"/api/v1/queues?columns=vhost,name&only={only}", user=user)).json()["items"]
        return [(item["vhost"], item["name"]) for item in items]

    assert await found("%252F/a%252Fb,%252F/c%252Cd,%252F/gone,nowhere/e") == [("/", "a/b"), ("/", "c,d")]
    assert await found("%252F/e,other/e,%252F/e") == [("/", "e"), ("other", "e")]
    assert await found("%252F/e,other/e", "manager:pass") == [("other", "e")]
    for wrong in ("e", "%252F/a/b", ",".join(["%252F/e"] * 101)):
        assert await site.status("GET", f"/api/v1/queues?only={wrong}") == 400
