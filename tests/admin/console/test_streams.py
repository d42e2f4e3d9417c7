"""Streams: what viewers share, what a slow one gets, and what ends one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from annulet import testing
from annulet.admin.console import streams as module
from annulet.admin.console.streams import ENDED_BY_SESSION, ENDED_BY_STOP, ConsoleStreams, EventStream, Viewer
from annulet.admin.console.topics import Topic
from annulet.admin.requests.responses import ResourceError
from annulet.broker.observing.stream_figures import CONSOLE_STREAMS_MAX, CONSOLE_STREAMS_PER_USER_MAX
from annulet.broker.security.authentication import User
from annulet.broker.security.password_hashes import HASHER
from annulet.broker.security.web_sessions import SESSION_IDLE_SECONDS
from tests.admin.conftest import USERS, Site

OVERVIEW, QUEUE = Topic("overview"), Topic("queue", "/", "q")
GUEST = User("guest", frozenset({"administrator"}))
MANAGER = User("manager", frozenset({"management"}))


@pytest.fixture
async def streams(site: Site) -> Any:
    made = ConsoleStreams(site.broker)
    yield made
    for viewer in list(made.viewers):
        made.close(viewer)


def read(frames: bytes) -> list[dict[str, Any]]:
    parts = frames.decode().split("\n\n")
    assert parts.pop() == ""
    return [json.loads(part.partition("data: ")[2]) for part in parts]


async def test_the_first_snapshots_come_at_once(site: Site, streams: ConsoleStreams) -> None:
    site.queue("q")
    viewer = streams.open(GUEST, None, (OVERVIEW, QUEUE))
    assert [snapshot["topic"] for snapshot in read(viewer.take())] == ["overview", "queue:%2F/q"]
    assert viewer.take() == b""


async def test_viewers_of_the_same_rights_share_one_encoded_snapshot(site: Site, streams: ConsoleStreams) -> None:
    one, two = (streams.open(GUEST, None, (OVERVIEW,)) for _ in range(2))
    other = streams.open(MANAGER, None, (OVERVIEW,))
    figures = site.broker.stream_figures
    before = figures.sampled
    await streams.sample()
    assert one.waiting[OVERVIEW] is two.waiting[OVERVIEW]
    assert one.waiting[OVERVIEW] is not other.waiting[OVERVIEW]
    assert figures.sampled == before + 2


async def test_a_slow_viewer_gets_the_newest_snapshot_and_no_more(site: Site, streams: ConsoleStreams) -> None:
    queue = site.queue("q")
    viewer = streams.open(GUEST, None, (OVERVIEW, QUEUE))
    for _ in range(100):
        site.fill(queue, 1)
        site.clock.advance(1000)
        await streams.sample()
    snapshots = read(viewer.take())
    assert len(snapshots) == 2
    assert snapshots[1]["messages"] == 100
    assert site.broker.stream_figures.skipped == 200


class Counting:
    """A feed of numbers, which may have none for a while."""

    def __init__(self) -> None:
        self.given = 0
        self.quiet = False

    def following(self, hosts: Any) -> bytes:
        assert [host.name for host in hosts] == ["/", "other"]
        if self.quiet:
            return b""
        self.given += 1
        return b"data: %d\n\n" % self.given


async def test_a_feed_skips_nothing_and_waits_for_its_viewer(streams: ConsoleStreams) -> None:
    feed = Counting()
    viewer = streams.open(GUEST, None, feed=feed)
    for _ in range(3):
        await streams.sample()
    assert (feed.given, viewer.take()) == (1, b"data: 1\n\n")
    await streams.sample()
    assert viewer.take() == b"data: 2\n\n"
    feed.quiet = True
    await streams.sample()
    assert (viewer.changed.is_set(), viewer.take()) == (False, b"")


async def test_nothing_is_sampled_without_a_viewer(
    site: Site, streams: ConsoleStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAMPLE_SECONDS", 0)
    viewer = streams.open(GUEST, None, (OVERVIEW,))
    viewer.take()
    async with asyncio.timeout(10):
        await viewer.changed.wait()
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "annulet-console-streams"]
    assert len(tasks) == 1
    streams.close(viewer)
    await asyncio.wait(tasks)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "annulet-console-streams"]
    assert site.broker.stream_figures.streams == 0


async def test_bounds_of_a_user_and_in_all(site: Site, streams: ConsoleStreams) -> None:
    own = [streams.open(GUEST, None, (OVERVIEW,)) for _ in range(CONSOLE_STREAMS_PER_USER_MAX)]
    with pytest.raises(ResourceError) as raised:
        streams.open(GUEST, None, (OVERVIEW,))
    assert (raised.value.status, "user 'guest'" in raised.value.reason) == (429, True)
    streams.close(own[0])
    streams.close(own[0])
    streams.open(GUEST, None, (OVERVIEW,))
    with pytest.raises(ResourceError):
        streams.open(GUEST, None, (OVERVIEW,))
    for number in range(CONSOLE_STREAMS_MAX - CONSOLE_STREAMS_PER_USER_MAX):
        streams.open(User(f"u{number}"), None, (OVERVIEW,))
    with pytest.raises(ResourceError) as raised:
        streams.open(MANAGER, None, (OVERVIEW,))
    assert (raised.value.status, f"there are {CONSOLE_STREAMS_MAX}" in raised.value.reason) == (429, True)
    assert site.broker.stream_figures.streams == CONSOLE_STREAMS_MAX


async def test_it_ends_with_the_session(site: Site, streams: ConsoleStreams) -> None:
    _, session = site.broker.web_sessions.begin(GUEST, "localhost")
    viewer = streams.open(GUEST, session, (OVERVIEW,))
    site.clock.advance(SESSION_IDLE_SECONDS * 1000)
    await streams.sample()  # an open page is a use
    site.clock.advance(SESSION_IDLE_SECONDS * 1000)
    await streams.sample()
    assert not viewer.ended
    site.broker.web_sessions.end(session)
    viewer.take()
    await streams.sample()
    assert viewer.ended == ENDED_BY_SESSION
    assert viewer.take() == b'event: end\ndata: {"reason":"the session has ended"}\n\n'


async def test_it_ends_with_the_rights_of_a_user_without_a_session(site: Site, streams: ConsoleStreams) -> None:
    directory = site.broker.access_directory
    directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))
    viewer = streams.open(User("ann", frozenset({"management"})), None, (OVERVIEW,))
    await streams.sample()
    assert not viewer.ended
    directory.set_user("ann", ["monitoring"])
    await streams.sample()
    assert viewer.ended == ENDED_BY_SESSION


async def test_it_ends_with_the_password_of_a_user_without_a_session(site: Site, streams: ConsoleStreams) -> None:
    directory = site.broker.access_directory
    directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))
    viewer = streams.open(User("ann", frozenset({"management"})), None, (OVERVIEW,))
    await streams.sample()
    assert not viewer.ended
    directory.set_user("ann", ["management"], password_hash=HASHER.hash("b"))
    await streams.sample()
    assert viewer.ended == ENDED_BY_SESSION


async def test_a_withdrawn_virtual_host_is_gone_at_the_next_sample(site: Site, streams: ConsoleStreams) -> None:
    directory = site.broker.access_directory
    directory.set_user("ann", ["management"], password_hash=HASHER.hash("a"))
    site.queue("q")
    topic = Topic("queues", "other")
    viewer = streams.open(MANAGER, None, (topic, QUEUE))
    shown = {snapshot["topic"]: snapshot for snapshot in read(viewer.take())}
    assert ("gone" in shown["queues:other"], "gone" in shown["queue:%2F/q"]) == (False, True)


async def respond(viewer: Viewer, streams: ConsoleStreams, *, samples: int, gone: asyncio.Event) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    await EventStream(streams, viewer, samples)({"type": "http"}, receive, send)
    return sent


async def test_a_peer_that_leaves_is_forgotten(site: Site, streams: ConsoleStreams) -> None:
    viewer, gone = streams.open(GUEST, None, (OVERVIEW,)), asyncio.Event()
    gone.set()
    await respond(viewer, streams, samples=0, gone=gone)
    assert not streams.viewers


async def test_a_stream_of_so_many_samples_ends(site: Site, streams: ConsoleStreams) -> None:
    viewer = streams.open(GUEST, None, (OVERVIEW,))
    sent = await respond(viewer, streams, samples=1, gone=asyncio.Event())
    assert [message.get("more_body") for message in sent] == [None, True, False]
    headers = dict(sent[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert b"content-length" not in headers
    assert not streams.viewers


async def test_a_stop_of_the_broker_ends_streams_over_http() -> None:
    async with testing.broker(users=USERS) as running, httpx.AsyncClient() as client:
        url = f"{running.http_url}/api/v1/console/stream"
        auth = ("guest", "guest")
        async with client.stream("GET", url, params={"topics": "overview"}, auth=auth) as answer:
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith('data: {"topic":"overview"')
            assert running.broker.stream_figures.streams == 1
            stopping = asyncio.create_task(running.broker.stop())
            rest = [line async for line in lines]
            await stopping
        assert rest[-2:] == [f'data: {{"reason":"{ENDED_BY_STOP}"}}', ""]
        assert running.broker.stream_figures.streams == 0


async def test_a_viewer_that_reads_nothing_holds_no_more_than_its_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of a peer that does not read stays in its connection's buffers, and newer snapshots replace older."""
    async with testing.broker(users=USERS) as running:
        host, port = running.http_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        topics = ",".join(f"queue:%2F/{'n' * 200}{number}" for number in range(16))
        basic = httpx.BasicAuth("guest", "guest")
        request = httpx.Request("GET", f"{running.http_url}/api/v1/console/stream", params={"topics": topics})
        header = next(basic.auth_flow(request)).headers["authorization"]
        head = f"GET {request.url.raw_path.decode()} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {header}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"\r\n\r\n")
        streams = next(iter_streams(running))
        (viewer,) = streams.viewers
        for _ in range(10_000):
            await streams.sample()
            if running.broker.stream_figures.skipped:
                break
        assert running.broker.stream_figures.skipped > 0
        assert sum(map(len, viewer.waiting.values())) < 16 * 1024
        forgotten, close = asyncio.Event(), streams.close
        monkeypatch.setattr(streams, "close", lambda viewer: (close(viewer), forgotten.set()))
        writer.transport.abort()
        async with asyncio.timeout(30):
            await forgotten.wait()
        assert not streams.viewers


def iter_streams(running: Any) -> Any:
    """Yield the streams of the services of a broker."""
    for service in running.broker.services:
        if hasattr(service, "streams"):
            yield service.streams


async def test_streams_that_end_at_once_leave_nothing_behind(site: Site, streams: ConsoleStreams) -> None:
    for number in range(20):
        site.queue(f"q{number}")
        streams.close(streams.open(GUEST, None, (Topic("queue", "/", f"q{number}"),)))
    viewer = streams.open(GUEST, None, (Topic("queue", "/", "q0"),))
    assert len(streams._snapshots._before) == 1
    streams.close(viewer)
