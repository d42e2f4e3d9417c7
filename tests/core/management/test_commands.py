"""What is refused before anything is touched, and the commands on a queue as a whole."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed, ResourceLocked
from annulet.core.management import (
    change_priority,
    copy_messages,
    move_messages,
    pause_queue,
    purge,
    reset_groups,
    resume_queue,
    select,
    send_to_dead_letters,
)
from tests.core.helpers import NOW, RecordingSession
from tests.core.management.bench import Bench, bodies

ALL = select(everything=True)


@pytest.mark.parametrize("command", [move_messages, copy_messages])
def test_bad_destinations(command):
    bench = Bench()
    queue = bench.queue("orders")
    bench.host.declare_queue("mine", now=NOW, owner=object())
    with pytest.raises(NotFound, match=r"no queue 'order' in vhost '/' .*did you mean 'orders'\?"):
        command(bench.host, queue, ALL, "order", user="anna", now=NOW)
    with pytest.raises(NotFound, match=r"no queue 'zzz' in vhost '/' to send messages to$"):
        command(bench.host, queue, ALL, "zzz", user="anna", now=NOW)
    with pytest.raises(InvalidArgument, match="'orders' is the queue the messages are in"):
        command(bench.host, queue, ALL, "orders", user="anna", now=NOW)
    with pytest.raises(ResourceLocked, match="mine"):
        command(bench.host, queue, ALL, "mine", user="anna", now=NOW)
    assert bench.effects.audit == []


@pytest.mark.parametrize("priority", [-1, 256, True, 1.5, "9"])
def test_bad_priorities(priority):
    bench = Bench()
    with pytest.raises(InvalidArgument, match="give an integer from 0 to 255"):
        change_priority(bench.host, bench.queue(), ALL, priority, user="anna", now=NOW)


def test_without_a_dead_letter_target_nothing_is_sent_there():
    bench = Bench()
    queue = bench.queue()
    bench.send(queue, "a")
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' has no dead-letter target; set"):
        send_to_dead_letters(bench.host, queue, ALL, user="anna", now=NOW)
    assert bodies(queue) == "a"


def test_a_deleted_queue_is_refused():
    bench = Bench()
    queue = bench.queue()
    bench.host.delete_queue(queue, NOW)
    for command in (purge, pause_queue, resume_queue, reset_groups):
        with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' was deleted"):
            command(bench.host, queue, user="anna", now=NOW)


def test_pause_and_resume_are_remembered_and_audited():
    bench, session = Bench(), RecordingSession()
    queue = bench.queue(durable=True)
    session.consume(queue)
    assert pause_queue(bench.host, queue, user="anna", now=NOW) is True
    assert pause_queue(bench.host, queue, user="anna", now=NOW) is False
    bench.send(queue, "a")
    assert session.received == []
    assert resume_queue(bench.host, queue, user="ben", now=NOW + 5) is True
    assert session.received == ["a"]
    assert resume_queue(bench.host, queue, user="ben", now=NOW + 5) is False
    assert bench.effects.paused == [("q", True), ("q", False)]
    assert [(entry.operation, entry.user, entry.outcome) for entry in bench.effects.audit] == [
        ("pause", "anna", "paused"), ("pause", "anna", "was paused already"),
        ("resume", "ben", "resumed"), ("resume", "ben", "was not paused"),
    ]  # fmt: skip


def test_one_group_or_all_are_reset():
    bench, one, two = Bench(), RecordingSession("1"), RecordingSession("2")
    queue = bench.queue(group_mode="sticky", group_key="k")
    one.consume(queue)
    bench.send(queue, "a1", "b1", "c1")
    two.consume(queue)
    bench.send(queue, "a2")
    assert (one.received, two.received) == (["a1", "b1", "c1", "a2"], [])
    assert reset_groups(bench.host, queue, user="anna", now=NOW, name="b") == 1
    assert reset_groups(bench.host, queue, user="anna", now=NOW, name="nobody") == 0
    assert reset_groups(bench.host, queue, user="anna", now=NOW) == 2
    bench.send(queue, "a3", "b3")
    assert (len(one.received), len(two.received)) == (5, 1)
    assert [(entry.arguments, entry.outcome) for entry in bench.effects.audit] == [
        ("group 'b'", "1 were assigned"), ("group 'nobody'", "0 were assigned"), ("all groups", "2 were assigned")
    ]  # fmt: skip


def test_groups_of_a_queue_without_groups():
    bench = Bench()
    with pytest.raises(PreconditionFailed, match="does not group messages; group-mode is not set"):
        reset_groups(bench.host, bench.queue(), user="anna", now=NOW)
