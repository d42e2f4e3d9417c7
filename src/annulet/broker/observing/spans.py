"""Spans of messages that carry a trace context (W3C ``traceparent`` in a header), until a collector gets them.

A queue notes an arrival and a delivery of such a message; the context's sampled flag decides. Notes are bounded: those
that find no room are counted and dropped. Without a collector queues have no listener for spans.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from annulet.core.base.reply_names import is_reply_name
from annulet.core.model.events import QueueEvents

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState

SPANS_WAITING_MAX: Final = 10_000
"""Notes that wait for the collector, 5 MB: twenty seconds of a collector that takes 512 a second."""

HEADER: Final = "traceparent"

PUBLISH: Final = "publish"
DELIVER: Final = "deliver"

_CONTEXT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


class SpanNote(msgspec.Struct, frozen=True):
    """One span. Times are milliseconds since 1970; trace and parent are hexadecimal."""

    kind: str
    virtual_host: str
    queue: str
    sequence: int
    size: int
    trace: str
    parent: str
    began: int
    ended: int
    consumer: str = ""


class SpanBuffer:
    """The notes that wait. ``dropped``: those that found no room."""

    def __init__(self) -> None:
        self.dropped = 0
        self._notes: deque[SpanNote] = deque()

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, note: SpanNote) -> None:
        """Add a note, or count it as dropped."""
        if len(self._notes) < SPANS_WAITING_MAX:
            self._notes.append(note)
        else:
            self.dropped += 1

    def take(self, count: int) -> list[SpanNote]:
        """Return the oldest notes, and forget them."""
        return [self._notes.popleft() for _ in range(min(count, len(self._notes)))]


class PushCounters:
    """Failures of pushes to the collector since the start."""

    def __init__(self) -> None:
        self.failed = 0  # requests that the collector did not take
        self.lost = 0  # spans of these


class HostSpans:
    """Gives each queue of a virtual host its listener."""

    def __init__(self, buffer: SpanBuffer, virtual_host: str) -> None:
        self._buffer = buffer
        self._host = virtual_host

    def events_of(self, queue: QueueState) -> QueueEvents | None:
        """Return the listener of a queue; none of reply queues, whose names are secrets."""
        return None if is_reply_name(queue.name) else QueueSpans(self._buffer, self._host, queue.name)


class QueueSpans(QueueEvents):
    """Notes spans of one queue."""

    def __init__(self, buffer: SpanBuffer, virtual_host: str, queue: str) -> None:
        self._buffer = buffer
        self._host = virtual_host
        self._queue = queue

    def accepted(self, entry: QueueEntry, now: int) -> None:
        """Note the arrival, which takes no time."""
        self._note(PUBLISH, entry, now, now, "")

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        """Note the time from the arrival to the delivery."""
        name = "" if consumer is None else f"{consumer.session.name} {consumer.tag}"
        self._note(DELIVER, entry, entry.message.accepted_at, now, name)

    def _note(self, kind: str, entry: QueueEntry, began: int, ended: int, consumer: str) -> None:
        message = entry.message
        context = context_of(message)
        if context is not None:
            trace, parent = context
            self._buffer.add(
                SpanNote(
                    kind, self._host, self._queue, entry.sequence, message.size, trace, parent, began, ended, consumer
                )
            )


def context_of(message: Message) -> tuple[str, str] | None:
    """Return trace and parent of a message whose trace is sampled."""
    text = message.origin.view.application_property(message, HEADER)
    match = _CONTEXT.fullmatch(text) if isinstance(text, str) else None
    return (match[1], match[2]) if match is not None and int(match[3], 16) & 1 else None


class Source(Protocol):
    """Gives queues their listeners."""

    def events_of(self, queue: QueueState, /) -> QueueEvents | None:
        """Return the listener of a queue, ``None`` if its events are not wanted."""


class BothSources:
    """Two sources of listeners, where both were asked for."""

    def __init__(self, first: Source, second: Source) -> None:
        self._sources = (first, second)

    def events_of(self, queue: QueueState) -> QueueEvents | None:
        """Return the listener of the one, of the other, or of both."""
        first, second = [source.events_of(queue) for source in self._sources]
        return BothEvents(first, second) if first is not None and second is not None else first or second


class BothEvents(QueueEvents):
    """Tells two listeners."""

    def __init__(self, first: QueueEvents, second: QueueEvents) -> None:
        self._listeners = (first, second)

    def accepted(self, entry: QueueEntry, now: int) -> None:
        """Tell both."""
        for listener in self._listeners:
            listener.accepted(entry, now)

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        """Tell both."""
        for listener in self._listeners:
            listener.delivered(entry, consumer, now)

    def returned(self, entry: QueueEntry, now: int) -> None:
        """Tell both."""
        for listener in self._listeners:
            listener.returned(entry, now)

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        """Tell both."""
        for listener in self._listeners:
            listener.removed(entry, reason, now)

    def reprioritised(self, entry: QueueEntry, replacement: QueueEntry, now: int) -> None:
        """Tell both."""
        for listener in self._listeners:
            listener.reprioritised(entry, replacement, now)

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        """Tell both."""
        for listener in self._listeners:
            listener.emptied(count, reason, now)
