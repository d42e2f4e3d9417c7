"""Events over HTTP: from a cursor, by kind, and for whom."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from annulet import testing
from annulet.admin.console import streams
from annulet.admin.console.streams import ENDED_BY_SESSION
from annulet.admin.resources.records import events
from annulet.admin.resources.records.events import KEEP_ALIVE_SAMPLES, STREAMED_MAX, EventFeed, Wanted
from annulet.broker.observing.recent_events import EVENTS, RecentEvents
from annulet.broker.security.authentication import User
from annulet.broker.security.password_hashes import HASHER
from annulet.store.database.definitions import PermissionRecord
from tests.admin.conftest import IMPATIENT, PASSWORD_HASH, USERS, Site


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


STREAM = "/api/v1/events/stream"


def frames_of(text: str) -> list[tuple[str, str, Any]]:
    """Return id, kind and data of each frame."""
    parts = text.split("\n\n")
    assert parts.pop() == ""
    lines = [dict(line.split(": ", 1) for line in part.split("\n")) for part in parts]
    return [(found.get("id", ""), found.get("event", ""), json.loads(found.get("data", "null"))) for found in lines]


async def test_a_stream_has_what_came_after_a_cursor(site: Site) -> None:
    since = happen("a", "b")
    answer = await site.get(f"{STREAM}?samples=1&since={since}")
    assert answer.headers["content-type"].startswith("text/event-stream")
    listed = (await site.get(f"/api/v1/events?since={since}")).json()["items"]
    assert frames_of(answer.text) == [(str(item["number"]), "", item) for item in listed]
    assert [item["values"]["queue"] for item in listed] == ["a", "b"]
    assert frames_of((await site.get(f"{STREAM}?samples=1")).text) == [(str(EVENTS.last), "", None)]


async def test_a_browser_goes_on_behind_the_last_event_it_saw(site: Site) -> None:
    happen("a", "b")
    async with site.client() as client:
        path, last = f"{STREAM}?samples=1&since=0", {"Last-Event-ID": str(EVENTS.last - 1)}
        (frame,) = frames_of((await client.get(path, headers=last)).text)
        assert frame[2]["values"]["queue"] == "b"
        answer = await client.get(path, headers={"Last-Event-ID": "a-b"})
        assert (answer.status_code, "Last-Event-ID: 'a-b'" in answer.json()["reason"]) == (400, True)
    assert site.broker.stream_figures.streams == 0


async def test_a_stream_says_how_much_it_missed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    few = RecentEvents(2)
    monkeypatch.setattr(events, "EVENTS", few)
    since = few.last
    for queue in "abc":
        few.note("queue created", "info", {"vhost": "/", "queue": queue})
    first, *rest = frames_of((await site.get(f"{STREAM}?samples=1&since={since}")).text)
    assert first == ("", "missed", {"missed": 1})
    assert [frame[2]["values"]["queue"] for frame in rest] == ["b", "c"]


async def test_a_quiet_stream_shows_its_cursor_now_and_then(site: Site) -> None:
    user = User("guest", frozenset({"administrator"}))
    feed = EventFeed(user, Wanted("queue", None), EVENTS.last)
    cursor = f"id: {EVENTS.last}\n\n".encode()
    assert [feed.following([]) for _ in range(KEEP_ALIVE_SAMPLES + 2)] == [
        cursor,
        *[b""] * KEEP_ALIVE_SAMPLES,
        cursor,
    ]
    EVENTS.note("login refused", "warning", {"user": "eve", "peer": "p"})
    assert feed.following([]) == b""
    happen("a")
    assert b'"queue":"a"' in feed.following([])


async def test_a_part_of_a_stream_is_bounded(site: Site) -> None:
    since = happen(*map(str, range(STREAMED_MAX + 1)))
    feed = EventFeed(User("guest", frozenset({"administrator"})), Wanted(None, None), since)
    assert len(frames_of(feed.following([]).decode())) == STREAMED_MAX
    assert frames_of(feed.following([]).decode())[0][2]["values"]["queue"] == str(STREAMED_MAX)


async def test_a_stream_is_for_those_that_may_list(site: Site) -> None:
    directory = site.broker.access_directory
    directory.set_user("looker", ["management"], password_hash=PASSWORD_HASH)
    directory.set_permission(PermissionRecord("looker", "/", "", "", ".*"))
    since = happen("a")
    happen("b", host="hidden")
    EVENTS.note("connection opened", "info", {"vhost": "/", "user": "eve", "peer": "p"})
    path = f"{STREAM}?samples=1&since={since}"
    assert (await site.get(path, user=None)).status_code == 401
    assert (await site.get(path, user="plain:pass")).status_code == 403
    assert (await site.get(f"{path}&vhost=hidden", user="looker:pass")).status_code == 404
    (frame,) = frames_of((await site.get(path, user="looker:pass")).text)
    assert frame[2]["values"]["queue"] == "a"
    assert len(frames_of((await site.get(path, user="watcher:pass")).text)) == 3
    assert site.broker.stream_figures.streams == 0


async def test_a_token_of_single_virtual_hosts_sees_events_of_these(site: Site) -> None:
    scope = {"tags": ["administrator"], "virtual_hosts": ["/"]}
    token = (await site.send("PUT", "/api/v1/tokens/guest/ci", scope))[1]["token"]
    since = happen("a")
    happen("b", host="other")
    EVENTS.note("login refused", "warning", {"user": "eve", "peer": "p"})
    listed = (await site.send("GET", f"/api/v1/events?since={since}", user=f"guest:{token}"))[1]["items"]
    streamed = frames_of((await site.get(f"{STREAM}?samples=1&since={since}", user=f"guest:{token}")).text)
    assert [item["values"] for item in listed] == [frame[2]["values"] for frame in streamed] == [{"queue": "a"}]


@pytest.mark.parametrize("login", ["basic", "bearer", "session"])
async def test_a_stream_over_http_goes_on_and_ends_with_its_login(login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SAMPLE_SECONDS", 0.01)
    async with testing.broker(users=USERS, limits=IMPATIENT) as running, httpx.AsyncClient() as client:
        directory, headers, auth = running.broker.access_directory, {}, None
        url = running.http_url
        directory.set_user("looker", ["monitoring"], password_hash=PASSWORD_HASH)
        if login == "basic":
            auth = ("looker", "pass")
        elif login == "bearer":
            scope = {"tags": ["monitoring"]}
            made = await client.put(f"{url}/api/v1/tokens/looker/ci", auth=("guest", "guest"), json=scope)
            headers = {"Authorization": f"Bearer {made.json()['token']}"}
        else:
            await client.post(f"{url}/api/v1/session", json={"user": "looker", "password": "pass"})
        async with client.stream("GET", f"{url}{STREAM}", auth=auth, headers=headers) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("id: ")
            happen("later")
            async for line in lines:
                if '"queue":"later"' in line:
                    break
            if login == "bearer":
                directory.delete_token("looker", "ci")
            else:
                directory.set_user("looker", ["monitoring"], password_hash=HASHER.hash("other"))
            rest = [line async for line in lines]
        assert [line for line in rest if line.startswith('data: {"reason')] == [
            f'data: {{"reason":"{ENDED_BY_SESSION}"}}'
        ]
        assert running.broker.stream_figures.streams == 0
