from __future__ import annotations

import importlib
import threading
from types import ModuleType

import pytest

from annulet.admin.application import build_application
from annulet.admin.requests.access import API_TAGS
from annulet.admin.resources.routes import TABLE
from annulet.broker.broker import Broker
from annulet.broker.settings.configuration import BrokerConfiguration
from tests.admin.conftest import REMOTE, Site

OWN = {"put_token", "delete_token", "begin_web_session", "end_web_session"}
"""Changes of what belongs to the user itself."""

READING = {"explain_route"}
"""Requests with a body that change nothing."""


def test_changes_take_a_tag_that_may_write() -> None:
    changing = [operation for resource in TABLE.resources for operation in resource.operations if operation.changes]
    assert len(changing) > 15
    for operation in changing:
        assert operation.allowed_tags <= API_TAGS, operation.name
        assert "monitoring" not in operation.allowed_tags or operation.name in OWN | READING


async def test_paths_of_both_interfaces_are_kept_apart(site: Site) -> None:
    assert (await site.send("POST", "/api/v1/queues"))[0] == 405
    status, answer = await site.send("GET", "/api/v1/nothing")
    assert (status, answer["title"], "known here: address-settings, " in answer["reason"]) == (404, "Not Found", True)
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


async def test_a_thread_imports_what_a_scrape_needs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    original, imports = importlib.import_module, []

    def noted(name: str, package: str | None = None) -> ModuleType:
        imports.append((name, threading.current_thread() is threading.main_thread()))
        return original(name, package)

    monkeypatch.setattr(importlib, "import_module", noted)
    response = await site.get("/metrics", user=None)
    assert response.status_code == 200
    assert "annulet_" in response.text
    assert ("annulet.admin.resources.metrics", False) in imports
