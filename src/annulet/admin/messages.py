"""``GET /api/v1/queues/{vhost}/{name}/messages``: what is in a queue, without taking it."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.access import broker_of, require_permission, require_user
from annulet.admin.parameters import read_integer, read_parameters
from annulet.admin.queues import chosen_queue
from annulet.admin.responses import ResourceError, json_response
from annulet.broker.configuration import nearest_name
from annulet.broker.payloads import payload_of
from annulet.core.entry import DELIVERING, PENDING, SCHEDULED, STATE_NAMES
from annulet.core.management import select
from annulet.core.management.scan import Scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.core.entry import QueueEntry
    from annulet.core.management import Selection
    from annulet.core.queue import Queue

LIMIT: Final = 50
"""Messages of an answer when the request does not say."""

LIMIT_MAX: Final = 500

BODY_BYTES_MAX: Final = 4096
"""Of each body, at most: 2 MiB in all. Whoever wants bodies consumes or browses."""

SLICE: Final = 200
"""Messages looked at before other tasks get a turn."""

LOOKS_MAX: Final = 100_000
"""Messages a selector is tried on, a second or so; then the answer is not complete."""

STATES: Final = {STATE_NAMES[state]: state for state in (PENDING, SCHEDULED, DELIVERING)}


async def list_messages(request: Request) -> Response:
    """The first messages: pending in order of dispatch, then scheduled by time, then in delivery by id.

    Parameters: ``selector``, ``state``, ``limit`` (1 to 500), ``body_bytes`` (the first so many of each body, 0 to
    4096, in base64). ``complete`` is false when there may be more. Needs permission to read the queue.
    """
    user = await require_user(request)
    parameters = read_parameters(request, ("selector", "state", "limit", "body_bytes"))
    limit = read_integer(parameters, "limit", LIMIT, 1, LIMIT_MAX)
    body_bytes = read_integer(parameters, "body_bytes", 0, 0, BODY_BYTES_MAX)
    state = parameters.get("state", "")
    if state and state not in STATES:
        raise ResourceError(400, f"unknown state {state!r}{nearest_name(state, STATES)}")
    host, queue = chosen_queue(request, user)
    require_permission(request, user, host, "read", queue.name)
    text = parameters.get("selector", "")
    selection = select(selector=text, everything=not text)
    sample = Sample(queue, selection, STATES.get(state), limit)
    taken = False
    while not taken:
        taken = sample.step(broker_of(request).clock())
        await asyncio.sleep(0)
    items = []
    for entry in sample.found:
        if entry.state in STATES.values():
            items.append(describe_entry(entry, body_bytes))
            if body_bytes and entry.message.absent:  # it was read, all of it
                await asyncio.sleep(0)
    return json_response(
        {
            "items": items,
            "looked": sample.looked,
            "unreadable": sample.unreadable,
            "complete": sample.complete,
        }
    )


class Sample:
    """Collects the first messages of a queue that a selection means, in slices. Call :meth:`step` until it is true."""

    def __init__(self, queue: Queue, selection: Selection, state: int | None, limit: int) -> None:
        self.found: list[QueueEntry] = []
        self.looked = 0
        self.unreadable = 0  # messages whose properties the selector could not read
        self.complete = False  # all there was has been looked at
        self._selection = selection
        self._limit = limit
        self._scan = Scan(
            queue,
            pending=state in {None, PENDING},
            scheduled=state in {None, SCHEDULED},
            leading=limit if selection.selector is None else LOOKS_MAX,
        )
        delivering = queue.delivering if state in {None, DELIVERING} else ()
        self._delivering: Iterator[QueueEntry] = iter(sorted(delivering, key=lambda entry: entry.sequence))

    def step(self, now: int) -> bool:
        """Look at one slice. Returns whether the sample is taken."""
        if not self._scan.prepare(SLICE):
            return False
        for _ in range(SLICE):
            if len(self.found) >= self._limit or self.looked >= LOOKS_MAX:
                return True
            entry = self._scan.following() or next(self._delivering, None)
            if entry is None:
                self.complete = self._scan.whole
                return True
            self.looked += 1
            if entry.state in STATES.values() and not 0 < entry.queue.expires_at(entry) <= now:
                self._judge(entry)
        return False

    def _judge(self, entry: QueueEntry) -> None:
        try:
            meant = self._selection.matches(entry)
        except Exception:  # noqa: BLE001 - views raise errors of rooms this one does not know; they are counted
            self.unreadable += 1
            return
        if meant:
            self.found.append(entry)


def describe_entry(entry: QueueEntry, body_bytes: int = 0) -> dict[str, Any]:
    """Return a message's JSON. Times are milliseconds since 1970, 0 for none; ``size`` is bytes of the body."""
    message = entry.message
    group = None if entry.lane is None else entry.lane.group
    described: dict[str, Any] = {
        "id": entry.sequence,
        "state": STATE_NAMES[entry.state],
        "size": message.size,
        "priority": message.priority,
        "durable": message.durable,
        "key": "" if entry.key is None else entry.key.text,
        "group": "" if group is None else group.name,
        "exchange": message.origin.exchange,
        "routing_key": message.origin.routing_key,
        "publisher": message.origin.publisher,
        "protocol": message.origin.view.name,
        "accepted_at": message.accepted_at,
        "expires_at": entry.queue.expires_at(entry),
        "deliver_at": entry.queue.schedule.at(entry),
        "delivery_count": entry.delivery_count,
        "redelivered": entry.redelivered,
        "consumer": "" if entry.consumer is None else entry.consumer.tag,
    }
    if body_bytes:
        payload = payload_of(message)
        body = message.body if payload is None else payload[0]
        described["body"] = base64.b64encode(body[:body_bytes]).decode("ascii")
        described["body_complete"] = len(body) <= body_bytes
    return described
