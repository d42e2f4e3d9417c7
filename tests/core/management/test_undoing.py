"""An undo goes through its parts, one queue after the other, and tells what it did not find."""

from __future__ import annotations

from annulet.core.base.errors import NotFound
from annulet.core.management import select
from annulet.core.management.conditions import IdRanges, conditions
from annulet.core.management.transfer import Transfer
from annulet.core.management.undoing import EXPIRED_MEANWHILE, GONE, Restore, Undo
from annulet.core.message.message import Message
from tests.core.helpers import NOW
from tests.core.management.bench import Bench, bodies, run


def back(bench: Bench, source, queue, *runs):
    wanted = select(everything=True, scheduled=True, conditions=conditions(among=IdRanges(runs)))
    return Transfer("undo", bench.host, source, queue, keep=False), wanted


def unwrapped(message: Message, now: int) -> Message:
    return Message(message.header, message.body, message.origin, accepted_at=now, expires_at=message.expires_at)


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

    parts = [(Restore(bench.host, kept, queue, unwrap), select(everything=True))]
    operation = Undo(bench.host, parts, 2, "q", user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), bodies(kept), operation.progress.skipped) == ("b", "a", {EXPIRED_MEANWHILE: 1})


def test_content_that_cannot_be_unwrapped_stays():
    bench = Bench()
    queue, kept = bench.queue(), bench.queue("kept")
    bench.send(kept, "a")

    def unwrap(message: Message, now: int) -> Message:
        raise NotFound(f"{message.size} at {now}")

    parts = [(Restore(bench.host, kept, queue, unwrap), select(everything=True))]
    operation = Undo(bench.host, parts, 1, "q", user="anna", now=NOW)
    run(operation)
    assert (bodies(kept), operation.state) == ("a", "finished")
