"""Reasons: which of them are losses."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import LOSSES, RemovalReason
from tests.core.helpers import NOW, RecordingSession, make_message, make_queue, send


def acknowledged(queue, session):
    send(queue, "A")
    session.get(queue, NOW, auto_acknowledge=True)


def expired(queue, session):
    queue.enqueue(make_message("A", expires_at=NOW), NOW)


def replaced_ring(queue, session):
    send(queue, "A", "B")


def replaced_key(queue, session):
    send(queue, "A1", "A2")


def rejected(queue, session):
    send(queue, "A")
    _, tag = session.get(queue, NOW, auto_acknowledge=False)
    session.reject(tag, NOW, requeue=False)


def purged(queue, session):
    send(queue, "A")
    queue.purge(NOW)


def deleted(queue, session):
    send(queue, "A")
    queue.delete(NOW)


@pytest.mark.parametrize("cause", [acknowledged, expired, replaced_ring, replaced_key, rejected, purged, deleted])
def test_the_ledger_and_the_effects_hear_of_losses_and_of_nothing_else(cause):
    reason = RemovalReason(cause.__name__.replace("_", "-"))
    queue = make_queue(ring=1, key="k")
    cause(queue, RecordingSession())
    assert {name: count for name, count in queue.counters.removed.items() if count} == {reason: 1}
    expected = [("q", reason)] if reason in LOSSES else []
    assert [(record.queue, record.reason) for record in queue.ledger.query()] == expected
    assert [(name, why) for name, _, why in queue.effects.losses] == expected


def test_what_somebody_still_has_or_the_log_keeps_is_no_loss():
    assert {reason.value for reason in RemovalReason} - {reason.value for reason in LOSSES} == {
        "acknowledged", "dead-lettered", "moved", "unreadable",
    }  # fmt: skip
