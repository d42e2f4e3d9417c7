"""Changing a live queue and a waiting message."""

from __future__ import annotations

import dataclasses

import pytest

from annulet.core.base.errors import InvalidArgument, PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import AGEING, QueueSettings
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.live_changes import revise_delivering
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending, queue_of, send
from tests.core.queue.test_deep_queue_scan import Site, deep_site


def filled(effects=None, **settings):
    queue = queue_of(effects, priorities=10, **settings)
    for body, priority in [("a5", 5), ("b6", 6), ("c1", 1)]:
        message = make_message(body, priority=priority, k=body[0])
        message.record = 0 if effects is None else ord(body[0])
        queue.enqueue(message, NOW)
    return queue


def test_a_new_priority_puts_a_message_at_the_tail_of_its_new_level():
    queue = filled()
    moved = queue.reprioritise(queue.order.entries()[2], 6, NOW)
    assert pending(queue) == ["b6", "c1", "a5"]
    assert moved.message.priority == 6
    check_invariants(queue)


@pytest.mark.parametrize("later", [1, 2, 50])
def test_what_was_delivered_early_goes_on_ageing_with_its_new_priority(later):
    queue = queue_of(priorities=10, priority_discipline=AGEING, priority_age=100)
    early = queue.enqueue(make_message("early", priority=0, deliver_at=NOW + 40), NOW)
    assert queue.deliver_now(early, NOW)
    queue.enqueue(make_message("beside", priority=5, accepted_at=NOW + 1), NOW + 1)
    moved = queue.reprioritise(early, 5, NOW + later)
    assert pending(queue) == ["early", "beside"], "it has waited since NOW, whenever its priority was changed"
    assert queue.reprioritise(moved, 4, NOW + later) is not None
    assert pending(queue) == ["beside", "early"]
    queue.enqueue(make_message("before", priority=4, accepted_at=NOW), NOW + later)
    queue.enqueue(make_message("behind", priority=4, accepted_at=NOW + 1), NOW + later)
    assert pending(queue) == ["beside", "early", "before", "behind"]
    check_invariants(queue)


@pytest.mark.parametrize("settings", [{}, {"group_mode": "sticky"}, {"priorities": 3}])
def test_a_ring_that_is_lowered_keeps_what_a_consumer_has_room_for_once_the_first_is_gone(settings):
    queue, session = queue_of(ring_size=5, **settings), RecordingSession()
    consumer = session.consume(queue)
    consumer.window.bytes_max = 6
    for body in ("held", "large", "s", "last"):
        queue.enqueue(make_message(body), NOW)
    assert session.received == ["held"], "the next one is larger than the rest of the window"
    queue.update(dataclasses.replace(queue.settings, ring_size=1, ring_trim_now=True), NOW)
    assert (session.received, pending(queue)) == (["held", "s"], ["last"])
    assert queue.counters.removed[RemovalReason.REPLACED_RING] == 1
    check_invariants(queue)


def test_it_is_stored_anew_before_the_old_record_is_settled():
    effects = RecordingEffects()
    queue = filled(effects)
    queue.reprioritise(queue.order.entries()[2], 9, NOW)
    assert [call for call in effects.calls if call[0] in ("store", "settle")] == [("store", b"c1"), ("settle", b"c1")]


def test_what_its_record_does_not_say_is_noted():
    effects, session = RecordingEffects(), RecordingSession()
    queue = filled(effects)
    consumer = session.consume(queue, messages=1)
    queue.remove_consumer(consumer, NOW)
    queue.return_entries(list(queue.delivering), NOW)
    effects.changed.clear()
    for entry in queue.order.entries():
        queue.reprioritise(entry, 9, NOW)
    assert effects.changed == [("q", 4, 1)], "the one that came back"


def test_what_is_in_delivery_or_has_it_already_stays():
    queue, session = filled(), RecordingSession()
    session.consume(queue, messages=1)
    held = next(iter(queue.delivering))
    assert queue.reprioritise(held, 1, NOW) is None
    assert queue.reprioritise(queue.order.entries()[0], 5, NOW) is None
    assert pending(queue) == ["a5", "c1"]


def test_its_key_stays_its_own():
    queue = filled(last_value_key="k")
    queue.reprioritise(queue.order.entries()[2], 9, NOW)
    assert queue.key_count == 3
    queue.enqueue(make_message("c2", k="c"), NOW)
    assert pending(queue) == ["b6", "a5", "c2"]


def test_what_a_queue_is_cannot_change_and_what_it_allows_can():
    queue = queue_of(group_mode="sticky", max_length=5, overflow="ring")
    with pytest.raises(InvalidArgument, match=r"queue 'q': group-mode is 'sticky' and cannot be changed to 'shared'"):
        queue.update(dataclasses.replace(queue.settings, group_mode="shared"), NOW)
    queue.update(dataclasses.replace(queue.settings, max_length=1), NOW)
    send(queue, "a", "b")
    assert pending(queue) == ["b"]
    assert queue.settings != QueueSettings()


