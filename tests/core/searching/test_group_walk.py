"""Who waits for what stands behind the lanes of a grouped queue, and what is done for them at once or in turns."""

from __future__ import annotations

from annulet.core.reading.entry_lookup import EntryLookup
from annulet.core.searching import group_walk
from annulet.core.searching.grouped_lanes import LANE_MESSAGES
from annulet.residency.rows.group_column import PASSED_TIMES
from tests.core.deep_doubles import ALL, numbers
from tests.core.grouped_doubles import GroupedDeep, check_grouped
from tests.core.helpers import NOW, RecordingSession

MANY = 3 * LANE_MESSAGES


def behind_a_stalled_group(many: int = MANY, **settings: int) -> GroupedDeep:
    """Return a queue whose first messages are of a group that somebody has who takes no more."""
    deep = GroupedDeep(lambda number: "stalled" if number <= many else "other", **settings)
    deep.publish(many)
    RecordingSession("owner").consume(deep.queue, messages=1)
    deep.publish(10)
    deep.page_out(ALL)
    return deep


def test_what_finds_something_is_done_at_once() -> None:
    deep, session = GroupedDeep(enough=LANE_MESSAGES), RecordingSession()
    deep.publish(MANY)
    deep.page_out(ALL)
    session.consume(deep.queue)
    assert numbers(session) == list(range(1, MANY + 1))
    assert not deep.asking


def test_a_stalled_group_is_passed_over_in_turns() -> None:
    one_look = PASSED_TIMES * LANE_MESSAGES
    deep, session = behind_a_stalled_group(3 * one_look), RecordingSession()
    session.consume(deep.queue)
    assert numbers(session) == []
    assert deep.asking
    assert deep.lanes.sparse
    assert deep.lanes.passed <= one_look + 10, "one look at most is made before others have their turn"
    turns = 0
    while deep.asking:
        deep.asking = deep.queue.scan(NOW)
        turns += 1
    assert turns >= 2
    assert numbers(session) == list(range(3 * one_look + 1, 3 * one_look + 11))
    assert sum(deep.disk.reads) < 2 * LANE_MESSAGES, "nothing but what the owner was given first and what comes now"
    check_grouped(deep.queue)


def test_nothing_is_looked_at_for_nobody() -> None:
    deep = behind_a_stalled_group()
    passed = deep.lanes.passed
    assert group_walk.scan(deep.queue, deep.lanes, 256) == (False, False)
    busy = RecordingSession("busy")
    busy.set_window(0, -1, NOW)
    busy.window.messages_max = 0
    busy.consume(deep.queue)
    deep.queue.pause(NOW)
    RecordingSession("ready").consume(deep.queue)
    deep.take_turns()
    assert deep.lanes.passed == passed


def test_a_queue_with_as_much_in_delivery_as_may_be_looks_at_nothing() -> None:
    deep, session = behind_a_stalled_group(in_flight_max=1), RecordingSession()
    passed = deep.lanes.passed
    session.consume(deep.queue)
    assert not deep.asking
    assert deep.lanes.passed == passed


def test_who_has_something_parked_waits_for_nothing_else() -> None:
    deep, session = behind_a_stalled_group(), RecordingSession()
    session.consume(deep.queue, messages=1)
    deep.take_turns()
    passed = deep.lanes.passed
    owner = next(consumer for consumer in deep.queue.consumers if consumer.session is not session)
    owner.window.messages_max = 20
    deep.queue.wake(NOW)
    assert isinstance(owner.session, RecordingSession)
    assert numbers(owner.session) == list(range(1, 21))
    assert deep.lanes.passed == passed
    assert numbers(session) == [MANY + 1]


def test_what_a_consumer_cannot_take_for_its_size_holds_up_nobody_else() -> None:
    deep, wide, narrow = GroupedDeep(lambda number: "ab"[number % 2]), RecordingSession("wide"), RecordingSession("nar")
    deep.publish(2)
    narrow.consume(deep.queue, octets=15)
    wide.consume(deep.queue, messages=1)
    deep.publish(100)
    deep.page_out(ALL)
    assert (len(numbers(narrow)), len(numbers(wide))) == (1, 1)
    while len(numbers(wide)) < 40:
        wide.acknowledge(min(wide.unacknowledged), NOW)
        deep.take_turns()
    assert len(numbers(narrow)) == 1
    assert {number % 2 for number in numbers(wide)} != {number % 2 for number in numbers(narrow)}
    check_grouped(deep.queue)


def test_what_somebody_took_from_among_rows_of_a_stalled_group_comes_back_in_its_order() -> None:
    """It stands aside above the frontier, between rows that are passed over without reading them."""
    deep = GroupedDeep(lambda number: "stalled" if number <= MANY else "other")
    deep.publish(MANY)
    owner = RecordingSession("owner")
    owner.consume(deep.queue, messages=1)
    deep.publish(10)
    deep.page_out(ALL)
    stock, taken = deep.lanes.standing_stock(), MANY - 100  # the first look reads 256
    (entry,) = stock.look(taken, [], 1) or []
    EntryLookup(deep.queue).claim(entry)
    assert [entry.sequence for entry in stock.in_memory() if not stock.has_row(entry.sequence)].count(taken) == 1
    session = RecordingSession()
    session.consume(deep.queue)
    deep.take_turns()
    assert numbers(session) == list(range(MANY + 1, MANY + 11))
    assert sum(deep.disk.reads) < 2 * LANE_MESSAGES, "for its sake nothing else is read"
    known = deep.lanes.table.groups["stalled"].parked_sequences
    assert known is not None
    assert known.leading(ALL) == list(range(known.first, MANY + 1))
    check_grouped(deep.queue)
    while owner.unacknowledged:
        owner.acknowledge(max(owner.unacknowledged), NOW, multiple=True)
        deep.take_turns()
    assert numbers(owner) == list(range(1, MANY + 1))
