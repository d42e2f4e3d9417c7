"""``GET /api/v1/events``: the latest events of the broker, in their order, from a cursor on; also as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.console.streams import EventStream, data
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import DIGITS_MAX, VHOST, Value
from annulet.admin.requests.access import ALL_HOSTS_TAGS, session_of
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.observing.recent_events import EVENTS, EVENTS_MAX, KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.admin.console.streams import ConsoleStreams
    from annulet.admin.interface.call import Call
    from annulet.broker.observing.recent_events import Event
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
"""Events of one answer: 1 MB at most."""


EVENT_ID: Final = "Last-Event-ID"
"""The header with which a browser's ``EventSource`` goes on after a lost connection."""

STREAMED_MAX: Final = 200
"""Events of one part of a stream, 250 KB at most; they are made in one turn of the event loop, in 2 ms."""

KEEP_ALIVE_SAMPLES: Final = 15
"""Samples without an event after which a stream sends its cursor, so that no proxy takes it for dead."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The events that a request asks for; ``None``: of every kind, of every virtual host."""

    kind: str | None
    vhost: str | None

    def filter(self, user: User, hosts: Sequence[VirtualHost]) -> Callable[[Event], bool]:
        """Return a test of events: whether a user that sees these virtual hosts sees one and has asked for it.

        Users with the tag ``management`` only see events of their virtual hosts that name no client but themselves.
        """
        names = {host.name for host in hosts if self.vhost is None or host.name == self.vhost}
        every_client = bool(user.tags & ALL_HOSTS_TAGS)
        every_host = every_client and self.vhost is None and (user.scope is None or not user.scope.virtual_hosts)

        def passes(event: Event) -> bool:
            if self.kind is not None and event.kind != self.kind:
                return False
            if not every_host and event.host not in names:
                return False
            if every_client:
                return True
            named = event.values.get("user")
            return named == user.name or (named is None and "peer" not in event.values)

        return passes


@dataclass(frozen=True, slots=True)
class Part:
    """Some events. ``next``: the cursor for those to come. ``missed``: how many behind the cursor are forgotten."""

    events: list[Event]
    next: int
    missed: int


class EventFeed:
    """The events behind a cursor for one stream; those that it has not taken wait in the memory of all."""

    def __init__(self, user: User, wanted: Wanted, cursor: int) -> None:
        self._user = user
        self._wanted = wanted
        self._cursor = cursor
        self._quiet = KEEP_ALIVE_SAMPLES  # the first frame shows the cursor at once

    def following(self, hosts: Sequence[VirtualHost]) -> bytes:
        """Return a frame for each event; one with the cursor alone at the beginning and after a quiet time."""
        part = _behind(self._cursor, self._wanted.filter(self._user, hosts), STREAMED_MAX)
        self._cursor = part.next
        frames = [b"event: missed\n" + data({"missed": part.missed})] if part.missed else []
        frames += [b"id: %d\n" % event.number + data(_described(event)) for event in part.events]
        if not frames and self._quiet >= KEEP_ALIVE_SAMPLES:
            frames = [b"id: %d\n\n" % self._cursor]
        self._quiet = 0 if frames else self._quiet + 1
        return b"".join(frames)


async def list_events(call: Call) -> Response:
    """Events behind ``since``, the oldest first; without ``since`` the latest.

    ``next`` is the cursor for those to come. ``missed`` counts events behind ``since`` that are forgotten.
    """
    given = call.parameters
    since, limit = given.get("since"), given["limit"]
    passes = Wanted(given.get("kind"), given.get("vhost")).filter(call.user, call.hosts())
    if since is None:
        part = _behind(0, passes, EVENTS_MAX)
        part = Part(part.events[-limit:], part.next, 0)
    else:
        part = _behind(since, passes, limit)
    return json_response(
        {"items": [_described(event) for event in part.events], "next": part.next, "missed": part.missed}
    )


async def stream_events(call: Call) -> Response:
    """Answer events as they happen, for as long as the user may see them."""
    given = call.parameters
    call.hosts()  # refuses a virtual host that the user does not see
    cursor = _cursor_of(call)
    if call.request.method == "HEAD":
        return Response(media_type=EventStream.media_type)
    feed = EventFeed(call.user, Wanted(given.get("kind"), given.get("vhost")), cursor)
    streams: ConsoleStreams = call.request.app.state.streams
    viewer = streams.open(call.user, session_of(call.request), feed=feed)
    return EventStream(streams, viewer, given["samples"])


def _cursor_of(call: Call) -> int:
    """Return the cursor at which a stream begins: of the last event that the client saw, else ``since``, else now."""
    text = call.request.headers.get(EVENT_ID, "")
    if not text:
        since: int | None = call.parameters.get("since")
        return EVENTS.last if since is None else since
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise ResourceError(400, f"header {EVENT_ID}: {text[:100]!r} is no cursor; give the id of an event")
    return int(text)


def _behind(cursor: int, passes: Callable[[Event], bool], limit: int) -> Part:
    """Return the first events behind a cursor that pass."""
    found, missed = EVENTS.after(cursor)
    visible = list(islice(filter(passes, found), limit + 1))
    if len(visible) > limit:
        del visible[limit:]
        return Part(visible, visible[-1].number, missed)
    return Part(visible, found[-1].number if found else cursor, missed)


def _described(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "at": event.at,
        "id": event.id,
        "kind": event.kind,
        "level": event.level,
        "event": event.text,
        "vhost": event.host,
        "values": event.values,
    }


EVENT_SCHEMA: Final = object_of(number=COUNT, at=COUNT, id=TEXT_SCHEMA, kind=TEXT_SCHEMA, event=TEXT_SCHEMA)

KIND: Final = Value("kind", f"one of {', '.join(KIND_NAMES)}", choices=KIND_NAMES)
SEEN_BY: Final = "of other clients and of the broker: the tag monitoring or administrator"

RESOURCES: Final = (
    Resource(
        "events",
        "records",
        (
            Operation(
                "GET",
                "list_events",
                "The latest events of the broker, in their order.",
                list_events,
                parameters=(
                    Value("since", "the cursor of an earlier answer (next), for what came after it", INTEGER),
                    Value("limit", "the most events", INTEGER, 1, LIMIT_MAX, default=LIMIT),
                    KIND,
                    VHOST,
                ),
                answers={
                    200: Answer(
                        "Events, the cursor for those to come, and how many were missed.",
                        object_of(items={"type": "array", "items": EVENT_SCHEMA}, next=COUNT, missed=COUNT),
                    )
                },
                further=SEEN_BY,
            ),
        ),
    ),
    Resource(
        "events/stream",
        "records",
        (
            Operation(
                "GET",
                "stream_events",
                "Events as they happen, as server-sent events.",
                stream_events,
                parameters=(
                    Value("since", "the cursor to begin behind, by default the latest event", INTEGER),
                    KIND,
                    VHOST,
                    Value("samples", "the parts after which the answer ends, 0 for no end", INTEGER, default=0),
                ),
                answers={200: Answer("Events without an end.", None)},
                further=SEEN_BY,
            ),
        ),
    ),
)
