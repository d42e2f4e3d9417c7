"""The audit trail: bounded, with an exact total, and every question an operator asks of it."""

from __future__ import annotations

import pytest

from annulet.core.model.audit_trail import AuditEntry, AuditTrail


def trail() -> AuditTrail:
    trail = AuditTrail()
    trail.add(AuditEntry(100, "/", "anna", "purge", "orders", count=7))
    trail.add(AuditEntry(200, "/", "ben", "move", "orders", "to=late", 2))
    trail.add(AuditEntry(300, "other", "anna", "pause", "work"))
    return trail


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ({}, [100, 200, 300]),
        ({"user": "anna"}, [100, 300]),
        ({"operation": "move"}, [200]),
        ({"target": "orders"}, [100, 200]),
        ({"virtual_host": "other"}, [300]),
        ({"since": 200}, [200, 300]),
        ({"until": 200}, [100, 200]),
        ({"since": 101, "until": 199}, []),
        ({"user": "anna", "target": "orders"}, [100]),
    ],
)
def test_questions(question, expected):
    assert [entry.at for entry in trail().query(**question)] == expected


def test_entries_are_bounded_and_the_total_is_not():
    small = AuditTrail(2)
    for at in range(5):
        small.add(AuditEntry(at, "/", "anna", "purge", "q"))
    assert (len(small), small.total, small.forgotten) == (2, 5, 3)
    assert [entry.at for entry in small.query()] == [3, 4]


def test_what_an_earlier_run_did_comes_first():
    small = AuditTrail(3)
    small.add(AuditEntry(50, "/", "anna", "purge", "q"))
    small.restore([AuditEntry(at, "/", "ben", "move", "q") for at in (10, 20, 30)], 9)
    assert [entry.at for entry in small.query()] == [20, 30, 50]
    assert (small.total, small.forgotten) == (10, 7)
