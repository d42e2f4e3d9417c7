"""Counters of a queue, and their flat form for catalogue and history."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.queue_counters import QueueCounters


def test_counters_continue_from_their_flat_form():
    counters = QueueCounters()
    counters.messages_added, counters.bytes_added = 7, 70
    counters.messages_delivered, counters.messages_returned = 5, 2
    counters.removed[RemovalReason.REPLACED_RING] = 3
    values = counters.as_dict()
    assert values["removed.replaced-ring"] == 3
    assert "removed.expired" not in values  # reasons that never happened take no room in the catalogue
    again = QueueCounters()
    again.restore({**values, "counter_of_a_later_version": 9})
    assert again.as_dict() == values


def test_what_the_log_has_still_is_not_in_their_flat_form():
    counters = QueueCounters()
    counters.removed[RemovalReason.EXPIRED], counters.removed[RemovalReason.OVERFLOW] = 3, 1
    counters.bytes_removed = 40
    for reason in (RemovalReason.EXPIRED, RemovalReason.EXPIRED, RemovalReason.OVERFLOW):
        counters.wait(reason, 10)
    values = counters.as_dict()
    assert (values["removed.expired"], values["bytes_removed"]) == (1, 10)
    assert "removed.overflow" not in values
    counters.settled(RemovalReason.EXPIRED, 10)
    values = counters.as_dict()
    assert (values["removed.expired"], values["bytes_removed"]) == (2, 20)


def test_restoring_starts_from_nothing_else():
    counters = QueueCounters()
    counters.messages_added = 4
    counters.removed[RemovalReason.EXPIRED] = 4
    counters.restore({"messages_added": 1})
    assert counters.as_dict() == {
        "messages_added": 1, "bytes_added": 0, "messages_delivered": 0, "messages_returned": 0,
        "messages_browsed": 0, "bytes_removed": 0,
    }  # fmt: skip
