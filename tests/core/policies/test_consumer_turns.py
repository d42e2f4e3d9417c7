"""Who is served: priority, then turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.settings import BROWSE_FOLLOW
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.policies.consumer_turns import PASSED_ROUNDS, ConsumerTurns
from tests.core.helpers import NOW, RecordingSession, make_queue, queue_of, send


def test_equal_consumers_take_turns_and_lower_priority_waits_for_blocked_ones():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, "low", priority=-1)
    session.consume(queue, "x", messages=2)
    session.consume(queue, "y", messages=1)
    send(queue, "1", "2", "3", "4")
    assert session.by_consumer == {"x": ["1", "3"], "y": ["2"], "low": ["4"]}


@pytest.mark.parametrize(("leaves", "following"), [("a", "cbc"), ("b", "cac"), ("c", "aba")])
def test_the_turn_stays_with_the_same_consumer_when_another_leaves(leaves, following):
    dispatch, session, queue = ConsumerTurns(), RecordingSession(), make_queue()
    consumers = {tag: Consumer(session, queue, tag) for tag in "abc"}
    for consumer in consumers.values():
        dispatch.add(consumer)
    served = [dispatch.choose(0), dispatch.choose(0)]
    assert served == [consumers["a"], consumers["b"]]
    dispatch.remove(consumers[leaves])
    assert "".join(dispatch.choose(0).tag for _ in range(3)) == following
    with pytest.raises(ValueError, match="not attached"):
        dispatch.remove(consumers[leaves])


def test_live_and_former_consumers_are_named_without_an_election():
    queue, one, two = queue_of(single_active_consumer=True), RecordingSession("1"), RecordingSession("2")
    first = one.consume(queue, "first")
    send(queue, "a")
    second = two.consume(queue, "second")
    assert (queue.consumers.live, queue.consumers.former) == ([first], [])
    one.detach("first", NOW)
    assert (queue.consumers.live, queue.consumers.former) == ([], [first])
    queue.acknowledge(one.unacknowledged.pop(1))
    assert (queue.consumers.live, queue.consumers.former) == ([], [])
    send(queue, "b")
    assert queue.consumers.live == [second]


def test_who_comes_before_others_by_priority_is_known():
    queue, session, other = make_queue(), RecordingSession("1"), RecordingSession("2")
    low = session.consume(queue, "low")
    assert not queue.consumers.outranks(low), "there is nobody else"
    high = other.consume(queue, "high", priority=1)
    assert (queue.consumers.outranks(low), queue.consumers.outranks(high)) == (False, True)
    assert (session.outranks, other.outranks) == (False, True)
    browser = other.consume(make_queue(), "browser", browse=BROWSE_FOLLOW)
    assert not browser.queue.consumers.outranks(browser), "nobody is served there"


@given(
    windows=st.lists(
        st.tuples(st.integers(-1, 1), st.integers(0, 4), st.sampled_from([-1, 6, 12]), st.booleans()),
        min_size=1,
        max_size=9,
    ),
    live_max=st.sampled_from([-1, -1, 1, 3]),
    before=st.integers(0, 4),
    sizes=st.lists(st.integers(1, 13), max_size=25),
)
def test_who_asks_only_the_able_ones_chooses_as_if_all_were_asked(windows, live_max, before, sizes):
    def attached(dispatch):
        for number, (priority, messages, octets, writable) in enumerate(windows):
            session = RecordingSession()
            session.writable = writable
            window = CreditWindow(messages, octets)
            dispatch.add(Consumer(session, make_queue(), str(number), window=window, priority=priority))
        return dispatch

    def given_to(chosen, size):
        if chosen is not None:
            chosen.take(size)
        return None if chosen is None else chosen.tag

    every, able_only = attached(ConsumerTurns(live_max)), attached(ConsumerTurns(live_max))
    for _ in range(before):  # the turn is anywhere
        assert given_to(every.choose(1), 1) == given_to(able_only.choose(1), 1)
    able = able_only.able()
    for size in sizes:
        assert given_to(able_only.choose_able(able, size), size) == given_to(every.choose(size), size)
    follows = every.in_turn()
    assert [consumer.tag for consumer in able_only.in_turn()] == [consumer.tag for consumer in follows]


def test_who_was_passed_over_is_counted_on_all_levels():
    queue, session = make_queue(), RecordingSession()
    for number in range(3):
        session.consume(queue, f"full{number}", messages=0, priority=1)
    session.consume(queue, "full", messages=0)
    session.consume(queue, "free")
    assert queue.consumers.choose(1).tag == "free"
    assert queue.consumers.passed == 4
    assert queue.consumers.choose(1).tag == "free"
    assert queue.consumers.passed == 4, "its turn comes after the other's again"


def test_turns_go_on_where_most_have_no_room():
    queue, session = make_queue(), RecordingSession()
    queue.paused = True
    queue.configure()
    for number in range(8):
        session.consume(queue, f"full{number}", messages=0)
    session.consume(queue, "x", messages=9)
    for number in range(4):
        session.consume(queue, f"later full{number}", messages=0)
    session.consume(queue, "y", messages=12)
    numbers = [str(number) for number in range(1, 24)]
    assert len(numbers) // 2 * 12 > PASSED_ROUNDS * queue.consumers.count, "it is found out who has room"
    send(queue, *numbers)
    queue.paused = False
    queue.configure()
    queue.wake(NOW)
    assert session.by_consumer == {"x": numbers[:17:2], "y": [*numbers[1:18:2], *numbers[18:21]]}
    session.acknowledge(1, NOW)
    assert session.by_consumer["x"] == [*numbers[:17:2], "22"], "room that came back counts in the next dispatch"


def test_who_needs_no_room_is_asked_with_a_window_that_is_full():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, messages=0, auto_acknowledge=True)
    send(queue, "1", "2")
    assert session.received == ["1", "2"]


@pytest.mark.parametrize(
    ("held", "size", "chosen"),
    [(4, 2, "bytes"), (4, 3, "other"), (6, 0, "bytes"), (6, 1, "other"), (0, 9, "bytes"), (9, 0, "other")],
)
def test_a_window_of_bytes_says_who_is_passed_over(held, size, chosen):
    queue, session = make_queue(), RecordingSession()
    limited = session.consume(queue, "bytes", octets=6)
    session.consume(queue, "other")
    if held:
        limited.take(held)
    assert queue.consumers.choose(size).tag == chosen
    assert limited.allows(size) is (chosen == "bytes")


def test_a_window_of_bytes_binds_nobody_who_settles_at_once():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, octets=1, auto_acknowledge=True).take(1)
    send(queue, "12", "3")
    assert session.received == ["12", "3"]


def test_only_some_are_asked_who_have_room():
    queue, session = make_queue(), RecordingSession()
    first, full, second, other = (
        session.consume(queue, "first"),
        session.consume(queue, "full", messages=0),
        session.consume(queue, "second", octets=6),
        session.consume(queue, "other"),
    )
    turns = queue.consumers
    able = turns.able([first, full, second])
    second.take(4)
    chosen = [turns.choose_able(able, size).tag for size in (1, 9, 1, 1)]
    assert chosen == ["first", "first", "second", "first"], "who lacked room for a large one waits for a turn"
    assert turns.in_turn() == [full, second, other, first]
    session.writable = False
    assert turns.choose_able(able, 1) is None
    assert [len(places) for places in able] == [0]
