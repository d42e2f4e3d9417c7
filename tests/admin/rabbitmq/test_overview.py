from __future__ import annotations

from tests.admin.conftest import Site


async def test_totals_with_rates_of_the_virtual_hosts_that_the_user_sees(site: Site) -> None:
    queue = site.queue("q")
    other = site.queue("q", "other")
    site.clock.advance(5000)
    site.broker.rates.tick(site.broker.hosts, site.clock())
    site.fill(queue, 10)
    site.fill(other, 5)
    site.clock.advance(5000)
    site.broker.rates.tick(site.broker.hosts, site.clock())
    answer = (await site.get("/api/overview")).json()
    assert answer["queue_totals"] == {
        "messages": 15, "messages_details": {"rate": 3.0}, "messages_ready": 15,
        "messages_ready_details": {"rate": 3.0}, "messages_unacknowledged": 0,
        "messages_unacknowledged_details": {"rate": 0.0},
    }  # fmt: skip
    assert answer["message_stats"]["publish_details"] == {"rate": 3.0}
    assert answer["object_totals"]["queues"] == 2
    assert answer["object_totals"]["connections"] == 0
    assert {listener["protocol"] for listener in answer["listeners"]} == {"amqp"}
    own = (await site.get("/api/overview", user="shop:pass")).json()
    assert (own["queue_totals"]["messages"], own["object_totals"]["queues"]) == (10, 1)


async def test_columns_leave_the_totals_out(site: Site) -> None:
    assert (await site.get("/api/overview?columns=rabbitmq_version")).json() == {"rabbitmq_version": "3.10.8"}
    assert "queue_totals" not in (await site.get("/api/overview?disable_stats=true")).json()


async def test_the_clusters_name_is_set_by_an_administrator(site: Site) -> None:
    path = "/api/cluster-name"
    assert (await site.get(path, user="shop:pass")).json() == {"name": "annulet"}
    assert await site.status("PUT", path, {"name": "x"}, user="watcher:pass") == 401
    assert await site.status("PUT", path, {"name": "x"}) == 204
    assert (await site.get(path)).json() == {"name": "x"}
    assert (await site.get("/api/overview")).json()["cluster_name"] == "x"
    assert site.broker.server_properties["cluster_name"] == "x"
    for wrong in ({}, {"name": ""}, {"name": 5}, {"name": "a\nb"}):
        assert await site.status("PUT", path, wrong) == 400, wrong
