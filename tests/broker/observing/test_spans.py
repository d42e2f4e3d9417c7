"""Trace contexts of messages, and sources of listeners."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.observing.spans import BothEvents, BothSources, HostSpans, SpanBuffer, context_of
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import new_reply_name
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.message.message import Message, Origin
from annulet.core.model.events import QueueEvents
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.core.helpers import RecordingEffects

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def message(context: object) -> Message:
    properties = BasicProperties()
    properties.headers = {"traceparent": context}
    return Message(encode_properties(properties), b"x", Origin("", "q", "", VIEW), accepted_at=1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"00-{TRACE}-{PARENT}-01", (TRACE, PARENT)),
        (f"00-{TRACE}-{PARENT}-ff", (TRACE, PARENT)),
        (f"cc-{TRACE}-{PARENT}-01-later", (TRACE, PARENT)),
        (f"00-{TRACE}-{PARENT}-00", None),
        (f"ff-{TRACE}-{PARENT}-01", None),
        (f"00-{'0' * 32}-{PARENT}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{PARENT}-01", None),
        (f"00-{TRACE}-{PARENT}", None),
        ("", None),
        (7, None),
    ],
)
def test_contexts(text: object, found: tuple[str, str] | None) -> None:
    assert context_of(message(text)) == found


class Told(QueueEvents):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def accepted(self, entry: Any, now: int) -> None:
        self.calls.append("accepted")

    def delivered(self, entry: Any, consumer: Any, now: int) -> None:
        self.calls.append("delivered")

    def returned(self, entry: Any, now: int) -> None:
        self.calls.append("returned")

    def removed(self, entry: Any, reason: Any, now: int) -> None:
        self.calls.append("removed")

    def reprioritised(self, entry: Any, replacement: Any, now: int) -> None:
        self.calls.append("reprioritised")

    def emptied(self, count: int, reason: Any, now: int) -> None:
        self.calls.append("emptied")


class Source:
    def __init__(self, events: QueueEvents | None) -> None:
        self.events = events

    def events_of(self, queue: object) -> QueueEvents | None:
        return self.events


def test_both_listeners_are_told_of_everything() -> None:
    first, second = Told(), Told()
    both = BothSources(Source(first), Source(second)).events_of(None)  # type: ignore[arg-type]
    assert isinstance(both, BothEvents)
    both.accepted(None, 1)
    both.delivered(None, None, 1)
    both.returned(None, 1)
    both.removed(None, RemovalReason.EXPIRED, 1)
    both.reprioritised(None, None, 1)
    both.emptied(2, RemovalReason.PURGED, 1)
    assert first.calls == second.calls
    assert first.calls == ["accepted", "delivered", "returned", "removed", "reprioritised", "emptied"]


def test_one_source_that_wants_nothing_leaves_the_other_alone() -> None:
    told = Told()
    assert BothSources(Source(told), Source(None)).events_of(None) is told  # type: ignore[arg-type]
    assert BothSources(Source(None), Source(told)).events_of(None) is told  # type: ignore[arg-type]
    assert BothSources(Source(None), Source(None)).events_of(None) is None  # type: ignore[arg-type]


def test_reply_queues_have_no_spans_as_their_names_are_secrets() -> None:
    host = VirtualHost("/", RecordingEffects())
    spans = HostSpans(SpanBuffer(), "/")
    named = host.declare_queue("q", durable=False, auto_delete=False, owner=None, arguments={}, now=1)
    reply = host.declare_queue(new_reply_name(), now=1, auto_delete=True, owner=object(), server_named=True)
    assert spans.events_of(named) is not None
    assert spans.events_of(reply) is None
