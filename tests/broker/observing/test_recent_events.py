"""The latest events: their bound, their cursor, and what is left out of them."""

from __future__ import annotations

import io
import logging

import structlog

from annulet.broker.observing.logging import set_up
from annulet.broker.observing.message_ids import MESSAGE_IDS
from annulet.broker.observing.recent_events import CHARACTERS_MAX, EVENTS, KIND_NAMES, RecentEvents


def made(most: int = 3) -> RecentEvents:
    return RecentEvents(most, clock=lambda: 5_000_000_000)


def test_a_cursor_goes_on_behind_what_was_read() -> None:
    events = made()
    events.note("queue created", "info", {"vhost": "/", "queue": "q", "durable": True})
    (event,), missed = events.after(0)
    assert (event.number, event.at, event.id, event.kind, event.host, missed) == (
        5_000_001,
        5000,
        "QUE-1001",
        "queue",
        "/",
        0,
    )
    assert event.values == {"queue": "q", "durable": True}
    events.note("queue deleted", "info", {"vhost": "/", "queue": "q"})
    found, missed = events.after(event.number)
    assert ([each.text for each in found], missed, events.last) == (["queue deleted"], 0, 5_000_002)
    assert events.after(events.last) == ([], 0)


def test_the_oldest_give_way_and_are_counted() -> None:
    events = made(3)
    for number in range(3):
        events.note("queue created", "info", {"queue": str(number)})
    assert events.forgotten == 0
    for number in range(3, 5):
        events.note("queue created", "info", {"queue": str(number)})
    found, missed = events.after(5_000_001)
    assert ([each.values["queue"] for each in found], missed, events.forgotten) == (["2", "3", "4"], 1, 2)
    assert events.after(7)[1] == 2  # a cursor of an earlier run: only what this one forgot
    assert events.after(5_000_002)[1] == 0


def test_what_has_no_place_in_events() -> None:
    events = made()
    events.note("a text without identifier", "info", {})
    events.note("queue created", "info", {"queue": "amq.rabbitmq.reply-to.secret"})
    events.note("binding created", "info", {"destination": "amq.rabbitmq.reply-to.secret"})
    assert events.after(0) == ([], 0)
    events.note("queue created", "info", {"queue": "x" * 999, "_record": 1, "path": object})
    ((event,), _) = events.after(0)
    assert len(str(event.values["queue"])) == CHARACTERS_MAX + 3
    assert "_record" not in event.values


def test_each_identifier_has_a_kind() -> None:
    events = RecentEvents(len(MESSAGE_IDS))
    for text in MESSAGE_IDS:
        events.note(text, "info", {})
    found, _ = events.after(0)
    assert {event.kind for event in found} == set(KIND_NAMES)
    assert {event.kind for event in found if event.id == "QUE-1017"} == {"operation"}


def test_events_do_not_depend_on_the_level_of_the_log() -> None:
    stream, before = io.StringIO(), EVENTS.last
    set_up("json", "error", stream=stream)
    structlog.get_logger("annulet.test").info("queue created", vhost="/", queue="quiet")
    found, _ = EVENTS.after(before)
    assert ([event.values for event in found], stream.getvalue()) == ([{"queue": "quiet"}], "")


def test_lines_of_lower_rooms_are_known_by_their_patterns() -> None:
    before = EVENTS.last
    set_up("json", stream=io.StringIO())
    logging.getLogger("annulet.test").warning("message log: disk space in %s again", "/data")
    ((event,), _) = EVENTS.after(before)
    assert (event.id, event.kind, event.level) == ("ANN-5024", "storage", "warning")
    assert (event.text, event.values) == ("message log: disk space in /data again", {})
