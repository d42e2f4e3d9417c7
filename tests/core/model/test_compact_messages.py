"""A folded message, its kind, and the entry that is made of it."""

from __future__ import annotations

import pytest

from annulet.core.model.compact_messages import (
    NUMBER_MOST,
    CompactDelivery,
    entry_in,
    entry_of,
    kind_of,
    may_be_folded,
)
from annulet.core.model.consumer import Consumer
from annulet.core.model.entry import DELIVERING, PENDING, QueueEntry
from annulet.core.sessions.session import Session
from tests.core.helpers import NOW, make_message
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled

ALL = 1 << 60


def delivered() -> QueueEntry:
    """Return an entry in delivery whose body left."""
    queue, disk = durable_queue(), Disk()
    (entry,) = filled(queue, disk, 1)
    queue.take_first(entry)
    entry.state = DELIVERING
    entry.consumer = Consumer(Session("s"), queue, "c")
    queue.delivering.add(entry)
    bodies_of(queue, disk).let_all_go(ALL)
    assert may_be_folded(entry)
    return entry


def test_it_is_made_an_entry_once():
    entry = delivered()
    held = CompactDelivery(kind_of(entry), entry)
    delivering = entry.queue.delivering
    delivering.exchange(entry, held)
    assert (len(delivering), delivering.folded) == (1, 1)
    made = entry_of(held)
    assert made is not entry
    assert entry_of(held) is entry_in(held) is entry_in(made) is made
    assert delivering.entries() == [made]
    assert delivering.folded == 0
    assert (made.sequence, made.message.record, made.message.size) == (1, 1, 10)


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: setattr(entry, "consumer", Consumer(Session("s"), entry.queue, "c")),
        lambda entry: setattr(entry, "redelivered", True),
        lambda entry: setattr(entry, "delivery_count", 1),
        lambda entry: setattr(entry.message, "origin", make_message().origin),
        lambda entry: setattr(entry.message, "priority", 9),
        lambda entry: setattr(entry.message, "accepted_at", NOW - 1),
        lambda entry: setattr(entry.message, "accepted_at", NOW + NUMBER_MOST + 1),
    ],
)
def test_a_kind_has_all_in_common(change):
    entry = delivered()
    kind = kind_of(entry)
    assert kind.fits(entry)
    entry.message.accepted_at += NUMBER_MOST
    assert kind.fits(entry)
    entry.message.accepted_at = NOW
    change(entry)
    assert not kind.fits(entry)
    assert kind_of(entry).fits(entry)


@pytest.mark.parametrize("counted", [False, True])
def test_what_came_back_is_of_another_kind(counted: bool):
    entry = delivered()
    entry.message.accepted_at = 1 << 41
    kind = kind_of(entry)
    held = CompactDelivery(kind, entry)
    back = kind.when_returned(counted=counted)
    assert kind.when_returned(counted=counted) is back
    held.link = back
    made = entry_of(held)
    assert (made.state, made.consumer, made.redelivered, made.delivery_count) == (PENDING, None, True, int(counted))
    assert (made.away, made.message.accepted_at) == (True, 1 << 41)
    assert kind.when_returned(counted=not counted).delivery_count == int(not counted)
