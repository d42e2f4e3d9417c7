"""A queue as a destination: why it does not take a message, and a message that is in exactly one queue."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.management.destination import TOO_LARGE, Destination, accepted_at
from tests.core.helpers import NOW, make_message
from tests.core.management.bench import Bench, bodies


def test_a_message_that_can_never_get_in():
    bench = Bench()
    ring = bench.queue("ring", max_bytes=3)
    place = Destination(bench.host, ring)
    assert (place.misfit(make_message("abcd")), place.misfit(make_message("abc"))) == (TOO_LARGE, "")


def test_a_queue_that_refuses_now():
    bench = Bench()
    full = bench.queue("full", max_length=1, overflow="reject-publish")
    bench.send(full, "a")
    place = Destination(bench.host, full)
    assert "max" in place.refusal(make_message("b"))
    bench.host.delete_queue(full, NOW)
    assert place.refusal(make_message("b")) == "queue 'full' was deleted"


def test_a_taken_message_is_in_one_queue():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other")
    (entry,) = bench.send(queue, "a")
    number = Destination(bench.host, other).take(queue, entry, make_message("a"), RemovalReason.MOVED, NOW)
    assert (bodies(queue), bodies(other), number) == ("", "a", 1)
    assert queue.counters.removed[RemovalReason.MOVED] == 1


def test_a_commit_that_the_log_refuses_leaves_it_where_it_was():
    bench = Bench()
    queue, other = bench.queue(durable=True), bench.queue("other", durable=True)
    (entry,) = bench.send(queue, "a", durable=True)
    entry.message.record = 1
    bench.effects.refuse_commits = True
    with pytest.raises(OSError, match="no room"):
        Destination(bench.host, other).take(queue, entry, make_message("a", durable=True), RemovalReason.MOVED, NOW)
    assert (bodies(queue), bodies(other)) == ("a", "")


def test_a_delayed_message_keeps_its_time_of_acceptance():
    message = make_message("a")
    assert accepted_at(message, NOW + 5) == NOW + 5
    message.deliver_at = NOW + 10
    assert accepted_at(message, NOW + 5) == message.accepted_at
