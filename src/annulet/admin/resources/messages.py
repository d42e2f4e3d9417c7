"""``GET /api/v1/queues/{vhost}/{name}/messages``: the messages in a queue, without removing them."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Need, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, COUNT, SWITCH_SCHEMA, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.bodies import INTEGER
from annulet.admin.requests.responses import json_response
from annulet.broker.connections.payloads import payload_of
from annulet.broker.operation.management import REFUSED_PAUSE_SECONDS
from annulet.core.base.errors import ContentUnavailable
from annulet.core.management import select
from annulet.core.model.compact_messages import entry_in
from annulet.core.model.entry import DELIVERING, PENDING, SCHEDULED, STATE_NAMES
from annulet.core.ordering.lane import lane_of
from annulet.core.queue.deep_queue_scan import scan_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.core.management import Selection
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

LIMIT: Final = 50
"""Messages of an answer when the request does not say."""

LIMIT_MAX: Final = 500

BODY_BYTES_MAX: Final = 4096
"""Most bytes of each body: 2 MiB in all. To get bodies, consume or browse."""

SLICE: Final = 200
"""Messages examined before other tasks get a turn."""

LOOKS_MAX: Final = 100_000
"""Messages a selector is tried on, a second or so; then the answer is not complete."""

WAITS_MAX: Final = 20
"""Times the disk may refuse the next messages, with 50 ms between; then the answer is not complete."""

STATES: Final = {STATE_NAMES[state]: state for state in (PENDING, SCHEDULED, DELIVERING)}


async def list_messages(call: Call) -> Response:
    """The first messages: pending in order of dispatch, then scheduled by time, then in delivery by id.

    A body that cannot be read is null, and ``body_unavailable`` has the reason. ``complete`` is false when there may be
    more.
    """
    queue, given = call.queue_to_read(), call.parameters
    state, text = given.get("state", ""), given.get("selector", "")
    selection = select(selector=text, everything=not text)
    sample = Sample(queue, selection, STATES.get(state), given["limit"], given["body_bytes"])
    taken = False
    try:
        while not taken:
            taken = sample.step(call.now)
            await asyncio.sleep(REFUSED_PAUSE_SECONDS if sample.waits else 0)
    finally:
        sample.release()
    return json_response(
        {
            "items": sample.items,
            "looked": sample.looked,
            "unreadable": sample.unreadable,
            "complete": sample.complete,
        }
    )


class Sample:
    """Describes the first messages of a queue that a selection means, in slices. Call :meth:`step` until it is true.

    A message is described when it is reached, in its present state; examined messages are not kept in memory.
    """

    def __init__(self, queue: Queue, selection: Selection, state: int | None, limit: int, body_bytes: int = 0) -> None:
        self.items: list[dict[str, Any]] = []
        self.looked = 0
        self.unreadable = 0  # messages whose records are damaged, or whose properties the selector could not read
        self.complete = False  # all messages have been examined
        self.waits = 0  # times in a row that the disk did not give the next messages
        self._selection = selection
        self._limit = limit
        self._body_bytes = body_bytes
        self._scan = scan_of(
            queue,
            pending=state in {None, PENDING},
            scheduled=state in {None, SCHEDULED},
            chosen=None,
            reader="a look at its messages",
        )
        delivering = queue.delivering.slots() if state in {None, DELIVERING} else []
        self._delivering = map(entry_in, delivering)  # of very many folded ones no more are made again than are shown
        self._shown: set[int] = set()

    def step(self, now: int) -> bool:
        """Examine one slice. Returns whether the sample is complete; a refusing disk ends it."""
        if not self._scan.prepare(SLICE):
            self.waits += self._scan.waiting
            return self.waits > WAITS_MAX
        self.waits = 0
        self.unreadable += len(self._scan.damaged)
        self._scan.damaged.clear()
        self._selection.begin_slice()
        for _ in range(SLICE):
            if self._selection.used_up:
                return False
            if len(self.items) >= self._limit or self.looked >= LOOKS_MAX:
                return True
            if self._scan.used_up:
                return False
            entry = self._scan.following() or next(self._delivering, None)
            if entry is None:
                self.complete = True
                return True
            self.looked += 1
            own = self._scan.own(entry)
            if own is None or own.state not in STATES.values() or 0 < own.queue.expires_at(own) <= now:
                continue
            if self._judge(own):
                return False
        return False

    def release(self) -> None:
        """Stop and release the references to the queue, whose messages may leave memory; the sample stays."""
        self._scan.release()

    def _judge(self, entry: QueueEntry) -> bool:
        """Describe an entry if it is meant. Returns whether all of its body had to be read for that: enough a turn."""
        if entry.sequence in self._shown:  # it was pending, and is in delivery now
            return False
        try:
            meant = self._selection.matches(entry)
        except Exception:  # noqa: BLE001 - views raise errors of rooms this one does not know; they are counted
            self.unreadable += 1
            return False
        if not meant:
            return False
        self._shown.add(entry.sequence)
        self.items.append(describe_entry(entry, self._body_bytes))
        return self._body_bytes > 0 and entry.message.absent


def describe_entry(entry: QueueEntry, body_bytes: int = 0) -> dict[str, Any]:
    """Return a message's JSON. Times are milliseconds since 1970, 0 for none; ``size`` is bytes of the body."""
    message = entry.message
    lane = lane_of(entry)
    group = None if lane is None else lane.group
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
        "deliver_at": entry.queue.due_at(entry),
        "delivery_count": entry.delivery_count,
        "redelivered": entry.redelivered,
        "consumer": "" if entry.consumer is None else entry.consumer.tag,
    }
    if body_bytes:
        try:
            payload = payload_of(message)
            body = message.body if payload is None else payload[0]
        except ContentUnavailable as error:
            described["body"] = None
            described["body_complete"] = False
            described["body_unavailable"] = str(error)
            return described
        described["body"] = base64.b64encode(body[:body_bytes]).decode("ascii")
        described["body_complete"] = len(body) <= body_bytes
    return described


PARAMETERS: Final = (
    Value("selector", "a selector, for the messages that match it"),
    Value("state", "a state of messages", choices=tuple(STATES)),
    Value("limit", "the most messages of an answer", INTEGER, 1, LIMIT_MAX, LIMIT),
    Value("body_bytes", "the leading bytes of each body, in base64", INTEGER, 0, BODY_BYTES_MAX, 0),
)
MESSAGES_SCHEMA: Final = object_of(
    items={"type": "array", "items": ANY_OBJECT}, looked=COUNT, unreadable=COUNT, complete=SWITCH_SCHEMA
)

RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/messages",
        "messages",
        (
            Operation(
                "GET",
                "list_messages",
                "The first messages of a queue, without removing them.",
                list_messages,
                needs=(Need("read", "queue"),),
                parameters=PARAMETERS,
                answers={200: Answer("The messages.", MESSAGES_SCHEMA)},
            ),
        ),
    ),
)
