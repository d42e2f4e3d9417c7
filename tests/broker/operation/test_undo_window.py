"""The undo window: what operations took away comes back, within its time and its bytes."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.operation.operation_requests import RATE_MAX, OperationRequests
from annulet.broker.operation.undo_messages import Unwrapping, count_of, kind_of, read_facts, read_runs
from annulet.broker.operation.undo_window import FORGOTTEN_A_TICK, UndoWindow
from annulet.core.base.errors import InvalidArgument, NotFound
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sealed_names import UNDO_QUEUE
from annulet.core.management import Operation
from annulet.core.management.whole_queue import TOO_MUCH
from annulet.core.message.message import Message, Origin
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW
from tests.admin.conftest import Site, site
from tests.core.management.test_whole_queue import deep_queue

__all__ = ["site"]


def bodies(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in sorted(queue.order.entries())]


def start(site: Site, queue: Queue, name: str, **given: Any) -> Operation:
    """Do an operation to its end."""
    requests = OperationRequests(site.broker.hosts["/"], site.broker.undo)
    chosen = given if name == "purge" or "ids" in given or "selector" in given else {"everything": True, **given}
    operation = requests.build(queue, name, chosen, user="anna", now=site.clock())
    requests.keep(operation, chosen)
    return finish(site, operation)


def finish(site: Site, operation: Operation) -> Operation:
    for _ in range(1000):
        if operation.step(site.clock()):
            return operation
    raise AssertionError("it does not end")


async def undo(site: Site, operation: Operation) -> Operation:
    keeper, host = operation.action.keeper, site.broker.hosts["/"]
    assert keeper is not None
    plan = await site.broker.undo.plan(host, operation.target, keeper.token)
    return finish(site, site.broker.undo.operation(host, plan, "anna"))


def filled(site: Site, *texts: str, **arguments: Any) -> Queue:
    queue = site.queue("shop", **arguments)
    for text in texts:
        site.publish("shop", text.encode(), item=text)
    return queue


@pytest.mark.parametrize("name", ["delete", "purge", "expire"])
async def test_what_was_removed_comes_back_in_its_order(site: Site, name: str) -> None:
    queue = filled(site, *"abc")
    operation = start(site, queue, name)
    assert (bodies(queue), operation.done) == ([], 3)
    back = await undo(site, operation)
    assert (bodies(queue), back.state, back.done) == ([b"a", b"b", b"c"], "finished", 3)
    assert site.broker.hosts["/"].queues[UNDO_QUEUE].order.count == 0
    check_invariants(queue)


@pytest.mark.parametrize(
    ("name", "given"),
    [("delete", {"ids": [2, 3]}), ("purge", {}), ("expire", {"ids": [1, 3]}), ("move", {"destination": "late"})],
)
async def test_what_comes_back_stands_where_it_stood(site: Site, name: str, given: dict[str, Any]) -> None:
    queue, late = filled(site, *"abc"), site.queue("late")
    operation = start(site, queue, name, **given)
    site.publish("shop", b"d")
    site.publish("late", b"z")
    back = await undo(site, operation)
    assert (bodies(queue), bodies(late), back.state) == ([b"a", b"b", b"c", b"d"], [b"z"], "finished")
    assert [entry.sequence for entry in sorted(queue.order.entries())] == [1, 2, 3, 4]
    check_invariants(queue)


async def test_newer_messages_do_not_make_way_for_what_comes_back(site: Site) -> None:
    ring, last = filled(site, *"abc", ring_size=3), site.queue("last", last_value_key="item")
    site.publish("last", b"old", item="x")
    operations = [start(site, ring, "purge"), start(site, last, "purge")]
    for text in "de":
        site.publish("shop", text.encode())
    site.publish("last", b"new", item="x")
    for operation in operations:
        await undo(site, operation)
    assert (bodies(ring), bodies(last)) == ([b"c", b"d", b"e"], [b"new"])
    assert ring.counters.removed[RemovalReason.REPLACED_RING] == 2
    assert last.counters.removed[RemovalReason.REPLACED_KEY] == 1
    check_invariants(ring)
    check_invariants(last)


async def test_a_queue_declared_anew_gets_messages_behind_its_own(site: Site) -> None:
    queue, host = filled(site, "a", "b"), site.broker.hosts["/"]
    operation = start(site, queue, "purge")
    host.delete_queue(queue, site.clock())
    site.clock.advance(1)
    again = filled(site, "c")
    await undo(site, operation)
    assert bodies(again) == [b"c", b"a", b"b"]
    check_invariants(again)


async def test_ids_of_an_earlier_run_that_the_log_does_not_know_are_not_given_again(site: Site) -> None:
    queue = filled(site, "a")
    operation = start(site, queue, "purge")
    site.broker.undo = UndoWindow(site.broker)  # as after a restart; the log knows no ids of this queue
    site.publish("shop", b"b")
    await undo(site, operation)
    assert [(entry.sequence, entry.message.body) for entry in sorted(queue.order.entries())] == [(2, b"b"), (3, b"a")]


async def test_a_message_comes_back_as_its_sender_encoded_it(site: Site) -> None:
    queue = site.queue("shop")
    origin = Origin("x", "key", "ann@peer", VIEW)
    message = Message(b"\0\0", b"body", origin, priority=7, accepted_at=site.clock())
    message.expires_at = site.clock() + 60_000
    queue.enqueue(message, site.clock())
    await undo(site, start(site, queue, "delete"))
    (entry,) = queue.order.entries()
    found = entry.message
    assert (found.header, found.body, found.priority, found.expires_at) == (b"\0\0", b"body", 7, message.expires_at)
    assert (found.origin.exchange, found.origin.routing_key, found.origin.publisher) == ("x", "key", "ann@peer")


async def test_a_scheduled_message_comes_back_with_its_time(site: Site) -> None:
    queue = site.queue("shop")
    site.publish("shop", b"later", delay=60_000)
    due = site.clock() + 60_000
    operation = start(site, queue, "cancel-scheduled")
    assert queue.schedule.count == 0
    await undo(site, operation)
    assert (queue.schedule.count, queue.schedule.next_at()) == (1, due)


async def test_moved_messages_come_back_from_where_they_are(site: Site) -> None:
    queue, late = filled(site, *"abcd"), site.queue("late")
    operation = start(site, queue, "move", destination="late")
    late.acquire(1, -1, site.clock())  # one is being worked on
    back = await undo(site, operation)
    assert (bodies(queue), bodies(late)) == ([b"b", b"c", b"d"], [])
    assert back.progress.skipped == {"no longer where the operation put it": 1}
    assert back.total == 4


async def test_copies_that_are_still_there_are_removed_again(site: Site) -> None:
    queue, other = filled(site, *"abcd"), site.queue("other")
    site.publish("other", b"theirs")
    operation = start(site, queue, "copy", destination="other")
    assert bodies(other) == [b"theirs", b"a", b"b", b"c", b"d"]
    other.acquire(2, -1, site.clock())  # one copy is being worked on
    back = await undo(site, operation)
    assert (bodies(queue), bodies(other)) == ([b"a", b"b", b"c", b"d"], [])
    assert (back.done, back.progress.skipped) == (3, {"no longer where the operation put it": 1})
    check_invariants(other)


async def test_a_changed_priority_is_changed_back_for_each_former_one(site: Site) -> None:
    queue = site.queue("shop", priorities=10)
    for text, priority in (("a", 1), ("b", 2), ("c", 1), ("d", 5)):
        site.publish("shop", text.encode(), priority=priority)
    operation = start(site, queue, "change-priority", priority=5)
    assert (operation.done, {entry.message.priority for entry in queue.order.entries()}) == (3, {5})
    back = await undo(site, operation)
    found = {entry.message.body: entry.message.priority for entry in queue.order.entries()}
    assert (back.done, found) == (3, {b"a": 1, b"b": 2, b"c": 1, b"d": 5})
    check_invariants(queue)


async def test_redriven_messages_come_back_from_all_queues(site: Site) -> None:
    dead = site.queue("dead")
    for name in ("one", "two"):
        queue = site.queue(name, dead_letter_exchange="", dead_letter_routing_key="dead")
        site.publish(name, name.encode())
        start(site, queue, "dead-letter")
    operation = start(site, dead, "retry")
    assert (operation.done, dead.order.count) == (2, 0)
    back = await undo(site, operation)
    assert (back.done, sorted(bodies(dead))) == (2, [b"one", b"two"])


async def test_an_undone_operation_cannot_be_undone_again(site: Site) -> None:
    queue = filled(site, "a")
    operation = start(site, queue, "delete")
    await undo(site, operation)
    with pytest.raises(NotFound, match="it was undone, or the window of 3600 seconds"):
        await undo(site, operation)


async def test_the_window_ends(site: Site) -> None:
    window = site.broker.undo
    window.seconds = 10
    operation = start(site, filled(site, "a"), "delete")
    site.clock.advance(9_999)
    window.tick(site.clock())
    assert window.forgotten == 0
    site.clock.advance(1)
    window.tick(site.clock())
    assert window.forgotten == 1
    with pytest.raises(NotFound):
        await undo(site, operation)


async def test_an_operation_keeps_no_more_bytes_than_it_may(site: Site) -> None:
    window = site.broker.undo
    queue = filled(site, "a" * 100)
    size = start(site, queue, "delete").action.keeper
    assert size is not None
    kept_in = site.broker.hosts["/"].queues[UNDO_QUEUE]
    window.bytes_max = 2 * kept_in.pending_bytes
    for text in ("b", "c", "d"):
        site.publish("shop", text.encode() * 100, item=text * 100)
    operation = start(site, queue, "delete")
    keeper = operation.action.keeper
    assert keeper is not None
    assert (keeper.kept, keeper.unkept) == (2, 1)
    assert "undo_bytes=" in keeper.reason
    assert (window.dropped, window.unkept) == (1, 1)  # the first operation's gave way
    assert kept_in.pending_bytes <= window.bytes_max
    await undo(site, operation)
    assert len(bodies(queue)) == 2


async def test_no_undo_where_it_is_not_wanted(site: Site) -> None:
    assert start(site, filled(site, "a"), "delete", undo=False).action.keeper is None
    site.broker.undo.seconds = 0
    assert start(site, filled(site, "a"), "delete").action.keeper is None
    assert UNDO_QUEUE not in site.broker.hosts["/"].queues


async def test_a_full_queue_stops_the_undo_and_the_rest_stays_kept(site: Site) -> None:
    queue = filled(site, "a", "b", max_length=2, overflow="reject-publish")
    operation = start(site, queue, "delete")
    site.publish("shop", b"new")
    back = await undo(site, operation)
    assert (back.state, back.done, bodies(queue)) == ("stopped", 1, [b"a", b"new"])
    assert site.broker.hosts["/"].queues[UNDO_QUEUE].order.count == 1


async def test_a_queue_that_is_gone(site: Site) -> None:
    queue = filled(site, "a")
    operation = start(site, queue, "delete")
    site.broker.hosts["/"].delete_queue(queue, site.clock())
    with pytest.raises(NotFound, match="queue 'shop' in vhost '/' is gone"):
        await undo(site, operation)


async def test_what_is_kept_says_what_it_is(site: Site) -> None:
    start(site, filled(site, "a"), "delete")
    (entry,) = site.broker.hosts["/"].queues[UNDO_QUEUE].order.entries()
    facts = read_facts(entry.message)
    assert (facts.operation, facts.queue, facts.user, facts.at) == ("delete", "shop", "anna", site.clock())
    assert (kind_of(entry.message), count_of(entry.message)) == ("kept", 1)
    assert Unwrapping()(entry.message, site.clock()).body == b"a"
    ((found,), complete) = await site.broker.undo.operations(site.broker.hosts["/"], "shop")
    assert (found.count, found.kept, complete) == (1, 1, True)


async def test_a_rate(site: Site) -> None:
    queue = filled(site, *"abcdef")
    requests = OperationRequests(site.broker.hosts["/"], site.broker.undo)
    operation = requests.build(queue, "delete", {"everything": True, "rate": 2}, user="anna", now=site.clock())
    done = []
    for _ in range(3):
        assert not operation.step(site.clock())
        assert not operation.step(site.clock())
        assert operation.waiting
        done.append(operation.done)
        site.clock.advance(1000)
    assert done == [1, 3, 5]
    assert finish(site, operation).done == 6


@pytest.mark.parametrize("rate", [0, RATE_MAX + 1])
async def test_a_rate_out_of_range(site: Site, rate: int) -> None:
    requests = OperationRequests(site.broker.hosts["/"], site.broker.undo)
    with pytest.raises(InvalidArgument, match=f"rate={rate}: give messages a second, 1 to {RATE_MAX}"):
        requests.build(filled(site, "a"), "purge", {"rate": rate}, user="anna", now=site.clock())


@pytest.mark.parametrize("durable", [True, False])
async def test_messages_of_a_queue_declared_anew_are_not_taken_for_the_moved_ones(site: Site, durable: bool) -> None:
    filled(site, "a", "b")
    host = site.broker.hosts["/"]

    def declare() -> Queue:
        declarations = DurableDeclarations(host, site.broker.catalogue)
        return declarations.queue(
            "till", now=site.clock(), durable=durable, auto_delete=False, arguments={}, owner=None
        )

    declare()
    operation = start(site, host.queues["shop"], "move", destination="till")
    host.delete_queue(host.queues["till"], site.clock())
    site.clock.advance(1)
    declare()
    for text in (b"theirs", b"also theirs"):
        site.publish("till", text)
    with pytest.raises(NotFound, match="the queues that the messages were moved to are gone"):
        await undo(site, operation)
    assert bodies(host.queues["till"]) == [b"theirs", b"also theirs"]


async def test_a_note_lives_as_long_as_its_messages(site: Site) -> None:
    queue, host = filled(site, "a"), site.broker.hosts["/"]
    lasting = Message(b"\0\0", b"lasting", Origin("", "shop", "ann@peer", VIEW), durable=True)
    queue.enqueue(lasting, site.clock())
    DurableDeclarations(host, site.broker.catalogue).queue(
        "till", now=site.clock(), durable=True, auto_delete=False, arguments={}, owner=None
    )
    operation = start(site, queue, "move", destination="till")
    notes = [entry.message for entry in sorted(host.queues[UNDO_QUEUE].order.entries())]
    assert [(note.durable, count_of(note)) for note in notes] == [(True, 1), (False, 1)]
    assert (await undo(site, operation)).done == 2


async def test_notes_of_many_queues_have_one_run_for_each(site: Site) -> None:
    host, dead = site.broker.hosts["/"], site.queue("dead")
    for name in ("one", "two"):
        site.queue(name)
    for _ in range(3):
        for name in ("one", "two"):
            site.publish("dead", b"x", _AMQ_ORIG_QUEUE=name)
    operation = start(site, dead, "retry")
    (entry,) = host.queues[UNDO_QUEUE].order.entries()
    assert [(run.queue, run.first, run.count) for run in read_runs(entry.message)] == [
        ("one", 1, 1),
        ("one", 2, 1),
        ("one", 3, 1),
        ("two", 1, 1),
        ("two", 2, 1),
        ("two", 3, 1),
    ]  # their former ids are not consecutive
    back = await undo(site, operation)
    assert back.done == 6
    assert [entry.sequence for entry in sorted(dead.order.entries())] == [1, 2, 3, 4, 5, 6]


async def test_an_envelope_lives_as_long_as_its_message_did(site: Site) -> None:
    queue = site.queue("shop")
    queue.enqueue(Message(b"\0\0", b"x", Origin("", "shop", "ann@peer", VIEW), durable=True), site.clock())
    operation = start(site, queue, "delete")
    (entry,) = site.broker.hosts["/"].queues[UNDO_QUEUE].order.entries()
    assert not entry.message.durable  # the queue does not outlive the broker
    await undo(site, operation)
    (back,) = queue.order.entries()
    assert back.message.durable


async def test_making_room_counts_for_a_slice(site: Site) -> None:
    window = site.broker.undo
    start(site, filled(site, *map(str, range(1200))), "delete")
    kept_in = site.broker.hosts["/"].queues[UNDO_QUEUE]
    window.bytes_max = kept_in.shown_bytes()
    queue = site.queue("large")
    for _ in range(4):
        site.publish("large", b"x" * kept_in.shown_bytes(), item="x")
        site.publish("large", b"x" * (kept_in.shown_bytes() // 10), item="x")
    requests = OperationRequests(site.broker.hosts["/"], window)
    operation = requests.build(queue, "delete", {"everything": True, "rate": RATE_MAX}, user="anna", now=site.clock())
    requests.keep(operation, {})
    site.clock.advance(1000)
    before, ended = 0, False
    while not ended:
        ended = operation.step(site.clock())
        assert window.dropped - before <= 2 * FORGOTTEN_A_TICK  # the message that ends a slice is the second one
        before = window.dropped
    assert before > 2 * FORGOTTEN_A_TICK


async def test_nothing_of_a_deep_queue_with_more_bytes_is_kept_and_the_preview_says_so(site: Site) -> None:
    host, queue, _ = deep_queue()
    site.broker.undo.bytes_max = 61  # the queue has 62
    requests = OperationRequests(host, site.broker.undo)
    operation = requests.build(queue, "purge", {}, user="anna", now=site.clock())
    preview = requests.preview(operation, {})
    while not preview.step(site.clock()):
        pass
    assert requests.expected_undo(operation, {}, preview.result) == {
        "seconds": site.broker.undo.seconds,
        "kept": 0,
        "unkept": 31,
        "reason": TOO_MUCH,
    }


async def test_the_expected_number_is_the_kept_one_for_small_bodies_too(site: Site) -> None:
    queue = filled(site, *(str(number) for number in range(50)))
    site.broker.undo.bytes_max = 2000  # of envelopes, which are larger than their bodies
    requests = OperationRequests(site.broker.hosts["/"], site.broker.undo)
    operation = requests.build(queue, "purge", {}, user="anna", now=site.clock())
    preview = requests.preview(operation, {})
    while not preview.step(site.clock()):
        pass
    keeper = start(site, queue, "purge").action.keeper
    assert keeper is not None
    assert 0 < preview.result.kept == keeper.kept < 50
