"""The loss ledger: one record per loss, bounded, with exact totals."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.model.loss_ledger import LossLedger, LossListener, LossRecord, count_losses
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, send


def queue_with(ledger, **settings):
    return Queue("q", QueueSettings(**settings), RecordingEffects(), ledger)


def test_a_record_says_what_was_lost_why_and_to_what():
    ledger = LossLedger()
    queue = queue_with(ledger, last_value_key="k")
    send(queue, "a1")
    send(queue, "a23", now=NOW + 5)
    (record,) = ledger.query(queue="q", reason=RemovalReason.REPLACED_KEY)
    assert (record.sequence, record.key, record.size, record.age, record.replaced_by) == (1, "a", 2, 5, 2)
    assert record.publisher == "guest@test"
    assert list(ledger.query(queue="other")) == list(ledger.query(since=NOW + 6)) == []


def test_records_are_bounded_and_totals_are_not():
    ledger = LossLedger(3)
    send(queue_with(ledger, ring_size=1), "1", "2", "3", "4", "5", "6")
    assert (len(ledger), ledger.total, ledger.forgotten) == (3, 5, 2)
    assert [record.sequence for record in ledger.query()] == [3, 4, 5]
    assert [record.sequence for record in ledger.newest(2)] == [5, 4]
    assert len(ledger.newest(9)) == 3


def test_an_acknowledged_message_is_no_loss_and_a_rejected_one_is():
    ledger = LossLedger()
    queue, session = queue_with(ledger), RecordingSession()
    session.consume(queue)
    send(queue, "A", "B")
    session.acknowledge(1, NOW)
    session.reject(2, NOW, requeue=False)
    assert [(record.sequence, record.reason) for record in ledger.query()] == [(2, RemovalReason.REJECTED)]


def record(sequence=1, *, queue="q", reason=RemovalReason.PURGED, key="", at=NOW, publisher="guest@test", **more):
    values = {"size": 1, "priority": 4, "accepted_at": NOW, "replaced_by": 0, **more}
    return LossRecord(queue=queue, sequence=sequence, reason=reason, key=key, at=at, publisher=publisher, **values)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"queue": "a"}, [1, 2]),
        ({"key": "x"}, [2]),
        ({"key": ""}, [1, 3]),
        ({"publisher": "ben@there"}, [3]),
        ({"since": NOW + 10}, [2, 3]),
        ({"until": NOW + 10}, [1, 2]),
        ({"since": NOW + 1, "until": NOW + 19}, [2]),
        ({"reason": RemovalReason.EXPIRED, "queue": "a"}, [2]),
    ],
)
def test_questions(question, expected):
    ledger = LossLedger()
    ledger.add(record(1, queue="a"))
    ledger.add(record(2, queue="a", key="x", at=NOW + 10, reason=RemovalReason.EXPIRED))
    ledger.add(record(3, queue="b", at=NOW + 20, publisher="ben@there"))
    assert [found.sequence for found in ledger.query(**question)] == expected


def test_counts_by_queue_and_reason():
    records = [record(1), record(2), record(3, reason=RemovalReason.EXPIRED), record(4, queue="other")]
    assert count_losses(records) == {
        ("q", RemovalReason.PURGED): 2,
        ("q", RemovalReason.EXPIRED): 1,
        ("other", RemovalReason.PURGED): 1,
    }


@pytest.mark.parametrize(
    ("reason", "settings", "rule"),
    [
        (RemovalReason.REPLACED_RING, {"ring_size": 9}, "ring-size=9"),
        (RemovalReason.EXPIRED, {"message_ttl": 5}, "message-ttl=5, the message's time to live"),
        (RemovalReason.EXPIRED, {}, "the message's time to live"),
        (
            RemovalReason.OVERFLOW,
            {"max_bytes": 7, "overflow": "ring", "evict": "oldest"},
            "max-bytes=7, overflow=ring, evict=oldest",
        ),
        (RemovalReason.REJECTED, {"max_delivery_attempts": 3}, "max-delivery-attempts=3, rejected by its consumer"),
        (RemovalReason.PURGED, {"ring_size": 9}, "purged"),
    ],
)
def test_the_rule_in_the_words_of_the_settings(reason, settings, rule):
    assert record(reason=reason, settings=QueueSettings(**settings)).rule == rule


def test_a_rule_that_was_put_into_words_earlier_stays_as_it_was():
    assert record(rule="ring-size=9", settings=QueueSettings(ring_size=3)).rule == "ring-size=9"
    assert record().rule == "purged"


@pytest.mark.parametrize(
    ("reason", "settings", "target"),
    [
        (RemovalReason.EXPIRED, {"expiry_address": "late"}, "expiry-address 'late'"),
        (RemovalReason.REPLACED_RING, {"expiry_address": "late"}, ""),
        (
            RemovalReason.OVERFLOW,
            {"dead_letter_address": "dead", "dropped_address": "dropped"},
            "dead-letter-address 'dead', dropped-address 'dropped'",
        ),
    ],
)
def test_where_a_copy_went(reason, settings, target):
    assert record(reason=reason, settings=QueueSettings(**settings)).forwarded_to == target
    assert record(reason=reason).forwarded_to == ""


def test_listeners_hear_of_each_loss_once_it_is_in_the_ledger():
    class Listener(LossListener):
        def lost(self, record):
            heard.append((record.sequence, record.durable, ledger.total))

    heard = []
    ledger = LossLedger(0)
    ledger.restore([record(9)], 9)
    ledger.listeners.append(Listener())
    ledger.add(record(1))
    ledger.add(record(2, durable=True))
    assert heard == [(1, False, 10), (2, True, 11)]
    assert (len(ledger), ledger.forgotten) == (0, 11)


def test_listeners_hear_when_a_loss_becomes_durable():
    class Listener(LossListener):
        def settled(self, record):
            heard.append((record.sequence, record.durable))

        def skipped(self, durable):
            heard.append(durable)

    heard = []
    ledger = LossLedger()
    ledger.listeners.append(Listener())
    loss = record(1)
    ledger.add(loss)
    ledger.settled(loss)
    ledger.settled(None)
    assert heard == [(1, True), 1]
    assert ledger.total == 1, "it was counted when it was lost"


def test_losses_of_earlier_runs_come_first_and_count_as_they_did():
    ledger = LossLedger(3)
    ledger.add(record(7))
    ledger.restore([record(number) for number in (1, 2, 3)], 12)
    assert [found.sequence for found in ledger.query()] == [2, 3, 7]
    assert (ledger.total, ledger.forgotten) == (13, 10)
