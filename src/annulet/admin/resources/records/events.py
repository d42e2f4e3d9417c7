"""``GET /api/v1/events``: the latest events of the broker, in their order, from a cursor on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import VHOST, Value
from annulet.admin.requests.access import ALL_HOSTS_TAGS
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.responses import json_response
from annulet.broker.observing.recent_events import EVENTS, KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.observing.recent_events import Event

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
"""Events of one answer: 1 MB at most."""


async def list_events(call: Call) -> Response:
    """Events behind ``since``, the oldest first; without ``since`` the latest.

    ``next`` is the cursor for those to come. ``missed`` counts events behind ``since`` that are forgotten.
    """
    given = call.parameters
    since, limit = given.get("since"), given["limit"]
    found, missed = EVENTS.after(0 if since is None else since)
    passes = _filter(call)
    visible = [event for event in found if passes(event)]
    if since is None:
        chosen, missed = visible[-limit:], 0
    else:
        chosen = visible[:limit]
    all_sent = since is None or len(chosen) == len(visible)
    latest = found[-1].number if found else max(EVENTS.last, since or 0)
    return json_response(
        {
            "items": [_described(event) for event in chosen],
            "next": latest if all_sent else chosen[-1].number,
            "missed": missed,
        }
    )


def _filter(call: Call) -> Callable[[Event], bool]:
    """Return whether the user sees an event, and has asked for it.

    Users with the tag ``management`` only see events of their virtual hosts that name no client but themselves.
    """
    given, user = call.parameters, call.user
    hosts, kind, only = {host.name for host in call.hosts()}, given.get("kind"), given.get("vhost")
    sees_all = bool(user.tags & ALL_HOSTS_TAGS)

    def passes(event: Event) -> bool:
        if kind is not None and event.kind != kind:
            return False
        if (only is not None or not sees_all) and event.host not in hosts:
            return False
        if sees_all:
            return True
        named = event.values.get("user")
        return named == user.name or (named is None and "peer" not in event.values)

    return passes


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
                    Value("kind", f"one of {', '.join(KIND_NAMES)}", choices=KIND_NAMES),
                    VHOST,
                ),
                answers={
                    200: Answer(
                        "Events, the cursor for those to come, and how many were missed.",
                        object_of(items={"type": "array", "items": EVENT_SCHEMA}, next=COUNT, missed=COUNT),
                    )
                },
                further="of other clients and of the broker: the tag monitoring or administrator",
            ),
        ),
    ),
)
