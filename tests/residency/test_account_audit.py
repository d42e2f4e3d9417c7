"""The audit of accounts: each queue in its turn, deep ones not, and a defect is said once."""

from __future__ import annotations

import logging

import pytest

from annulet.core.queue import Queue
from annulet.residency import account_audit
from annulet.residency.account_audit import AccountAudit
from annulet.residency.bodies import StoredBodies
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled


def audited(count: int) -> dict[Queue, StoredBodies]:
    queue, disk = durable_queue(), Disk()
    bodies = bodies_of(queue, disk)
    queue.bodies = bodies
    filled(queue, disk, count)
    return {queue: bodies}


def test_a_wrong_account_is_said_once_and_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    audit, queues = AccountAudit(), audited(3)
    (queue,) = queues
    audit.tick(queues)
    assert (audit.drift, caplog.text) == (0, "")
    queues[queue].bytes += 5
    for _ in range(3):
        audit.tick(queues)
    assert audit.drift == 10, "in what is away, and in what is not"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "is wrong by 10 bytes" in caplog.text
    audit.forget(queue)
    assert audit.drift == 0


def test_queues_have_their_turns_and_those_that_are_gone_none(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = audited(1) | audited(1)
    first, second = queues
    counted: list[Queue] = []
    monkeypatch.setattr(account_audit, "drift_of", lambda queue: counted.append(queue) or 0)
    audit = AccountAudit()
    audit.tick({})
    for _ in range(3):
        audit.tick(queues)
    assert counted == [second, first, second]
    audit.tick({second: queues[second]})
    assert counted == [second, first, second], "the other one was next"


@pytest.mark.parametrize(("most", "drift"), [(3, 10), (2, 0)])
def test_deep_queues_are_not_counted(most: int, drift: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_audit, "AUDITED_ENTRIES_MAX", most)
    audit, queues = AccountAudit(), audited(3)
    for bodies in queues.values():
        bodies.bytes += 5
    audit.tick(queues)
    assert audit.drift == drift
