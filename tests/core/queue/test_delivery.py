"""Who is handed what, and by pull."""

from __future__ import annotations

import pytest

from annulet.core.message.message import Origin
from annulet.core.queue.invariants import check_invariants
from tests.core.deep_doubles import Deep, check_parts_behind_lanes, numbers
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of, send


def test_consumer_priority_decides_among_those_who_may_have_the_message():
    queue, low, high = queue_of(), RecordingSession("low"), RecordingSession("high")
    low.consume(queue, priority=0)
    high.consume(queue, priority=9, selector="k = 'b'")
    send(queue, "a", "b", "c")
    assert (low.received, high.received) == (["a", "c"], ["b"])


def test_turns_go_on_across_lanes():
    queue, one, two = queue_of(), RecordingSession("1"), RecordingSession("2")
    for session in (one, two):
        session.consume(queue, selector="k IS NOT NULL")
    send(queue, "a", "b", "c", "d")
    assert (one.received, two.received) == (["a", "c"], ["b", "d"])


def test_an_expired_message_at_the_head_of_a_lane_is_removed_not_delivered():
    queue, session = queue_of(group_mode="sticky"), RecordingSession()
    queue.enqueue(make_message("old", expires_at=NOW + 5, JMSXGroupID="a"), NOW)
    queue.enqueue(make_message("new", JMSXGroupID="a"), NOW)
    session.consume(queue, now=NOW + 5)
    assert session.received == ["new"]


def test_a_pull_takes_no_more_than_the_queue_lets_out():
    queue = queue_of(in_flight_max=2)
    send(queue, "a", "b", "c")
    assert [entry.message.body for entry in queue.acquire(10, -1, NOW)] == [b"a", b"b"]
    assert pending(queue) == ["c"]


def test_a_pull_stops_at_its_bytes_and_its_last_sequence():
    queue = queue_of(priorities=10)
    for body, priority in [("aa", 0), ("bb", 9), ("cc", 0)]:
        queue.enqueue(make_message(body, priority=priority), NOW)
    assert [entry.message.body for entry in queue.acquire(10, 3, NOW)] == [b"bb"]
    assert [entry.message.body for entry in queue.acquire(10, -1, NOW, last_sequence=2)] == [b"aa"]


def test_a_pull_passes_over_what_arrived_later_wherever_it_stands():
    queue = queue_of(priorities=10)
    for body, priority in [("a", 0), ("b", 9), ("c", 5), ("d", 9), ("e", 0)]:
        queue.enqueue(make_message(body, priority=priority), NOW)
    assert [entry.message.body for entry in queue.acquire(10, -1, NOW, last_sequence=3)] == [b"b", b"c", b"a"]
    assert (pending(queue), queue.pending_bytes) == (["d", "e"], 2)
    check_invariants(queue)


def test_one_that_fell_due_late_does_not_hide_what_was_there():
    queue = queue_of()
    send(queue, "a", "b")
    queue.enqueue(make_message("due", deliver_at=NOW + 5), NOW)
    send(queue, "c")
    queue.tick(NOW + 5)
    assert pending(queue) == ["due", "a", "b", "c"]
    assert [entry.message.body for entry in queue.acquire(1, -1, NOW + 5, last_sequence=2)] == [b"a"]
    assert pending(queue) == ["due", "b", "c"]
    assert queue.acquire(9, -1, NOW + 5, last_sequence=1) == []
    check_invariants(queue)


def test_in_plain_order_a_pull_ends_at_the_first_that_is_too_late():
    queue = queue_of()
    send(queue, *"abcd")
    queue.acquire(9, -1, NOW, last_sequence=1)
    before = queue.order.entries()
    assert queue.acquire(9, -1, NOW, last_sequence=1) == []
    assert queue.order.entries() == before
    assert queue.order.held() == set(before)


def test_a_fair_key_keeps_its_turn_when_it_is_passed_over():
    queue, session = queue_of(fair_key="k"), RecordingSession()
    for body in ("x1", "y1", "z1", "x2"):
        queue.enqueue(make_message(body, k=body[0]), NOW)
    assert [entry.message.body for entry in queue.acquire(9, -1, NOW, last_sequence=1)] == [b"x1"]
    session.consume(queue)
    assert session.received == ["y1", "z1", "x2"]
    check_invariants(queue)


@pytest.mark.parametrize("settings", [{"group_mode": "sticky", "group_key": "k"}, {"non_destructive": True}])
def test_a_pull_with_a_last_sequence_from(settings):
    queue = queue_of(priorities=10, **settings)
    for body, priority in [("a", 0), ("b", 0), ("c", 9)]:
        queue.enqueue(make_message(body, priority=priority, k=body), NOW)
    assert [entry.message.body for entry in queue.acquire(9, -1, NOW, last_sequence=2)] == [b"a", b"b"]
    check_invariants(queue)


