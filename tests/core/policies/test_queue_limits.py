"""Limits in messages and bytes: at the limit, one below, one above."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import COUNT_ALL, QueueSettings
from annulet.core.policies.queue_limits import limits_for
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending, queue_of, removed, send


def test_without_limit_or_policy_there_is_nothing_to_enforce():
    assert limits_for(QueueSettings()) is None
    assert limits_for(QueueSettings(max_length=1)) is None
    assert limits_for(QueueSettings(overflow="ring")) is None
    assert limits_for(QueueSettings(overflow="ring", max_bytes=0)) is not None


@pytest.mark.parametrize(("count", "left"), [(2, ["1", "2"]), (3, ["1", "2", "3"]), (4, ["2", "3", "4"])])
def test_ring_evicts_beyond_the_limit(count, left):
    queue = queue_of(max_length=3, overflow="ring")
    send(queue, *[str(number) for number in range(1, count + 1)])
    assert pending(queue) == left


def test_bytes_evict_as_many_as_it_takes():
    queue = queue_of(max_length=4, max_bytes=100, overflow="ring")
    for number, size in enumerate([20, 20, 30, 30, 30]):
        queue.enqueue(make_message(str(number) * size), NOW)
    assert [body[0] for body in pending(queue)] == ["2", "3", "4"]
    assert queue.pending_bytes == 90


def test_a_message_larger_than_all_may_be_goes_itself_and_the_others_stay():
    queue = queue_of(max_bytes=5, overflow="ring", last_value_key="k")
    queue.enqueue(make_message("small", k="a"), NOW)
    queue.enqueue(make_message("larger", k="a"), NOW)
    assert pending(queue) == ["small"]
    assert removed(queue, RemovalReason.OVERFLOW) == 1


@pytest.mark.parametrize(("pending_before", "refused"), [(4, False), (5, True), (6, True)])
def test_reject_says_what_is_full_and_what_to_do(pending_before, refused):
    queue = queue_of(max_length=5, overflow="reject")
    send(queue, *"abcdef"[:pending_before])
    text = queue.refusal(make_message("x"))
    assert bool(text) is refused
    if refused:
        assert "queue 'q' is full" in text
        assert "max-length is 5" in text
        assert "raise the limit" in text


def test_reject_counts_what_a_transaction_let_in_before():
    queue = queue_of(max_bytes=10, overflow="reject")
    send(queue, "12345")
    assert not queue.refusal(make_message("12345"))
    assert queue.refusal(make_message("123456"))
    assert queue.refusal(make_message("123"), more=1, more_bytes=3)


def test_limit_counts_all_sees_what_is_in_delivery_but_never_takes_it():
    queue, session = queue_of(max_length=2, overflow="ring", limit_counts=COUNT_ALL), RecordingSession()
    session.consume(queue, messages=2)
    send(queue, "1", "2", "3", "4")
    assert session.received == ["1", "2"]
    assert pending(queue) == ["4"]  # the new one stays: what is in delivery exceeds the limit
    assert removed(queue, RemovalReason.OVERFLOW) == 1


def test_block_lets_the_crossing_message_in_and_opens_at_four_fifths():
    effects = RecordingEffects()
    queue, session = queue_of(effects, max_length=10, overflow="block"), RecordingSession()
    send(queue, *"abcdefghij")
    assert not effects.blocked
    send(queue, "k")
    assert effects.blocked == [("q", True)]
    session.get(queue, NOW, auto_acknowledge=True)
    session.get(queue, NOW, auto_acknowledge=True)
    assert queue.blocked
    session.get(queue, NOW, auto_acknowledge=True)
    assert effects.blocked == [("q", True), ("q", False)]
    assert queue.order.count == 8


def test_block_honours_its_resume_thresholds_and_a_raised_limit():
    effects = RecordingEffects()
    queue = queue_of(effects, max_bytes=10, resume_bytes=2, overflow="block")
    send(queue, "123456", "123456")
    assert queue.blocked
    queue.update(QueueSettings(max_bytes=100, overflow="block"), NOW)
    assert effects.blocked == [("q", True), ("q", False)]


@pytest.mark.parametrize(("delivered", "beyond"), [(0, 3), (2, 3), (4, 3), (7, 1)])
def test_what_is_beyond_is_known_without_a_look_at_messages_where_only_they_count(delivered, beyond):
    queue, session = queue_of(max_length=5, overflow="page", limit_counts="all"), RecordingSession()
    session.consume(queue, messages=delivered)
    send(queue, *"abcdefgh")
    assert queue.limits is not None
    assert queue.limits.beyond(queue) == min(beyond, queue.order.count)


def test_page_drops_nothing_and_counts_what_lies_beyond():
    queue = queue_of(max_length=5, overflow="page")
    send(queue, *"abcdefg")
    assert queue.statistics().paged_count == 2
    assert queue.order.count == 7


def test_lower_limits_evict_at_once():
    queue = queue_of(max_length=5, overflow="ring")
    send(queue, *"abcde")
    queue.update(QueueSettings(max_length=2, overflow="ring"), NOW)
    assert pending(queue) == ["d", "e"]
