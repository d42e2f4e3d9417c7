from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Site

Q = "/api/queues/%2F/q"


async def test_a_queue_is_declared_listed_purged_and_deleted(site: Site) -> None:
    body = {"durable": True, "arguments": {"x-max-length": 5}, "node": "rabbit@x", "vhost": "/", "name": "q"}
    assert (await site.status("PUT", Q, body), await site.status("PUT", Q, body)) == (201, 204)
    site.publish("q")
    item = (await site.get(Q)).json()
    assert item["arguments"] == {"x-max-length": 5}
    assert (item["name"], item["vhost"], item["durable"], item["type"], item["state"]) == (
        "q", "/", True, "classic", "running",
    )  # fmt: skip
    assert (item["messages"], item["messages_ready"], item["messages_unacknowledged"]) == (1, 1, 0)
    assert item["message_bytes"] == 1
    assert item["message_stats"]["publish"] == 1
    assert item["consumer_details"] == []
    assert [each["name"] for each in (await site.get("/api/queues")).json()] == ["q"]
    assert await site.status("DELETE", f"{Q}?if-empty=true") == 400
    assert await site.status("DELETE", f"{Q}/contents") == 204
    assert (await site.get(Q)).json()["messages"] == 0
    assert await site.status("DELETE", f"{Q}?if-empty=true&if-unused=true") == 204
    assert await site.status("GET", Q) == 404


async def test_rates_are_differences_of_counters_by_the_time_between(site: Site) -> None:
    queue = site.queue("q")
    rates = site.broker.rates
    site.clock.advance(5000)
    rates.tick(site.broker.hosts, site.clock())
    site.clock.advance(5000)
    site.fill(queue, 50)
    item = (await site.get(Q)).json()
    assert item["message_stats"]["publish_details"] == {"rate": 10.0}
    assert item["messages_details"] == {"rate": 10.0}
    rates.tick(site.broker.hosts, site.clock())
    site.clock.advance(5000)
    item = (await site.get(Q)).json()
    assert item["message_stats"]["publish_details"] == {"rate": 5.0}  # since the older of two samples


async def test_columns_and_disable_stats_leave_out_what_is_not_wanted(site: Site) -> None:
    site.queue("q")
    path = "/api/queues?columns=name,message_stats.publish_details.rate"
    assert (await site.get(path)).json() == [{"name": "q", "message_stats": {"publish_details": {"rate": 0.0}}}]
    plain = (await site.get("/api/queues/%2F?disable_stats=true")).json()[0]
    assert "messages" not in plain
    assert plain["durable"] is False
    assert (await site.get(f"{Q}?columns=name")).json() == {"name": "q"}


async def test_the_page_that_keda_asks_for(site: Site) -> None:
    for name in ("orders-1", "orders-2", "other"):
        site.fill(site.queue(name), 3)
    path = "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Eorders-.%2A%24&page_size=100"
    answer = (await site.get(path)).json()
    assert [item["name"] for item in answer["items"]] == ["orders-1", "orders-2"]
    assert (answer["filtered_count"], answer["total_count"]) == (2, 3)
    for item in answer["items"]:
        assert (item["messages"], item["messages_unacknowledged"]) == (3, 0)
        assert item["message_stats"]["publish_details"]["rate"] == 0.0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"durable": "yes"}, "field 'durable': value 'yes'; give true or false"),
        ({"auto_delete": 1}, "field 'auto_delete': value 1; give true or false"),
        ({"arguments": 5}, "field 'arguments': value 5; give an object"),
        ({"arguments": {"x-max-length": "many"}}, "x-max-length"),
        ({"exclusive": True}, "field 'exclusive': value True; give false"),
        ({"durabel": True}, "field 'durabel': value True; unknown field; did you mean 'durable'?"),
    ],
)
async def test_a_wrong_declaration_names_field_value_and_remedy(site: Site, body: Any, reason: str) -> None:
    status, answer = await site.send("PUT", Q, body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert reason in answer["reason"]
    assert "q" not in site.broker.hosts["/"].queues


async def test_a_declaration_that_differs_is_refused_as_in_amqp(site: Site) -> None:
    await site.status("PUT", Q, {"durable": True})
    status, answer = await site.send("PUT", Q, {"durable": False})
    assert (status, answer["error"]) == (400, "bad_request")
    assert "inequivalent arg 'durable' for queue 'q' in vhost '/'" in answer["reason"]


async def test_permissions_are_asked_for_before_anything_is_read(site: Site) -> None:
    for method, path in (("PUT", Q), ("DELETE", Q), ("DELETE", f"{Q}/contents"), ("POST", f"{Q}/actions")):
        status, answer = await site.send(method, path, user="shop:pass")
        assert (status, answer["error"]) == (401, "not_authorised"), path
        assert "'q'" in answer["reason"]
    assert await site.status("PUT", "/api/queues/%2F/shop-1", {}, user="shop:pass") == 201
    for path in ("/api/queues/other", "/api/queues/missing"):
        status, answer = await site.send("GET", path, user="shop:pass")
        assert (status, answer["reason"]) == (401, "User not authorised to access virtual host")
    assert (await site.send("GET", "/api/queues/missing"))[1] == {
        "error": "Object Not Found", "reason": "no virtual host 'missing'",
    }  # fmt: skip


async def test_names_with_line_breaks_are_refused(site: Site) -> None:
    status, answer = await site.send("PUT", "/api/queues/%2F/a%0Ab", {})
    assert (status, answer["error"]) == (400, "bad_request")
    assert "without CR, LF and NUL" in answer["reason"]


async def test_actions_of_mirrors_have_nothing_to_do(site: Site) -> None:
    site.queue("q")
    assert await site.status("POST", f"{Q}/actions", {"action": "sync"}) == 204
    assert await site.status("POST", f"{Q}/actions", {"action": "foo"}) == 400


async def test_a_declared_queue_is_durable(site: Site) -> None:
    await site.status("PUT", Q, {"durable": True})
    assert [record.name for record in site.broker.catalogue.queues("/")] == ["q"]
    await site.status("DELETE", Q)
    assert site.broker.catalogue.queues("/") == []


async def test_policy_and_owner_of_a_queue(site: Site) -> None:
    site.queue("q")
    site.broker.hosts["/"].policies.set("p", "^q", {"max-length": 7})
    item = (await site.get(Q)).json()
    assert (item["policy"], item["effective_policy_definition"]) == ("p", {"max-length": 7})
    assert "owner_pid_details" not in item
