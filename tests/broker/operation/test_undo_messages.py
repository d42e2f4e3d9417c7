"""The messages of the undo queue: an envelope has the same octets, a note the same ids."""

from __future__ import annotations

import pytest

from annulet.broker.connections.views import VIEWS
from annulet.broker.operation.undo_messages import (
    KEPT,
    MOVED,
    Run,
    UndoFacts,
    Unwrapping,
    count_of,
    kept_message,
    kind_of,
    moved_message,
    read_facts,
    read_runs,
)
from annulet.core.management.keeping import NO_PRIORITY
from annulet.core.message.message import Message, Origin
from annulet.core.model.entry import QueueEntry
from tests.core.helpers import NOW, queue_of

FACTS = UndoFacts("19f-1", "delete", "shop", "anna", NOW)


@pytest.mark.parametrize("view", sorted(VIEWS))
@pytest.mark.parametrize("body", [b"", b"x" * 100_000])
def test_an_envelope_gives_the_message_back(view: str, body: bytes) -> None:
    origin = Origin("exchange", "key", "ann@peer", VIEWS[view])
    message = Message(b"\0\1\2", body, origin, durable=True, priority=9, accepted_at=5, expires_at=7, deliver_at=6)
    queue = queue_of()
    queue.durable = True
    envelope = kept_message(QueueEntry(queue, message, 3), FACTS, NOW)
    assert (kind_of(envelope), count_of(envelope), read_facts(envelope)) == (KEPT, 1, FACTS)
    assert (envelope.durable, envelope.deliver_at, envelope.expires_at) == (True, 0, 0)
    unwrap = Unwrapping()
    found = unwrap(envelope, NOW)
    for name in ("header", "body", "durable", "priority", "accepted_at", "expires_at", "deliver_at"):
        assert getattr(found, name) == getattr(message, name)
    for name in ("exchange", "routing_key", "publisher", "view"):
        assert getattr(found.origin, name) == getattr(origin, name)
    assert unwrap(envelope, NOW) is found


def test_times_to_live_begin_again() -> None:
    message = Message(b"\0\0", b"", Origin("", "q", "", VIEWS["amqp-0-9-1"]), accepted_at=5)
    envelope = kept_message(QueueEntry(queue_of(), message, 3), FACTS, NOW)
    assert Unwrapping()(envelope, NOW).accepted_at == NOW
    assert not envelope.durable


def test_a_note_gives_the_ids_back() -> None:
    runs = [Run("one", 5, 3, 7), Run("two", 1, 1, 0)]
    note = moved_message(runs, FACTS, NOW, durable=True)
    assert (kind_of(note), count_of(note), read_facts(note), read_runs(note)) == (MOVED, 4, FACTS, runs)


def test_a_note_of_an_earlier_version_names_no_priority() -> None:
    facts = UndoFacts("t", "move", "q", "ann", 5)
    note = moved_message([Run("late", 3, 2, 7), Run("late", 9, 1, 7, 4)], facts, 6, durable=True)
    assert read_runs(note) == [Run("late", 3, 2, 7, NO_PRIORITY), Run("late", 9, 1, 7, 4)]
    earlier = Message(note.header, b'[["late",3,2,7]]', note.origin)
    assert read_runs(earlier) == [Run("late", 3, 2, 7, NO_PRIORITY)]
