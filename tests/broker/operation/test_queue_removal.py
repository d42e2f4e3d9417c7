"""The deletion of a queue by an operator, and its undo: over HTTP, as the operator does both."""

from __future__ import annotations

from typing import Any

from annulet.broker.connections.access import Access
from annulet.broker.operation.queue_removal import QueueRemoval, describe_keeper
from tests.admin.conftest import Site, site
from tests.admin.resources.test_undo import PATH, finished

__all__ = ["site"]


async def deleted(site: Site, **query: Any) -> dict[str, Any]:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    status, answer = await site.send("DELETE", f"{PATH}?{text}")
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


async def test_a_deleted_queue_comes_back_with_bindings_settings_and_messages(site: Site) -> None:
    host = site.broker.hosts["/"]
    assert (await site.send("PUT", PATH, {"arguments": {"ring-size": 5}}))[0] == 201
    assert (await site.send("PATCH", PATH, {"settings": {"ring-size": 9}}))[0] == 200
    access = {"routing_key": "red", "arguments": {"x": 1}}
    assert await site.status("POST", "/api/bindings/%2F/e/amq.topic/q/shop", access) == 201
    for body in (b"one", b"two", b"three"):
        site.publish("shop", body)
    host.queues["shop"].acquire(1, -1, site.clock())
    answer = await deleted(site)
    assert (answer["messages"], answer["undo"]["kept"], answer["undo"]["unkept"]) == (3, 2, 1)
    assert "in delivery" in answer["undo"]["reason"]
    assert "shop" not in host.queues
    (listed,) = (await site.get(f"{PATH}/undo")).json()["items"]
    assert (listed["operation"], listed["count"], listed["definition"]) == ("delete-queue", 2, True)
    back = await finished(site, f"{PATH}/undo/{answer['undo']['undo']}", {})
    queue = host.queues["shop"]
    assert (back["done"], queue.settings.ring_size, queue.durable) == (2, 9, True)
    assert [entry.sequence for entry in sorted(queue.order.entries())] == [2, 3]
    (binding,) = host.bindings_of_queue(queue)
    assert (binding.source.name, binding.routing_key, binding.arguments) == ("amq.topic", "red", {"x": 1})
    site.publish("shop", b"four")
    assert [entry.message.body for entry in sorted(queue.order.entries())] == [b"two", b"three", b"four"]
    assert [entry.sequence for entry in sorted(queue.order.entries())] == [2, 3, 4]


async def test_an_empty_queue_comes_back_without_what_is_gone(site: Site) -> None:
    host = site.broker.hosts["/"]
    await site.send("PUT", PATH, {})
    assert await site.status("PUT", "/api/exchanges/%2F/news", {"type": "fanout"}) == 201
    assert await site.status("POST", "/api/bindings/%2F/e/news/q/shop", {"routing_key": "k"}) == 201
    token = (await deleted(site))["undo"]["undo"]
    assert await site.status("DELETE", "/api/exchanges/%2F/news") == 204
    status, answer = await site.send("POST", f"{PATH}/undo/{token}", {})
    assert (status, "shop" in host.queues) == (202, True)
    (left,) = answer["not_restored"]
    assert left.startswith("binding from 'news' with 'k': ")


async def test_messages_of_a_deleted_queue_go_behind_those_of_a_new_one(site: Site) -> None:
    host = site.broker.hosts["/"]
    await site.send("PUT", PATH, {"arguments": {"ring-size": 5}})
    site.publish("shop", b"old")
    token = (await deleted(site))["undo"]["undo"]
    await site.send("PUT", PATH, {})
    site.publish("shop", b"new")
    await finished(site, f"{PATH}/undo/{token}", {})
    queue = host.queues["shop"]
    assert [entry.message.body for entry in sorted(queue.order.entries())] == [b"new", b"old"]
    assert queue.settings.ring_size == -1


async def test_a_deletion_without_undo_keeps_nothing(site: Site) -> None:
    await site.send("PUT", PATH, {})
    site.publish("shop", b"one")
    assert (await deleted(site, undo="false"))["undo"] is None
    assert (await site.refused("GET", f"{PATH}/undo"))[0] == 404


async def test_more_bytes_than_are_kept_go_with_the_queue(site: Site) -> None:
    await site.send("PUT", PATH, {})
    site.publish("shop", b"x" * 5000)
    site.broker.undo.bytes_max = 4000
    answer = await deleted(site)
    assert (answer["undo"]["kept"], answer["undo"]["unkept"]) == (0, 1)
    (listed,) = (await site.get(f"{PATH}/undo")).json()["items"]
    assert (listed["count"], listed["definition"]) == (0, True)


async def test_a_deletion_that_is_refused_takes_nothing(site: Site) -> None:
    await site.send("PUT", PATH, {})
    site.publish("shop", b"one")
    assert (await site.refused("DELETE", f"{PATH}?if_empty=true"))[0] == 409
    assert site.broker.hosts["/"].queues["shop"].order.count == 1
    assert (await site.get(f"{PATH}/undo")).json()["items"] == []


async def test_a_queue_that_goes_with_its_connection_is_not_kept(site: Site) -> None:
    host = site.broker.hosts["/"]
    queue = host.declare_queue("own", now=site.clock(), owner=object(), durable=False, arguments={})
    access = Access(site.broker.authenticator, site.broker.catalogue, host, "guest", owner=queue.owner)
    keeper = await QueueRemoval(site.broker, access, "guest").remove(queue, if_unused=False, if_empty=False, undo=True)
    assert (describe_keeper(keeper), "own" in host.queues) == (None, False)
