"""Messages into other queues: what a copy keeps, who refuses it, and the way back of dead letters."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.management import copy_messages, delete_messages, move_messages, retry_messages, select
from annulet.core.management.operation import FINISHED, STOPPED
from annulet.core.management.transfer import original_queue
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, removed
from tests.core.management.bench import Bench, bodies, letter, run
from tests.residency.doubles import Disk, pages_of, stored_entries

ALL = select(everything=True)


def move(bench, selection=ALL, destination="other", now=NOW):
    operation = move_messages(bench.host, bench.host.queues["q"], selection, destination, user="anna", now=now)
    run(operation, now)
    return operation


def test_moved_messages_keep_their_order_and_what_they_are():
    bench, session = Bench(), RecordingSession()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, "a", priority=7, expires_at=NOW + 500)
    bench.send(queue, "b")
    session.consume(queue, messages=1)
    session.close(NOW)
    move(bench, now=NOW + 10)
    assert bodies(other) == "ab"
    first = other.order.first()
    assert first is not None
    message = first.message
    assert (message.priority, message.expires_at, message.accepted_at) == (7, NOW + 500, NOW + 10)
    assert (first.delivery_count, first.redelivered) == (0, False)
    assert message.origin.publisher == "guest@test"
    assert removed(queue, RemovalReason.MOVED) == 2
    assert list(bench.host.ledger.query()) == []  # a move is no loss
    for held in (queue, other):
        check_invariants(held)


def test_a_copy_leaves_its_source():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, *"abc")
    operation = copy_messages(bench.host, queue, select(selector="k <> 'b'"), "other", user="anna", now=NOW)
    run(operation)
    assert (bodies(queue), bodies(other), operation.done) == ("abc", "ac", 2)


def test_a_copy_is_stored_before_its_source_is_settled_and_in_one_transaction():
    bench = Bench()
    queue, _ = bench.queue(durable=True), bench.queue("other", durable=True)
    bench.send(queue, "a", durable=True)
    bench.send(queue, "t")
    del bench.effects.calls[:]
    move(bench)
    assert bench.effects.calls[:4] == [("begin", None), ("store", b"a"), ("settle", b"a"), ("end", None)]
    assert bench.effects.calls[4:] == [("settle", b"a")], "again, when it leaves memory: a log takes no notice"


def test_a_full_disk_stops_it_and_the_source_stays():
    bench = Bench()
    queue, other = bench.queue(durable=True), bench.queue("other", durable=True)
    bench.send(queue, *"abc", durable=True)
    bench.effects.refuse_store_of = b"b"
    operation = move(bench)
    assert (operation.state, operation.reason) == (STOPPED, "message 2: no space left on device")
    assert (bodies(queue), operation.done, operation.matched) == ("bc", 1, 1)
    assert bench.effects.calls[-1] == ("abort", None)
    assert set(bench.effects.settled) == {("q", 1)}
    assert len(bench.effects.audit) == 1
    assert bodies(other) == "a"
    check_invariants(other)


def test_where_the_log_has_no_room_for_the_commit_the_message_stays_where_it_was():
    """Moved in memory only, it would be in both queues after a restart."""
    bench = Bench()
    queue, other = bench.queue(durable=True), bench.queue("other", durable=True)
    bench.send(queue, *"ab", durable=True)
    bench.effects.refuse_commits = True
    operation = move(bench)
    assert (operation.state, operation.reason) == (STOPPED, "message 1: no room for the commit")
    assert (bodies(queue), bodies(other)) == ("ab", "")
    assert removed(queue, RemovalReason.MOVED) == 0
    for one in (queue, other):
        check_invariants(one)
    bench.effects.refuse_commits = False
    move(bench)
    assert (bodies(queue), bodies(other)) == ("", "ab")


@pytest.mark.parametrize(
    ("settings", "reason", "moved"),
    [
        ({"max_length": 2, "overflow": "reject"}, "queue 'other' is full: with this message 3 messages", 2),
        ({"max_bytes": 1, "overflow": "reject"}, "max-bytes is 1", 1),
        ({"max_length": 2, "overflow": "block"}, "queue 'other' is full: with this message 3 messages", 2),
        ({"max_length": 2, "overflow": "block", "resume_length": 0}, "queue 'other' is full", 2),
        ({"purge_on_no_consumers": True}, "drops everything (purge-on-no-consumers)", 0),
    ],
)
def test_a_destination_that_refuses_stops_it_before_the_message_left(settings, reason, moved):
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other", **settings)
    bench.send(queue, *"abcd")
    operation = move(bench)
    assert operation.state == STOPPED
    assert reason in operation.reason
    assert (operation.done, bodies(queue), bodies(other)) == (moved, "abcd"[moved:], "abcd"[:moved])
    assert operation.reason in bench.effects.audit[0].outcome


def test_publishers_of_a_blocked_queue_are_not_overtaken():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other", max_length=2, overflow="block", resume_length=0)
    bench.send(other, *"xyz")
    other.remove(other.order.entries()[0], RemovalReason.DELETED, NOW)
    other.remove(other.order.entries()[0], RemovalReason.DELETED, NOW)
    bench.send(queue, "a")
    assert "holds publishers back (overflow=block)" in move(bench).reason


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("FAIL", "page-limit-messages is 1"),
        ("DROP", "address 'other' is full and drops arrivals (page-full-policy drop)"),
    ],
)
def test_an_address_that_may_page_no_more_refuses_too(policy, reason):
    bench = Bench()
    bench.host.address_settings.set(
        "other", {"max-size-messages": 1, "page-limit-messages": 1, "page-full-policy": policy}
    )
    queue, _ = bench.queue(), bench.queue("other")
    bench.host.route("", "other")
    bench.send(queue, *"abcd")
    operation = move(bench)
    assert reason in operation.reason
    assert (operation.done, bodies(queue)) == (2, "cd")


@pytest.mark.parametrize(
    ("policy", "reason", "moved"),
    [
        ("FAIL", "address 'other' is full", 2),
        ("DROP", "drops arrivals (address-full-policy drop)", 2),
        ("BLOCK", "holds publishers back (address-full-policy block)", 2),
    ],
)
def test_a_full_address_refuses_too(policy, reason, moved):
    bench = Bench()
    bench.host.address_settings.set("other", {"max-size-messages": 2, "address-full-policy": policy})
    queue, _ = bench.queue(), bench.queue("other")
    bench.host.route("", "other")
    bench.send(queue, *"abcd")
    operation = move(bench)
    assert reason in operation.reason
    assert operation.done == moved


def test_a_ring_takes_moved_messages_as_it_takes_any():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other", ring_size=2)
    bench.send(queue, *"abcd")
    assert move(bench).done == 4
    assert bodies(other) == "cd"
    assert removed(other, RemovalReason.REPLACED_RING) == 2


def test_what_the_destination_can_never_hold_is_passed_over():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other", max_bytes=3)
    bench.host.update_queue(other, QueueSettings(max_bytes=3, overflow="ring", selector="k <> 'b'"), NOW)
    bench.send(queue, "aaaa", "b", "c")
    operation = move(bench)
    assert operation.skipped == {
        "larger than the destination's max-bytes": 1, "does not pass the destination's selector": 1
    }  # fmt: skip
    assert (operation.state, bodies(queue), bodies(other)) == (FINISHED, "aaaab", "c")


def test_a_destination_that_goes_meanwhile_stops_it():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, *"abcd")
    operation = move_messages(bench.host, queue, ALL, "other", user="anna", now=NOW)
    operation.step(NOW, 2)
    bench.host.delete_queue(other, NOW)
    run(operation)
    assert (operation.state, operation.reason, bodies(queue)) == (STOPPED, "queue 'other' was deleted", "cd")


def test_a_scheduled_message_keeps_its_time_and_one_that_was_keeps_its_age():
    bench = Bench()
    queue, other = bench.queue(), bench.queue("other")
    bench.send(queue, "a", deliver_at=NOW + 5)
    bench.send(queue, "b", deliver_at=NOW + 100)
    queue.tick(NOW + 5)
    assert move(bench, select(everything=True, scheduled=True), now=NOW + 10).done == 2
    assert (bodies(other), other.next_due_at()) == ("a", NOW + 100)
    # a delay counts from the acceptance, so a copy that was sent with one is not delayed again after a restart
    assert [entry.message.accepted_at for entry in other.order.entries()] == [NOW]
    check_invariants(other)


def test_a_waiting_consumer_gets_it_at_once():
    bench, session = Bench(), RecordingSession()
    queue, other = bench.queue(), bench.queue("other")
    session.consume(other)
    bench.send(queue, *"ab")
    assert move(bench).done == 2
    assert session.received == ["a", "b"]


# ------------------------------------------------------------------ retry


def dead_letters(bench, **settings):
    """A queue ``q`` whose dead letters go to ``dead``."""
    bench.host.declare_exchange("letters", "fanout")
    dead = bench.queue("dead", durable=True)
    bench.host.bind_queue(dead, "letters", "")
    return bench.queue(durable=True, dead_letter_exchange="letters", **settings), dead


def die(queue, *names):
    session = RecordingSession()
    session.consume(queue, messages=len(names))
    session.reject(0, NOW, requeue=False, multiple=True)
    session.close(NOW)


def publish(bench, *names, exchange="", **options):
    for name in names:
        message = letter(name, durable=True, **options)
        message.origin.exchange = exchange
        bench.host.publisher.publish(message, bench.host.route(exchange, "q"), NOW)


def retry(bench, selection=ALL, now=NOW):
    operation = retry_messages(bench.host, bench.host.queues["dead"], selection, user="anna", now=now)
    run(operation, now)
    return operation


def test_a_retry_sends_dead_letters_home_as_they_were_sent():
    bench = Bench()
    queue, dead = dead_letters(bench)
    bench.host.declare_exchange("orders", "direct")
    bench.host.bind_queue(queue, "orders", "q")
    publish(bench, "a", "b", exchange="orders", headers={"n": 1})
    die(queue, "a", "b")
    assert (bodies(queue), bodies(dead)) == ("", "ab")
    operation = retry(bench, now=NOW + 10)
    assert (operation.done, bodies(queue), bodies(dead)) == (2, "ab", "")
    assert removed(dead, RemovalReason.MOVED) == 2
    entry = queue.order.first()
    assert entry is not None
    message = entry.message
    assert (message.origin.exchange, message.origin.routing_key, message.accepted_at) == ("orders", "q", NOW + 10)
    view = message.origin.view
    assert view.application_property(message, "n") == 1
    assert view.application_property(message, "_AMQ_ORIG_QUEUE") is None  # a later death names its own queue
    assert [death.count for death in view.deaths(message)] == [1]  # the trail stays
    die(queue, "a")
    died_again = dead.order.first()
    assert died_again is not None
    assert [death.count for death in view.deaths(died_again.message)] == [2]
    check_invariants(queue)


def test_a_retry_gives_a_new_life():
    bench = Bench()
    queue, dead = dead_letters(bench, message_ttl=100)
    publish(bench, "a")
    queue.tick(NOW + 100)
    assert bodies(dead) == "a"
    retry(bench, now=NOW + 5000)
    assert bodies(queue) == "a"
    queue.tick(NOW + 5099)
    assert bodies(queue) == "a"
    queue.tick(NOW + 5100)
    assert (bodies(queue), bodies(dead)) == ("", "a")


def test_what_has_no_way_home_stays():
    bench = Bench()
    _, dead = dead_letters(bench)
    for body, headers in (
        ("n", None),
        ("g", {"_AMQ_ORIG_QUEUE": "gone"}),
        ("h", {"_AMQ_ORIG_QUEUE": "dead"}),
        ("q", {"_AMQ_ORIG_QUEUE": "q"}),
    ):
        dead.enqueue(letter(body, headers=headers), NOW)
    operation = retry(bench)
    assert operation.skipped == {
        "names no original queue": 1, "its original queue does not exist": 1, "this is its original queue": 1
    }  # fmt: skip
    assert (operation.state, operation.done, bodies(dead)) == (FINISHED, 1, "ngh")


def test_a_full_original_queue_keeps_back_its_own_and_no_others():
    bench = Bench()
    _, dead = dead_letters(bench)
    full = bench.queue("full", max_length=1, overflow="reject")
    for body, name in (("1", "full"), ("2", "full"), ("3", "q")):
        dead.enqueue(letter(body, headers={"_AMQ_ORIG_QUEUE": name}), NOW)
    operation = retry(bench)
    assert operation.skipped == {"its original queue refuses it": 1}
    assert (bodies(dead), bodies(full), bodies(bench.host.queues["q"])) == ("2", "1", "3")


def test_to_ask_a_full_address_is_not_a_refusal_of_it():
    """These count what was sent; a retry asks once for each dead letter, as often as an operator tries."""
    bench = Bench()
    queue, dead = dead_letters(bench)
    bench.send(queue, "3")
    bench.host.address_settings.set("full", {"max-size-messages": 0, "address-full-policy": "FAIL"})
    full = bench.queue("full")
    bench.host.route("", "full")
    for body in "12":
        dead.enqueue(letter(body, headers={"_AMQ_ORIG_QUEUE": "full"}), NOW)
    assert retry(bench).skipped == {"its original queue refuses it": 2}
    assert "max-size-messages is 0" in move(bench, destination="full").reason
    account = bench.host.limited.account_of("full")
    assert (account.refused, bench.host.accounts.refused, bodies(full)) == (0, 0, "")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, ""),
        ({"_AMQ_ORIG_QUEUE": ""}, ""),
        ({"_AMQ_ORIG_QUEUE": 7}, ""),
        ({"_AMQ_ORIG_QUEUE": "q"}, "q"),
        ({"x-death": [{"queue": "late", "reason": "expired"}, {"queue": "first", "reason": "rejected"}]}, "first"),
        ({"_AMQ_ORIG_QUEUE": "q", "x-death": [{"queue": "late", "reason": "expired"}]}, "q"),
    ],
)
def test_the_original_queue_is_artemis_property_else_the_oldest_death(headers, expected):
    message = letter("m", headers=headers)
    assert original_queue(message, message.origin.view.deaths(message)) == expected


def test_deleting_dead_letters_sends_them_nowhere():
    bench = Bench()
    queue, dead = dead_letters(bench)
    publish(bench, "a")
    run(delete_messages(bench.host, queue, ALL, user="anna", now=NOW))
    assert (bodies(queue), bodies(dead)) == ("", "")


def test_a_full_disk_brings_no_deep_destination_into_memory():
    bench = Bench()
    queue, other = bench.queue(durable=True), bench.queue("other", durable=True)
    disk = Disk()
    other.queue_id = 7
    for entry in stored_entries(other, disk, 10):
        other.insert(entry, arrival=True)
    order = paged_order_of(other, pages_of(other, disk))
    assert order is not None
    order.keep_messages = 2
    assert order.page_out(1 << 60, 100) == 8
    bench.send(queue, "a", durable=True)
    bench.effects.refuse_store_of = b"a"
    assert move(bench).state == STOPPED
    assert (bodies(queue), order.count, order.paged_count()) == ("a", 10, 8)
