"""The loss ledger: one record per loss, bounded, with exact totals."""

from __future__ import annotations

from annulet.core.ledger import LossLedger
from annulet.core.queue import Queue
from annulet.core.reasons import RemovalReason
from annulet.core.settings import QueueSettings
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


def test_an_acknowledged_message_is_no_loss_and_a_rejected_one_is():
    ledger = LossLedger()
    queue, session = queue_with(ledger), RecordingSession()
    session.consume(queue)
    send(queue, "A", "B")
    session.acknowledge(1, NOW)
    session.reject(2, NOW, requeue=False)
    assert [(record.sequence, record.reason) for record in ledger.query()] == [(2, RemovalReason.REJECTED)]
