"""Deleted queues are forgotten by log and catalogue after their last dead letter, in slices."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.host.dead_letters import FORWARDED_AT_ONCE, FORWARDED_PER_SLICE
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, pending
from tests.core.host.test_dead_letters import letter

MANY = AT_ONCE_MAX + 1
LETTERS = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def host_with(count: int) -> tuple[VirtualHost, SlicingEffects, Queue]:
    """A queue of which so many letters left before this turn."""
    effects = SlicingEffects()
    host = VirtualHost("/", effects)
    host.declare_queue("dead", now=NOW)
    queue = host.declare_queue("q", now=NOW, arguments=LETTERS)
    add(host, queue, *map(str, range(count)))
    return host, effects, queue


def add(host: VirtualHost, queue: Queue, *bodies: str) -> None:
    """Let messages of a queue leave."""
    for body in bodies:
        entry = QueueEntry(queue, letter(body), queue.next_sequence)
        queue.next_sequence += 1
        entry.state = REMOVED
        host.dead_letters.add(queue, entry, RemovalReason.DEAD_LETTERED, NOW, None)


@pytest.mark.parametrize("more", [0, 1, 3 * FORWARDED_PER_SLICE])
def test_a_queue_is_forgotten_after_its_last_letter(more: int) -> None:
    host, effects, queue = host_with(FORWARDED_AT_ONCE + more)
    told: list[bool] = []
    host.delete_queue(queue, NOW)
    assert "q" not in host.queues
    assert host.queues["dead"].order.count == FORWARDED_AT_ONCE
    assert host.departures.when_gone(queue, told.append) == (more > 0)
    turns = 0
    while effects.works:
        assert (effects.deleted_queues, told, host.departures.count) == ([], [], 1)
        before = host.queues["dead"].order.count
        effects.turn()
        assert host.queues["dead"].order.count - before <= FORWARDED_PER_SLICE
        turns += 1
    assert turns == -(-more // FORWARDED_PER_SLICE) + (more > 0)  # the end has a turn of its own
    assert pending(host.queues["dead"]) == [str(number) for number in range(FORWARDED_AT_ONCE + more)]
    assert (effects.deleted_queues, told, host.departures.count) == (["q"], [True] * (more > 0), 0)
    assert not host.departures.when_gone(queue, told.append)


def test_letters_of_other_queues_behind_them_are_not_waited_for() -> None:
    host, effects, queue = host_with(FORWARDED_AT_ONCE + FORWARDED_PER_SLICE)
    other = host.declare_queue("other", now=NOW, arguments=LETTERS)
    add(host, other, *["other"] * (2 * FORWARDED_PER_SLICE))
    host.delete_queue(queue, NOW)
    effects.turn()
    effects.turn()
    assert effects.deleted_queues == ["q"]
    assert host.dead_letters.left_of(other) == (FORWARDED_PER_SLICE, [])


def test_a_queue_that_takes_the_name_has_the_old_one_cede_it_once() -> None:
    host, effects, queue = host_with(FORWARDED_AT_ONCE + 1)
    host.delete_queue(queue, NOW)
    second = host.declare_queue("q", now=NOW, arguments=LETTERS)
    assert effects.calls[-1] == ("name taken", "q")
    host.delete_queue(second, NOW)
    host.declare_queue("q", now=NOW)
    assert effects.calls.count(("name taken", "q")) == 1, "the second one is forgotten already"
    effects.turns()
    assert effects.deleted_queues == ["q", "q"]
    assert host.departures.count == 0


def test_letters_in_a_transaction_are_waited_for_until_it_is_over() -> None:
    host, effects, queue = host_with(0)
    bracketed = [True]
    effects.bracketed = lambda: bracketed[0]  # type: ignore[method-assign]
    letters = host.dead_letters
    box = letters.open_box()
    letters.collect(box)
    add(host, queue, "inside")
    letters.collect(None)
    bracketed[0] = False
    host.delete_queue(queue, NOW)
    assert effects.deleted_queues == []
    letters.send_inside(box, NOW)
    assert effects.works == [], "it is sent, and not stored"
    letters.close_box(box, NOW)
    assert effects.turns() == 1
    assert (pending(host.queues["dead"]), effects.deleted_queues) == (["inside"], ["q"])


def test_those_who_wait_are_told_of_a_defect() -> None:
    host, effects, queue = host_with(FORWARDED_AT_ONCE + 1)
    told: list[bool] = []
    host.delete_queue(queue, NOW)
    host.departures.when_gone(queue, told.append)
    effects.turn()
    (work,) = effects.works
    work.abandon(NOW)
    assert told == [False]


def refusing(count: int) -> tuple[VirtualHost, SlicingEffects, Queue]:
    """A queue of which a client has just refused so many messages, each for the dead letters."""
    host, effects, queue = host_with(0)
    session = RecordingSession()
    session.consume(queue, messages=count)
    for number in range(count):
        queue.enqueue(letter(str(number)), NOW)
    session.reject(count, NOW, requeue=False, multiple=True)
    return host, effects, queue


def test_what_was_refused_before_the_deletion_is_waited_for() -> None:
    host, effects, queue = refusing(MANY)
    told: list[bool] = []
    host.delete_queue(queue, NOW)
    assert host.departures.when_gone(queue, told.append)
    while not told:
        assert effects.deleted_queues == []
        effects.turn()
    assert (effects.deleted_queues, host.departures.count) == (["q"], 0)
    assert pending(host.queues["dead"]) == [str(number) for number in range(MANY)]


def test_a_defect_in_what_was_refused_before_keeps_no_deletion_waiting() -> None:
    host, effects, queue = refusing(MANY)
    told: list[bool] = []
    host.delete_queue(queue, NOW)
    host.departures.when_gone(queue, told.append)
    for work in list(effects.works):
        effects.works.remove(work)
        work.abandon(NOW)
    effects.turns()
    assert (told, effects.deleted_queues) == ([True], ["q"])