def delivered(effects=None, *, record=0):
    queue, session = queue_of(effects), RecordingSession()
    session.consume(queue)
    message = make_message("a", k="v", durable=bool(record))
    message.record = record
    queue.enqueue(message, NOW)
    (entry,) = queue.delivering
    return queue, entry, message


def test_a_message_in_delivery_is_revised_for_its_queue_alone():
    queue, entry, message = delivered()
    revise_delivering(entry, {"why": "because"})
    assert entry.message is not message
    assert (entry.message.body, message.origin) == (message.body, entry.message.origin)
    assert entry.message.header == message.origin.view.annotated(message, {"why": "because"})
    queue.return_entries([entry], NOW, counted=False)
    check_invariants(queue)


def test_a_stored_message_in_delivery_is_stored_anew_and_counts_on():
    effects = RecordingEffects()
    _, entry, _ = delivered(effects, record=7)
    entry.delivery_count = 2
    effects.calls.clear()
    revise_delivering(entry, {"why": "because"})
    assert [call[0] for call in effects.calls] == ["store", "settle"]
    assert (effects.settled, entry.message.record) == ([("q", 7)], 1)
    assert effects.changed[-1] == ("q", entry.sequence, 2)


def test_what_is_about_to_leave_keeps_its_record():
    effects = RecordingEffects()
    _, entry, _ = delivered(effects, record=7)
    effects.calls.clear()
    revise_delivering(entry, {"why": "because"}, stored=False)
    assert (effects.calls, entry.message.record) == ([], 7)


def test_what_is_not_in_delivery_is_left_alone():
    queue = filled()
    entry = queue.order.first()
    message = entry.message
    revise_delivering(entry, {"why": "because"})
    assert entry.message is message


READING = [
    ({"max_length": 100, "overflow": "page"}, "overflow=page"),
    ({"ring_size": 100, "evict": "newest"}, "evict=newest"),
    ({"message_ttl": 10_000}, "a time to live"),
]


@pytest.mark.parametrize(("changes", "words"), READING)
def test_settings_that_know_each_message_read_a_deep_queue_or_are_refused(changes, words):
    site = deep_site()
    host, queue = site.host, site.queue
    wanted = dataclasses.replace(queue.settings, **changes)
    site.disk.free = 100
    with pytest.raises(PreconditionFailed, match=f"queue 'q': {words} has to read all of it, but 38 of its messages"):
        host.update_queue(queue, wanted, NOW)
    site.disk.free = 1 << 30
    site.disk.failing = True
    with pytest.raises(PreconditionFailed, match=f"{words} has to read all of it, but the disk does not give it now"):
        host.update_queue(queue, wanted, NOW)
    assert (queue.settings == wanted, queue.order.paged_count()) == (False, 38)
    site.disk.failing = False
    site.pages.retry()
    host.update_queue(queue, wanted, NOW)
    assert (queue.settings, queue.order.paged_count()) == (wanted, 0)
    assert [int(entry.message.body) for entry in queue.order.entries()] == list(range(1, 41))
    assert queue.counters.removed[RemovalReason.UNREADABLE] == 0
    check_invariants(queue)


@pytest.mark.parametrize(
    "changes",
    [
        {"min_ttl": 10},
        {"max_length": 100, "overflow": "reject"},
        {"max_bytes": 100_000, "overflow": "block"},
        {"ring_size": 100, "evict": "oldest"},
        {"max_delivery_attempts": 3},
    ],
)
@pytest.mark.parametrize("choosy", [False, True])
def test_other_settings_hold_for_rows_as_they_are(changes, choosy):
    site = deep_site()
    if choosy:
        site.choosy(1)
    rows, reads = site.queue.order.paged_count(), len(site.disk.reads)
    site.host.update_queue(site.queue, dataclasses.replace(site.queue.settings, **changes), NOW)
    assert (site.queue.order.paged_count(), len(site.disk.reads), rows > 0) == (rows, reads, True)
    check_invariants(site.queue)


def test_another_time_to_live_reads_nothing_in():
    site = Site(deep=True)
    host, queue = site.host, site.queue
    host.update_queue(queue, dataclasses.replace(queue.settings, message_ttl=10_000), NOW)
    site.send(40)
    site.page_out()
    host.update_queue(queue, dataclasses.replace(queue.settings, message_ttl=20_000), NOW)
    assert (queue.order.paged_count(), sum(site.disk.reads)) == (38, 0)
    queue.tick(NOW + 10_001)
    assert queue.order.count == 40
    queue.tick(NOW + 20_001)
    assert (queue.order.count, queue.counters.removed[RemovalReason.EXPIRED]) == (0, 40)
    check_invariants(queue)
