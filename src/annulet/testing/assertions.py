"""Assertions about queues that explain themselves: a failure shows what did happen, in order."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import DELIVERING, PENDING, SCHEDULED, sequence_of
from annulet.testing.journal import PUBLISHED, Journal, JournalEvent
from annulet.testing.seen import SeenMessage, seen, seen_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.testing.kit_broker import KitBroker

ANY: Final = object()
"""The argument that asks nothing."""

EVENTS_SHOWN: Final = 50
"""Events in the text of a failure, the latest: a screenful. The count of the others is told."""


class Assertions:
    """Questions about the queues of one virtual host. They do not settle: their callers do."""

    def __init__(self, broker: KitBroker, vhost: str = "/") -> None:
        self._broker = broker
        self._vhost = vhost

    # ------------------------------------------------------------------ questions

    def messages(self, queue: str) -> list[SeenMessage]:
        """Return the messages in a queue, by number: waiting, scheduled and in delivery."""
        found = self._queue(queue)
        entries = [*found.browse(), *found.schedule.entries()]
        states = (PENDING, SCHEDULED, DELIVERING)
        entries.sort(key=sequence_of)
        return [seen_entry(queue, entry) for entry in entries if entry.state in states]

    def published(self, queue: str) -> list[SeenMessage]:
        """Return all messages that a queue ever accepted, in order, also those that have left."""
        return [
            seen(queue, event.sequence, event.message)
            for event in self._journal().published(queue, self._vhost)
            if event.message is not None
        ]

    def require_published(
        self,
        queue: str,
        *,
        count: int | None = None,
        header: Mapping[str, Any] | None = None,
        body: bytes | str | None = None,
        json: Any = ANY,
    ) -> list[SeenMessage]:
        """Return the messages that a queue accepted and that fit. Raises ``AssertionError`` for another number.

        Args:
            queue: the queue; messages that have left it count.
            count: how many have to fit; at least one without it.
            header: headers that they have, with their values, among others.
            body: the whole body.
            json: the value of the body.
        """
        self._queue_or_events(queue)
        conditions = _conditions(header, body, json)
        fitting = [one for one in self.published(queue) if all(fits(one) for _, fits in conditions)]
        if (not fitting) if count is None else (len(fitting) != count):
            wanted = "at least 1" if count is None else str(count)
            asked = "".join(f" with {text}" for text, _ in conditions)
            raise AssertionError(
                f"queue {queue!r} accepted {len(fitting)} messages{asked}, wanted {wanted}\n{self._account(queue)}"
            )
        return fitting

    def require_none(self, queue: str) -> None:
        """Raise ``AssertionError`` if the queue ever accepted a message."""
        self._queue_or_events(queue)
        if self._journal().published(queue, self._vhost):
            raise AssertionError(f"queue {queue!r} accepted messages, wanted none\n{self._account(queue)}")

    def require_settled(self, queue: str | None = None) -> None:
        """Raise ``AssertionError`` if a message waits, is in delivery, or left without an acknowledgement.

        ``queue`` of ``None``: in any queue of the virtual host.
        """
        names = sorted(self._host().queues) if queue is None else [queue]
        for name in names:
            unsettled = self.messages(name) if name in self._host().queues else []
            lost = [event for event in self._journal().events(name, self._vhost) if event.kind in _LOST]
            if unsettled or lost:
                states = ", ".join(f"#{one.number} {one.state}" for one in unsettled)
                losses = ", ".join(f"#{event.sequence} {event.kind}" for event in lost)
                raise AssertionError(
                    f"queue {name!r} has messages that were not acknowledged: "
                    f"{', '.join(text for text in (states, losses) if text)}\n{self._account(name)}"
                )

    def is_done(self, queue: str) -> bool:
        """Return whether a queue accepted messages and all have left it."""
        return bool(self._journal().published(queue, self._vhost)) and not self.messages(queue)

    def require_done(self, queue: str) -> None:
        """Raise ``AssertionError`` if that is not so."""
        if not self.is_done(queue):
            raise AssertionError(f"queue {queue!r} is not worked off\n{self._account(queue)}")

    def story(self, message: SeenMessage | bytes | str) -> str:
        """Return what happened to a message in all queues, one line an event.

        ``message`` is a message, a body or a message id. Copies that the broker sent on, as dead letters, belong to it.
        """
        events = [one for one in self._journal().events() if one.message is not None and _is(one.message, message)]
        if not events:
            raise LookupError(f"no queue accepted a message with this body or id: {message!r}\n{self._account(None)}")
        return "\n".join(self._lines(events))

    def history(self, queue: str | None = None) -> str:
        """Return all events of a queue, or of all queues, one line each."""
        return "\n".join(self._lines(self._journal().events(queue, self._vhost)))

    # ------------------------------------------------------------------ texts

    def _account(self, queue: str | None) -> str:
        events = list(self._journal().events(queue, self._vhost))
        hidden = len(events) - EVENTS_SHOWN
        lines = ["what happened, in order:"]
        if self._journal().dropped:
            lines.append(f"  ({self._journal().dropped} events before are forgotten)")
        if hidden > 0:
            lines.append(f"  ({hidden} events before; history() has them)")
        lines += [f"  {line}" for line in self._lines(events[-EVENTS_SHOWN:])]
        if not events:
            lines.append("  nothing reached this queue" if queue else "  no message reached any queue")
        others = sorted({event.queue for event in self._journal().events() if event.kind == PUBLISHED} - {queue})
        if others and queue is not None:
            lines.append(f"queues that accepted messages: {', '.join(others)}")
        if self._broker.unroutable:
            lines.append(f"publishes that reached no queue: {self._broker.unroutable}")
        return "\n".join(lines)

    def _lines(self, events: Iterable[JournalEvent]) -> list[str]:
        began = self._broker.started_at
        return [_line(event, began) for event in events]

    # ------------------------------------------------------------------ where things are

    def _host(self) -> VirtualHost:
        host = self._broker.hosts.get(self._vhost)
        if host is None:
            raise LookupError(f"no virtual host {self._vhost!r}; there are {', '.join(sorted(self._broker.hosts))}")
        return host

    def _queue(self, name: str) -> Queue:
        found = self._host().queues.get(name)
        if found is None:
            raise LookupError(f"no queue {name!r}{_nearest(name, self._host().queues)}")
        return found

    def _queue_or_events(self, name: str) -> None:
        """Refuse a name that no queue has or had: a test of a wrong name would prove nothing."""
        if name not in self._host().queues and not any(True for _ in self._journal().events(name, self._vhost)):
            self._queue(name)

    def _journal(self) -> Journal:
        if self._broker.journal is None:
            raise LookupError("this broker notes nothing, journal=False; start it without this argument")
        return self._broker.journal


_LOST: Final = frozenset(reason.value for reason in RemovalReason if reason is not RemovalReason.ACKNOWLEDGED)
"""Kinds of events after which a message was never acknowledged."""


def _conditions(
    header: Mapping[str, Any] | None, body: bytes | str | None, json: Any
) -> list[tuple[str, Callable[[SeenMessage], bool]]]:
    """Return what a message has to fulfil, each with its text."""
    conditions: list[tuple[str, Callable[[SeenMessage], bool]]] = []
    if header is not None:
        conditions.append((f"header {dict(header)!r}", lambda one: _has(one, header)))
    if body is not None:
        octets = body.encode() if isinstance(body, str) else body
        conditions.append((f"body {octets!r}", lambda one: one.body == octets))
    if json is not ANY:
        conditions.append((f"json {json!r}", lambda one: _json_is(one, json)))
    return conditions


def _has(one: SeenMessage, header: Mapping[str, Any]) -> bool:
    return all(name in one.headers and one.headers[name] == value for name, value in header.items())


def _json_is(one: SeenMessage, value: Any) -> bool:
    try:
        return bool(one.json == value)
    except ValueError:
        return False


def _is(message: Message, wanted: SeenMessage | bytes | str) -> bool:
    """Return whether a message is the wanted one, or a copy of it that the broker sent on."""
    if isinstance(wanted, SeenMessage):
        if message is wanted.message:
            return True
        one = seen("", 0, message)
        return bool(wanted.message_id == one.message_id if wanted.message_id else wanted.body == one.body)
    one = seen("", 0, message)
    if isinstance(wanted, str):
        return wanted == one.message_id or one.body == wanted.encode()
    return one.body == wanted


def _line(event: JournalEvent, began: int) -> str:
    """Return an event in one line, with its time since the start of the broker."""
    what = event.queue if event.message is None else seen(event.queue, event.sequence, event.message).line()
    seconds = (event.at - began) / 1000
    return f"{seconds:+10.3f} s  {event.kind:13} {what}{f'  {event.detail}' if event.detail else ''}"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; there are {', '.join(names)}" if names else "; there is none yet, declare it first"
