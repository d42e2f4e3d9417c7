"""Who is served, by hand: turns, windows, active consumers, groups, fairness, gates and browsers."""

from __future__ import annotations

from typing import Any

from annulet.testing.oracle.records import OracleSession
from tests.testing.oracle.helpers import NOW, consumer, drop, oracle, publish, received, requeue, waiting


def test_consumers_take_turns_within_their_windows() -> None:
    model = oracle()
    first, second = consumer(model, messages_max=2), consumer(model, messages_max=1)
    publish(model, None, None, None, None)
    assert (received(first), received(second), waiting(model)) == ([1, 3], [2], [4])


def test_higher_priority_first_and_lower_when_it_has_no_credit() -> None:
    model = oracle()
    low, high = consumer(model), consumer(model, priority=1, messages_max=2)
    publish(model, None, None, None)
    assert (received(high), received(low)) == ([1, 2], [3])


def test_bytes_let_one_oversized_message_through_and_what_does_not_fit_is_waited_for() -> None:
    model = oracle()
    small = consumer(model, bytes_max=3)
    publish(model, None, size=9)
    publish(model, None, None, size=1)
    assert (received(small), waiting(model)) == ([1], [2, 3])
    other = consumer(model, messages_max=1)
    assert (received(small), received(other)) == ([1], [2])


def test_a_shared_window_counts_all_consumers_of_a_session() -> None:
    model, session = oracle(), OracleSession(messages_max=2)
    consumer(model, session)
    consumer(model, session)
    publish(model, None, None, None)
    assert waiting(model) == [3]


def test_one_is_active_until_it_goes_and_its_deliveries_are_back() -> None:
    model = oracle(exclusive_consumer=True)
    first, second = consumer(model, messages_max=1), consumer(model, priority=5)
    publish(model, None, None)
    model.cancel(first, NOW)
    assert received(second) == []
    requeue(model, first.session)
    assert received(second) == [1, 2]


def test_live_consumers_are_replaced_by_priority_then_age() -> None:
    model = oracle(live_consumers_max=1)
    first, second, third = consumer(model), consumer(model), consumer(model, priority=1)
    model.cancel(first, NOW)
    publish(model, None)
    assert (received(second), received(third)) == ([], [1])


def test_sticky_groups_stay_until_the_last_of_a_gone_consumer_is_settled() -> None:
    model = oracle(group_mode="sticky")
    first, second = consumer(model, messages_max=1), consumer(model)
    publish(model, None, None, group="a")
    publish(model, None, group="b")
    model.cancel(first, NOW)
    assert received(second) == [3]
    drop(model, first.session)
    assert received(second) == [3, 2]


def test_sequence_minus_one_ends_a_pin_and_a_reset_ends_all() -> None:
    model = oracle(group_mode="sticky")
    first, second = consumer(model), consumer(model)
    publish(model, None, group="a", group_sequence=-1)
    publish(model, None, None, group="a")
    assert (received(first), received(second)) == ([1], [2, 3])
    model.reset_groups(None, NOW)
    publish(model, None, group="a")
    assert received(first) == [1, 4]


def test_a_new_consumer_rebalances_and_may_pause_until_all_is_back() -> None:
    model = oracle(group_mode="sticky", group_rebalance=True, group_rebalance_pause=True)
    first = consumer(model)
    publish(model, None, group="a")
    second = consumer(model)
    publish(model, None, group="a")
    assert (received(first), received(second), waiting(model)) == ([1], [], [2])
    drop(model, first.session)
    assert waiting(model) == []


def test_shared_groups_are_free_when_nothing_of_them_is_out_and_no_group_is_one() -> None:
    model = oracle(group_mode="shared")
    first, second = consumer(model, messages_max=1), consumer(model)
    publish(model, None, None)
    assert (received(second), waiting(model)) == ([], [2])
    drop(model, first.session)
    assert received(second) == [2]


def test_buckets_share_an_owner_and_zero_buckets_is_no_grouping() -> None:
    grouped, free = oracle(group_mode="sticky", group_buckets=1), oracle(group_mode="sticky", group_buckets=0)
    counts = []
    for model in (grouped, free):
        consumer(model)
        second = consumer(model)
        for group in "abcd":
            publish(model, None, group=group)
        counts.append(len(received(second)))
    assert counts == [0, 2]


def test_fair_keys_take_turns_by_message_or_by_bytes() -> None:
    orders = []
    for quantum in (0, 2):
        model = oracle(fair_key="t", fair_quantum=quantum)
        for key in "xxxxyy":
            publish(model, None, t=key)
        orders.append(received(consumer(model)))
    assert orders == [[1, 5, 2, 6, 3, 4], [1, 2, 5, 6, 3, 4]]


def test_what_a_turn_sends_too_much_is_taken_off_the_next() -> None:
    model = oracle(fair_key="t", fair_quantum=4)
    publish(model, None, t="x", size=7)
    publish(model, None, None, None, t="x")
    publish(model, None, None, None, None, None, t="y", size=2)
    assert received(consumer(model)) == [1, 5, 6, 2, 7, 8, 3, 4, 9]


def test_caps_skip_a_key_and_stop_a_queue() -> None:
    per_key, per_queue = oracle(fair_key="t", in_flight_per_key=1), oracle(in_flight_max=2)
    for model in (per_key, per_queue):
        publish(model, None, None, t="x")
        publish(model, None, t="y")
        consumer(model)
    assert (waiting(per_key), waiting(per_queue)) == ([2], [3])


def test_the_gate_opens_by_count_or_time_and_shuts_with_the_last_consumer() -> None:
    model = oracle(consumers_before_dispatch=2, delay_before_dispatch=10)
    publish(model, None, None)
    first = consumer(model, messages_max=1)
    model.tick(NOW + 9)
    assert received(first) == []
    model.tick(NOW + 10)
    assert received(first) == [1]
    drop(model, first.session, now=NOW + 10)
    model.close(first.session, NOW + 11)
    second = consumer(model, now=NOW + 11)
    assert received(second) == []
    consumer(model, now=NOW + 12)
    assert len(received(second)) + len(waiting(model)) == 1


def test_selectors_no_local_and_replay_skip_without_holding_up() -> None:
    model, mine = oracle(), object()
    picky: dict[str, Any] = {"selector": lambda properties: properties.get("c") == "red"}
    red = consumer(model, **picky)
    local = consumer(model, OracleSession(connection=mine), no_local=True)
    publish(model, None, c="blue", connection=mine)
    publish(model, None, c="red")
    publish(model, None, c="blue")
    assert (received(red), received(local), waiting(model)) == ([2], [3], [1])
    late = consumer(model, replay_period=0)
    publish(model, None)
    assert (received(late), received(local)) == ([], [3, 4])
    publish(model, None, connection=mine)
    assert received(late) == [5]


def test_a_browser_sees_each_once_and_takes_nothing() -> None:
    model = oracle()
    publish(model, None, None)
    follow, snapshot = consumer(model, browse="follow"), consumer(model, browse="snapshot")
    taker = consumer(model, messages_max=1)
    publish(model, None)
    requeue(model, taker.session)
    assert (received(follow), received(snapshot)) == ([1, 2, 3], [1, 2])


def test_a_non_destructive_queue_shows_everything_to_everybody_once() -> None:
    model = oracle(non_destructive=True, ring_size=2)
    publish(model, None, None)
    first, second = consumer(model), consumer(model, messages_max=1)
    publish(model, None)
    requeue(model, first.session)
    assert (received(first), received(second), waiting(model)) == ([1, 2, 3], [1], [2, 3])
    assert model.reasons == {"replaced-ring": 1}
