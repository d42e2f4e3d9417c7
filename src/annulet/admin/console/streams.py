"""Streams of figures for open pages: one sample a second for all viewers of a topic, encoded once.

Nothing is sampled without a viewer. A viewer that does not read gets the newest snapshot when it reads again, the ones
between are skipped; the HTTP connection ends it after ``http_answer_seconds`` (:mod:`..listening.http_connection`).
A viewer may have a feed in place of topics, of which nothing is skipped: it is asked for more when all was taken.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from starlette.responses import Response

from annulet.admin.console.snapshots import Snapshots
from annulet.admin.requests.access import hosts_of
from annulet.admin.requests.responses import ResourceError
from annulet.broker.observing.stream_figures import CONSOLE_STREAMS_MAX, CONSOLE_STREAMS_PER_USER_MAX, SAMPLE_SECONDS
from annulet.broker.turns.list_turns import Turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope, Send

    from annulet.admin.console.topics import Topic
    from annulet.broker.broker import Broker
    from annulet.broker.security.authentication import User
    from annulet.broker.security.web_sessions import WebSession
    from annulet.core.host.virtual_host import VirtualHost

ENDED_BY_SESSION: Final = "the session has ended"
ENDED_BY_STOP: Final = "the broker stops"


class Feed(Protocol):
    """Events for one viewer."""

    def following(self, hosts: Sequence[VirtualHost]) -> bytes:
        """Return frames of the next events, for a user that sees these virtual hosts; empty for none."""


class Viewer:
    """One stream. ``waiting``: frames that its peer has not taken, the newest of each topic, and those of its feed.

    ``mark``: of the user's login, which a stream without a session ends with.
    """

    def __init__(
        self, user: User, mark: bytes, session: WebSession | None, topics: tuple[Topic, ...], feed: Feed | None = None
    ) -> None:
        self.user = user
        self.mark = mark
        self.session = session
        self.topics = topics
        self.feed = feed
        self.waiting: dict[Topic | Feed, bytes] = {}
        self.ended = ""
        self.changed = asyncio.Event()

    def follow(self, hosts: Sequence[VirtualHost]) -> None:
        """Give it the next events of its feed, if it has one and has taken those before."""
        if self.feed is not None and self.feed not in self.waiting and (frames := self.feed.following(hosts)):
            self.show(self.feed, frames)

    def show(self, topic: Topic | Feed, frame: bytes) -> bool:
        """Give it a snapshot. Returns whether one that was not taken yet made room."""
        skipped = topic in self.waiting
        self.waiting[topic] = frame
        self.changed.set()
        return skipped

    def end(self, reason: str) -> None:
        """Let the stream end, with a reason for the page."""
        self.ended = reason
        self.changed.set()

    def take(self) -> bytes:
        """Return what the peer may have now."""
        self.changed.clear()
        frames = b"".join(self.waiting.values())
        self.waiting.clear()
        if self.ended:
            frames += b"event: end\n" + data({"reason": self.ended})
        return frames


class ConsoleStreams:
    """The streams of one application. Belongs to the event loop."""

    def __init__(self, broker: Broker) -> None:
        self.viewers: dict[Viewer, None] = {}
        self._broker = broker
        self._by_user: Counter[str] = Counter()
        self._snapshots = Snapshots(broker)
        self._task: asyncio.Task[None] | None = None

    def open(
        self, user: User, session: WebSession | None, topics: tuple[Topic, ...] = (), feed: Feed | None = None
    ) -> Viewer:
        """Add a viewer; 429 at a bound. The first snapshots and events come at once."""
        if len(self.viewers) >= CONSOLE_STREAMS_MAX:
            raise ResourceError(429, f"there are {CONSOLE_STREAMS_MAX} streams, which is the limit; close some pages")
        if self._by_user[user.name] >= CONSOLE_STREAMS_PER_USER_MAX:
            raise ResourceError(
                429, f"user {user.name!r} has {CONSOLE_STREAMS_PER_USER_MAX} streams, which is the limit; close pages"
            )
        viewer = Viewer(user, self._broker.authenticator.login_mark(user), session, topics, feed)
        self.viewers[viewer] = None
        self._by_user[user.name] += 1
        self._note_open()
        hosts = hosts_of(self._broker, user)
        for topic in topics:
            viewer.show(topic, data(self._snapshots.of(topic, hosts)))
        viewer.follow(hosts)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="annulet-console-streams")
        return viewer

    def close(self, viewer: Viewer) -> None:
        """Forget a viewer whose stream has ended. Doing so again is harmless."""
        if viewer not in self.viewers:
            return
        del self.viewers[viewer]
        self._by_user[viewer.user.name] -= 1
        if not self._by_user[viewer.user.name]:
            del self._by_user[viewer.user.name]
        self._note_open()
        if not self.viewers and self._task is not None:
            self._task.cancel()
            self._task = None
            self._snapshots.keep(set())  # no sample does, and streams of an instant may name any number of queues

    def stop(self) -> None:
        """End all streams: a stop of the broker does not wait for pages."""
        for viewer in self.viewers:
            viewer.end(ENDED_BY_STOP)

    async def sample(self) -> None:
        """Give each viewer the snapshots of its topics; other tasks get turns of the loop in between."""
        turns = Turns()
        frames: dict[tuple[Topic, tuple[str, ...]], bytes] = {}
        seen: dict[User, list[VirtualHost]] = {}
        self._snapshots.keep({topic for viewer in self.viewers for topic in viewer.topics})
        for viewer in list(self.viewers):
            if viewer.ended or viewer not in self.viewers:
                continue
            if not self._may_stay(viewer):
                viewer.end(ENDED_BY_SESSION)
                continue
            hosts = seen.get(viewer.user)
            if hosts is None:
                hosts = seen[viewer.user] = hosts_of(self._broker, viewer.user)
            for topic in viewer.topics:
                frame = self._frame(topic, hosts, frames)
                self._broker.stream_figures.skipped += viewer.show(topic, frame)
                await turns.look()
            viewer.follow(hosts)
            await turns.look()

    def _frame(
        self, topic: Topic, hosts: list[VirtualHost], frames: dict[tuple[Topic, tuple[str, ...]], bytes]
    ) -> bytes:
        """Return a snapshot that is encoded once for all viewers that see the same virtual hosts of it."""
        key = topic, tuple([host.name for host in hosts if topic.vhost in {"", host.name}])
        frame = frames.get(key)
        if frame is None:
            frame = frames[key] = data(self._snapshots.of(topic, hosts))
            self._broker.stream_figures.sampled += 1
        return frame

    def _may_stay(self, viewer: Viewer) -> bool:
        if viewer.session is not None:
            return self._broker.web_sessions.use(viewer.session)
        return self._broker.authenticator.holds(viewer.user, viewer.mark)

    def _note_open(self) -> None:
        self._broker.stream_figures.streams = len(self.viewers)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            await self.sample()


class EventStream(Response):
    """The answer of a stream: server-sent events until the peer is gone, the stream is ended, or so many samples were
    sent; 0 for no end."""

    media_type = "text/event-stream"

    def __init__(self, streams: ConsoleStreams, viewer: Viewer, samples: int) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self._viewer = viewer
        self._samples = samples

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the end; the viewer is forgotten then."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._streams.close(self._viewer)
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sent = 0
        while not (self._samples and sent == self._samples):
            await self._viewer.changed.wait()
            ended = bool(self._viewer.ended)
            await send({"type": "http.response.body", "body": self._viewer.take(), "more_body": True})
            if ended:
                break
            sent += 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def data(content: object) -> bytes:
    """Return the data of a frame and its end; JSON has no line breaks."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"
