from __future__ import annotations

import pytest
from starlette.routing import Route

from annulet.admin.application import build_application
from annulet.broker.broker import Broker
from annulet.broker.settings.configuration import BrokerConfiguration
from tests.admin.conftest import REMOTE, Site

WRITING = {
    "/api/v1/definitions": {"GET", "HEAD", "POST"},
    "/api/v1/queues/{path:path}": {"GET", "HEAD", "POST", "PATCH", "DELETE"},
    "/api/v1/address-settings/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/v1/policies/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/v1/backups": {"GET", "HEAD", "POST"},
    "/api/v1/users/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/v1/virtual-hosts/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/v1/permissions/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/v1/tokens/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/v1/log": {"GET", "HEAD", "PUT"},
    "/api/v1/traces/{path:path}": {"GET", "HEAD", "PUT", "DELETE"},
    "/api/{path:rabbitmq}": {"GET", "HEAD", "PUT", "POST", "DELETE"},
}


def test_every_path_only_reads_but_for_these(site: Site) -> None:
    routes = [route for route in build_application(site.broker).routes if isinstance(route, Route)]
    assert {route.path for route in routes} >= {"/health/live", "/health/ready", "/metrics", "/api/v1/queues", *WRITING}
    for route in routes:
        assert route.methods == WRITING.get(route.path, {"GET", "HEAD"}), route.path


async def test_paths_of_both_interfaces_are_kept_apart(site: Site) -> None:
    assert (await site.send("POST", "/api/v1/queues"))[0] == 405
    assert (await site.send("GET", "/api/v1/nothing"))[1]["reason"] == "Not Found"
    assert "no resource at this path" in (await site.send("GET", "/api/v12"))[1]["reason"]


REQUESTS = [
    ("POST", "/api/v1/backups"),
    ("PUT", "/api/v1/log"),
    ("PUT", "/api/v1/traces/shop"),
    ("POST", "/api/v1/definitions"),
    ("PATCH", "/api/v1/queues/%2F/shop"),
    ("POST", "/api/v1/queues/%2F/shop/operations"),
    ("DELETE", "/api/v1/queues/%2F/shop/operations/1"),
    ("POST", "/api/v1/queues/%2F/shop/pause"),
    ("POST", "/api/v1/queues/%2F/shop/resume"),
    ("POST", "/api/v1/queues/%2F/shop/reset-groups"),
    ("PUT", "/api/v1/address-settings/%2F/shop"),
    ("DELETE", "/api/v1/address-settings/%2F/shop"),
    ("PUT", "/api/v1/policies/%2F/shop"),
    ("DELETE", "/api/v1/policies/%2F/shop"),
]


@pytest.mark.parametrize(("method", "path"), REQUESTS)
async def test_who_may_not_write_changes_nothing(site: Site, method: str, path: str) -> None:
    site.queue("shop")
    answered, answer = await site.send(method, path, origin="https://elsewhere.example")
    assert (answered, answer["reason"]) == (
        403, "requests from pages of 'https://elsewhere.example' may change nothing here"
    )  # fmt: skip
    for user, status in (
        ("plain:pass", 403),
        ("watcher:pass", 403),
        ("manager:pass", (403, 404)),
        ("guest:wrong", 401),  # at the end: after a wrong password the next ones from there are made to wait
    ):
        answered, _ = await site.send(method, path, user=user)
        assert answered in (status if isinstance(status, tuple) else (status,)), (user, answered)
    assert (await site.get("/api/v1/audit")).json()["total_count"] == 0


async def test_a_page_of_this_broker_may_write(site: Site) -> None:
    site.queue("shop")
    assert (await site.send("POST", "/api/v1/queues/%2F/shop/pause", host="localhost", origin="http://localhost"))[
        0
    ] == 200


async def test_a_page_whose_name_was_made_to_mean_this_machine_may_not_write(site: Site) -> None:
    site.queue("shop")
    path, rebound = "/api/v1/queues/%2F/shop/pause", {"host": "rebound.example", "origin": "http://rebound.example"}
    assert (await site.send("POST", path, **rebound))[0] == 403
    async with site.client(peer=REMOTE, user="shop:pass") as client:  # there it is the name of the broker's machine
        assert (await client.post(path, headers=rebound)).status_code == 200


def test_two_applications_keep_their_brokers_apart(site: Site) -> None:
    other = Broker(BrokerConfiguration(data_directory=None))
    assert build_application(site.broker).state.broker is site.broker
    assert build_application(other).state.broker is other