def test_who_waited_for_room_is_served_at_once_when_its_next_message_became_another():
    queue, small, other = queue_of(group_mode="sticky", group_key="g"), RecordingSession("a"), RecordingSession("b")
    small.consume(queue, octets=4)
    for body, properties in (("x", {}), ("mmmm", {"g": "a"}), ("n", {"g": "a", "n": 2}), ("z", {})):
        queue.enqueue(make_message(body, **properties), NOW)
    assert small.received == ["x"]  # it waits for the large one
    other.consume(queue, selector="n = 2")
    assert other.received == ["n"]  # and owns the group now, the large message as well
    assert small.received == ["x", "z"]


def test_a_browser_does_not_wait_for_what_was_taken_away_in_the_same_call():
    queue, browser, taker = queue_of(), RecordingSession("a"), RecordingSession("b")
    for number, body in enumerate(("x", "yyy", "zz"), 1):
        queue.enqueue(make_message(body, n=number), NOW)
    browser.consume(queue, browse="snapshot", octets=3)
    assert browser.received == ["x"]
    taker.consume(queue, selector="n = 2", auto_acknowledge=True)
    assert browser.received == ["x", "zz"]


def test_who_pulls_copies_gets_none_of_what_has_expired():
    queue, session = queue_of(non_destructive=True), RecordingSession()
    queue.enqueue(make_message("old", expires_at=NOW + 5), NOW)
    queue.enqueue(make_message("new"), NOW)
    entry, _ = session.get(queue, NOW + 5, auto_acknowledge=False)
    assert entry.message.body == b"new"
    assert pending(queue) == ["new"]
    check_invariants(queue)


def test_what_the_stock_gives_one_moves_the_turn_on_to_the_next() -> None:
    deep, session, choosy = Deep(), RecordingSession(), RecordingSession("choosy")
    deep.queue.matchers.lanes_max = 3
    deep.queue.pause(NOW)
    session.consume(deep.queue)
    deep.publish(3)
    choosy.consume(deep.queue, selector="seven NOT IN (4, 6)")
    deep.publish(4)
    deep.queue.resume(NOW)
    assert numbers(session) == [1, 3, 4, 6]
    assert numbers(choosy) == [2, 5, 7]


def test_who_wants_nothing_of_his_own_connection_keeps_his_turn_before_rows() -> None:
    deep, session = Deep(1000), RecordingSession()
    session.connection_identity = object()
    session.set_window(2, -1, NOW)
    session.consume(deep.queue, "choosy", no_local=True)
    deep.take_turns()
    session.consume(deep.queue, "plain")
    assert numbers(session) == [1, 2]
    for last in range(2, 600, 2):
        session.acknowledge(last, NOW, multiple=True)  # both have room again
        assert len(session.received) == last + 2, "nobody waits for another turn of the loop"
    assert session.by_consumer["plain"] == [f"{number:10}" for number in range(4, 601, 2)]
    assert session.by_consumer["choosy"] == [f"{number:10}" for number in (1, 2, *range(3, 601, 2))]
    check_invariants(deep.queue)
    check_parts_behind_lanes(deep.queue)


def test_what_is_his_own_goes_to_others_before_rows_and_his_turn_waits() -> None:
    deep, session, other = Deep(), RecordingSession(), RecordingSession("other")
    session.connection_identity = object()
    foreign, own = deep.origin, Origin("", "q", "guest@test", deep.view, session.connection_identity)
    for origin in (foreign, own, own, own, foreign, foreign):
        deep.origin = origin
        deep.publish(100)
    deep.page_out(1 << 60)
    deep.queue.pause(NOW)
    session.consume(deep.queue, no_local=True)
    other.consume(deep.queue)
    deep.queue.resume(NOW)
    deep.take_turns()
    assert numbers(session) == [*range(1, 101, 2), *range(401, 601, 2)]
    assert numbers(other) == [*range(2, 101, 2), *range(101, 401), *range(402, 601, 2)]
    check_invariants(deep.queue)


@pytest.mark.parametrize("behind", [0, 1])
def test_what_the_stock_gives_counts_before_the_lanes_give_more(behind: int) -> None:
    deep, choosy, session = Deep(3 + behind, keep=0, in_flight_max=2), RecordingSession("choosy"), RecordingSession()
    choosy.consume(deep.queue, selector="seven IN (1, 3)", messages=1)
    deep.take_turns()
    assert numbers(choosy) == [1]
    session.consume(deep.queue)
    deep.take_turns()
    assert numbers(session) == [2], "two are out"
    session.acknowledge(1, NOW)
    deep.take_turns()
    assert numbers(session) == [2, 3]
    check_invariants(deep.queue)
