"""Events over HTTP: from a cursor, by kind, and for whom."""

from __future__ import annotations

import pytest

from annulet.broker.observing.recent_events import EVENTS
from annulet.store.database.definitions import PermissionRecord
from tests.admin.conftest import PASSWORD_HASH, Site


def happen(*queues: str, host: str = "/") -> int:
    """Note events; return the cursor before them."""
    before = EVENTS.last
    for queue in queues:
        EVENTS.note("queue created", "info", {"vhost": host, "queue": queue})
    return before


async def test_a_cursor_leads_through_all_events(site: Site) -> None:
    since, seen = happen("a", "b", "c"), []
    for _ in range(3):
        answer = (await site.get(f"/api/v1/events?since={since}&limit=2")).json()
        seen += [item["values"]["queue"] for item in answer["items"]]
        since = answer["next"]
        assert answer["missed"] == 0
    assert seen == ["a", "b", "c"]
    assert since == EVENTS.last
    latest = (await site.get("/api/v1/events?limit=2")).json()
    assert [item["values"]["queue"] for item in latest["items"]] == ["b", "c"]
    (first, _) = latest["items"]
    assert (first["id"], first["kind"], first["event"], first["vhost"]) == ("QUE-1001", "queue", "queue created", "/")


async def test_events_by_kind_and_virtual_host(site: Site) -> None:
    since = happen("a")
    happen("b", host="other")
    EVENTS.note("login refused", "warning", {"user": "eve", "peer": "1.2.3.4:5"})

    async def found(query: str, user: str = "guest:guest") -> list[str]:
        status, answer = await site.send("GET", f"/api/v1/events?since={since}{query}", user=user)
        assert status == 200, answer
        return [item["id"] + item["vhost"] for item in answer["items"]]

    assert await found("") == ["QUE-1001/", "QUE-1001other", "ANN-2008"]
    assert await found("&kind=access") == ["ANN-2008"]
    assert await found("&vhost=other") == ["QUE-1001other"]


async def test_managers_see_their_virtual_hosts_and_no_other_client(site: Site) -> None:
    directory = site.broker.access_directory
    directory.set_user("looker", ["management"], password_hash=PASSWORD_HASH)
    directory.set_permission(PermissionRecord("looker", "/", "", "", ".*"))
    since = happen("a")
    happen("b", host="other")
    for user in ("looker", "eve"):
        EVENTS.note("connection opened", "info", {"vhost": "/", "user": user, "peer": "p"})
    EVENTS.note("consumer created", "info", {"vhost": "/", "queue": "a", "peer": "p"})
    EVENTS.note("login refused", "warning", {"user": "looker", "peer": "p"})
    _, answer = await site.send("GET", f"/api/v1/events?since={since}", user="looker:pass")
    assert [(item["id"], item["values"].get("user")) for item in answer["items"]] == [
        ("QUE-1001", None),
        ("CON-1001", "looker"),
    ]
    assert answer["next"] == EVENTS.last
    assert (await site.refused("GET", "/api/v1/events?vhost=other", user="looker:pass"))[0] == 404


@pytest.mark.parametrize(
    ("query", "words"), [("kind=queu", "did you mean 'queue'"), ("since=now", "since"), ("limit=0", "limit")]
)
async def test_bad_queries(site: Site, query: str, words: str) -> None:
    status, reason = await site.refused("GET", f"/api/v1/events?{query}")
    assert (status, words in reason) == (400, True), reason
