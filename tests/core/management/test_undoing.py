"""An undo goes through its parts, one queue after the other, and tells what it did not find."""

from __future__ import annotations

from annulet.core.base.errors import NotFound
from annulet.core.management import delete_messages, select
from annulet.core.management.conditions import MovedIds, conditions
from annulet.core.management.destination import Former
from annulet.core.management.transfer import Transfer
from annulet.core.management.undoing import EXPIRED_MEANWHILE, GONE, MoveBack, Restore, Undo
from annulet.core.message.message import Message
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, make_message
from tests.core.management.bench import Bench, bodies, run
from tests.core.management.test_whole_queue import deep_queue


def moved_ids(*runs: tuple[int, int]) -> MovedIds:
    ids = MovedIds()
    for first, count in runs:
        ids.add(first, count)
    return ids


def back(bench: Bench, source, queue, *runs):
    wanted = select(everything=True, scheduled=True, conditions=conditions(among=moved_ids(*runs)))
    return Transfer("undo", bench.host, source, queue, keep=False), wanted


def unwrapped(message: Message, now: int) -> Message:
    return Message(message.header, message.body, message.origin, accepted_at=now, expires_at=message.expires_at)


def nowhere(entry: QueueEntry) -> Former | None:
    del entry
    return None


def test_parts_are_done_one_after_the_other():
    bench = Bench()
    queue, one, two = bench.queue(), bench.queue("one"), bench.queue("two")
    bench.send(one, *"abc")
    bench.send(two, *"def")
    parts = [back(bench, one, queue, (1, 2)), back(bench, two, queue, (3, 1))]
    operation = Undo(bench.host, parts, 4, "q", user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), bodies(one), bodies(two)) == ("abf", "c", "de")
    assert (operation.done, operation.total, operation.progress.skipped) == (3, 4, {GONE: 1})
    (entry,) = bench.effects.audit
    assert (entry.operation, entry.target, entry.count) == ("undo", "q", 3)


def test_a_queue_that_is_gone_is_passed_over():
    bench = Bench()
    queue, one, two = bench.queue(), bench.queue("one"), bench.queue("two")
    bench.send(one, "a")
    bench.send(two, "b")
    parts = [back(bench, one, queue, (1, 1)), back(bench, two, queue, (1, 1))]
    bench.host.delete_queue(two, NOW)
    operation = Undo(bench.host, parts, 2, "q", user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), operation.state, operation.progress.skipped) == ("a", "finished", {GONE: 1})


def test_kept_messages_that_expired_are_skipped():
    bench = Bench()
    queue, kept = bench.queue(), bench.queue("kept")
    bench.send(kept, "a", "b")
    first, second = sorted(kept.order.entries())
    del second

    def unwrap(message: Message, now: int) -> Message:
        made = unwrapped(message, now)
        made.expires_at = now if message is first.message else 0
        return made

    parts = [(Restore(bench.host, kept, queue, unwrap, nowhere), select(everything=True))]
    operation = Undo(bench.host, parts, 2, "q", user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), bodies(kept), operation.progress.skipped) == ("b", "a", {EXPIRED_MEANWHILE: 1})


def test_content_that_cannot_be_unwrapped_stays():
    bench = Bench()
    queue, kept = bench.queue(), bench.queue("kept")
    bench.send(kept, "a")

    def unwrap(message: Message, now: int) -> Message:
        raise NotFound(f"{message.size} at {now}")

    parts = [(Restore(bench.host, kept, queue, unwrap, nowhere), select(everything=True))]
    operation = Undo(bench.host, parts, 1, "q", user="anna", now=NOW)
    run(operation)
    assert (bodies(kept), operation.state) == ("a", "finished")


def test_moved_messages_go_to_their_places():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, *"abc")
    bench.send(other, "z")
    for entry in sorted(queue.order.entries())[:2]:
        Transfer("move", bench.host, queue, other, keep=False).carry_out(entry, NOW)
    bench.send(queue, "d")
    formers = {2: Former(1, NOW), 3: Former(2, NOW)}
    action = MoveBack(bench.host, other, queue, lambda entry: formers[entry.sequence])
    wanted = select(everything=True, conditions=conditions(among=moved_ids((2, 2))))
    run(Undo(bench.host, [(action, wanted)], 2, "q", user="anna", now=NOW))
    assert (bodies(queue), bodies(other)) == ("abcd", "z")
    assert [entry.sequence for entry in sorted(queue.order.entries())] == [1, 2, 3, 4]


def test_messages_go_back_to_their_places_among_rows_on_disk():
    host, queue, disk = deep_queue()
    disk.free = 1 << 30
    wanted = select(ids=[1, 9, 10, 20])
    run(delete_messages(host, queue, wanted, user="anna", now=NOW))
    for number in (20, 9, 1, 10):
        message = make_message(b"%02d" % number)
        disk.store(queue, message, 100 + number)
        queue.put_back(message, number, NOW, NOW)
        check_invariants(queue)
    queue.order.page_out(1 << 60, 100)
    check_invariants(queue)
    found = []
    while queue.order.count:
        (entry,) = queue.acquire(1, -1, NOW)
        found.append(entry.sequence)
        queue.acknowledge(entry)
    assert found == list(range(1, 31))
