"""Messages of one protocol made into messages of another, and what is remembered of that."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from annulet.broker.connections import views
from annulet.broker.connections.views import (
    CONVERTED_BYTES_MAX,
    VIEWS,
    ConversionError,
    Conversions,
    converted,
    may_ask_for,
)
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.message.neutral_content import MessageContent
from annulet.store.segments.index_filling import GIVES_PRIORITY, HAS_DUPLICATE_ID, SETS_TIME
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp091.messages.properties import decode_properties
from annulet.wire.amqp10.messages.conversion import from_content
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.stomp.view import VIEW as STOMP


def message(body: bytes = b"body", **fields: Any) -> Message:
    content = MessageContent()
    content.body = body
    for name, value in fields.items():
        setattr(content, name, value)
    header, stored = from_content(content)
    origin = Origin("e", "k", "guest@peer", AMQP_1_0, object())
    made = Message(header, stored, origin, durable=True, priority=7, accepted_at=1000, expires_at=5000, deliver_at=2000)
    made.record = 9
    return made


def test_every_protocol_is_known_by_the_name_the_log_stores() -> None:
    assert VIEWS == {"amqp-0-9-1": AMQP_0_9_1, "amqp-1.0": AMQP_1_0, "stomp": STOMP}


@pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
def test_a_message_of_the_same_protocol_is_itself(view: ContentView) -> None:
    conversions = Conversions()
    same = Message(b"", b"", Origin("", "", "", view))
    assert conversions.message_for(same, view) is same
    assert conversions.conversions == 0


def test_what_the_core_knows_of_a_message_stays() -> None:
    foreign = message(subject="s")
    made = converted(foreign, AMQP_0_9_1)
    assert decode_properties(made.header).type == "s"
    assert made.body is foreign.body
    for name in ("durable", "priority", "accepted_at", "expires_at", "deliver_at", "record"):
        assert getattr(made, name) == getattr(foreign, name), name
    for name in ("exchange", "routing_key", "publisher", "connection"):
        assert getattr(made.origin, name) is getattr(foreign.origin, name), name
    assert made.origin.view is AMQP_0_9_1


def test_a_conversion_is_made_once_for_each_protocol() -> None:
    conversions = Conversions()
    foreign = message()
    made = conversions.message_for(foreign, AMQP_0_9_1)
    assert conversions.message_for(foreign, AMQP_0_9_1) is made
    assert conversions.message_for(foreign, STOMP).origin.view is STOMP
    assert conversions.conversions == 2


def test_the_oldest_is_forgotten_when_there_are_too_many() -> None:
    conversions = Conversions(entries_max=2)
    held = [message() for _ in range(3)]
    for foreign in held:
        conversions.message_for(foreign, AMQP_0_9_1)
    assert len(conversions) == 2
    conversions.message_for(held[2], AMQP_0_9_1)
    assert conversions.conversions == 3
    conversions.message_for(held[0], AMQP_0_9_1)
    assert conversions.conversions == 4


def test_bytes_are_bounded_and_what_exceeds_them_alone_is_not_remembered() -> None:
    conversions = Conversions(bytes_max=1000)
    for size in (400, 400, 400):
        conversions.message_for(message(b"x" * size), AMQP_0_9_1)
        assert conversions.bytes <= 1000
    assert 0 < len(conversions) < 3
    before = conversions.bytes
    conversions.message_for(message(b"x" * 1001), AMQP_0_9_1)
    assert conversions.bytes == before
    assert CONVERTED_BYTES_MAX == 8 * 1024 * 1024


def test_a_new_message_in_the_place_of_a_former_one_is_not_taken_for_it() -> None:
    conversions = Conversions(entries_max=4)
    places = set()
    for number in range(50):
        new = message(b"%d" % number)
        places.add(id(new))
        assert conversions.message_for(new, AMQP_0_9_1).body == b"%d" % number
    assert len(places) < 50, "no place was used twice, so nothing could have been mistaken"


def test_a_failure_is_counted_logged_and_says_what_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(content: MessageContent) -> tuple[bytes, bytes]:
        raise ValueError(f"no {content.subject}")

    monkeypatch.setitem(views.WRITERS, AMQP_0_9_1, fail)
    conversions = Conversions()
    with structlog.testing.capture_logs() as lines, pytest.raises(ConversionError, match=r"amqp-1.0 .*'e'.*no s$"):
        conversions.message_for(message(subject="s"), AMQP_0_9_1)
    assert (conversions.failures, conversions.conversions, len(conversions)) == (1, 0, 0)
    assert [line["event"] for line in lines] == ["conversion failed"]


def test_only_the_first_failures_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "LOGGED_FAILURES_MAX", 2)
    monkeypatch.setitem(views.WRITERS, AMQP_0_9_1, lambda _: 1 / 0)
    conversions = Conversions()
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(ConversionError):
                conversions.message_for(message(), AMQP_0_9_1)
    assert (conversions.failures, len(lines)) == (3, 2)


@pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
@pytest.mark.parametrize("name", ["x-delay", "x-deliver-at", "_AMQ_SCHED_DELIVERY", "x-qpid-not-valid-before"])
def test_whoever_sets_a_time_may_do_so(view: ContentView, name: str) -> None:
    """What a view reads as a time is never taken for a message without one."""
    content = MessageContent()
    content.application = {"a": 1, name: 5000, "b": "text"}
    header, body = views.WRITERS[view](content)
    timed = Message(header, body, Origin("", "", "", view), accepted_at=1000)
    assert view.deliver_at(timed) > 0
    assert may_ask_for(view.name, header) == SETS_TIME
    content.application = {"a": 1, "b": "text"}
    header, _ = views.WRITERS[view](content)
    assert may_ask_for(view.name, header) == 0


@pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
@pytest.mark.parametrize("priority", [None, 0, 4, 9])
def test_whoever_says_how_important_a_message_is_is_told_from_who_does_not(
    view: ContentView, priority: int | None
) -> None:
    content = MessageContent()
    content.application = {"a": 1}
    if priority is not None:
        content.priority = priority
    header, body = views.WRITERS[view](content)
    assert view.given_priority(Message(header, body, Origin("", "", "", view))) == (
        -1 if priority is None else priority
    )
    assert may_ask_for(view.name, header) == (0 if priority is None else GIVES_PRIORITY)


def test_annotations_and_headers_of_one_protocol_only_may_do_so() -> None:
    for name in ("x-opt-delivery-delay", "x-opt-delivery-time"):
        timed = message(annotations={name: 5000})
        assert AMQP_1_0.deliver_at(timed) > 0
        assert may_ask_for(AMQP_1_0.name, timed.header) == SETS_TIME
    for name in ("AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME"):
        header = f"{name}:5000\n".encode()
        assert STOMP.deliver_at(Message(header, b"", Origin("", "", "", STOMP))) > 0
        assert may_ask_for(STOMP.name, header) == SETS_TIME


def test_what_looks_like_a_fragment_is_no_reason_to_read() -> None:
    """Every name that counts has one of the common fragments, which others may have as well."""
    for fragment in (*sum(views._TIME_FRAGMENTS.values(), ()), b"AMQ_DUPL", b"x-duplicate"):
        assert any(common in fragment for common in views._COMMON_FRAGMENTS), fragment
    for view in VIEWS.values():
        content = MessageContent()
        content.application = {"x-request": "AMQ_"}
        assert may_ask_for(view.name, views.WRITERS[view](content)[0]) == 0


def test_a_view_nobody_knows_may() -> None:
    assert may_ask_for("mqtt", b"") == SETS_TIME | HAS_DUPLICATE_ID


@pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
@pytest.mark.parametrize("name", ["_AMQ_DUPL_ID", "x-duplicate-id"])
def test_whoever_has_a_duplicate_id_may_have_one(view: ContentView, name: str) -> None:
    content = MessageContent()
    content.application = {"a": 1, name: "an id"}
    header, body = views.WRITERS[view](content)
    assert view.duplicate_id(Message(header, body, Origin("", "", "", view))) == "an id"
    assert may_ask_for(view.name, header) == HAS_DUPLICATE_ID
