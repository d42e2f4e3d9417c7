"""The oracle against the published scenarios, by hand: what the core is compared with must be right itself."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import BROWSE_FOLLOW, QueueSettings
from annulet.testing.oracle.records import DELIVERING, GONE, SCHEDULED, OracleMessage, OracleSession
from tests.testing.oracle.helpers import NOW, consumer, drop, oracle, publish, received, requeue, waiting


def test_r12_a_ring_keeps_the_last() -> None:
    model = oracle(ring_size=3)
    publish(model, None, None, None, None)
    assert (waiting(model), model.reasons) == ([2, 3, 4], {"replaced-ring": 1})


def test_r13_r16_what_returns_obeys_the_ring_newest_first() -> None:
    model, session = oracle(ring_size=3), OracleSession()
    consumer(model, session, messages_max=4)
    publish(model, *[None] * 5)
    model.close(session, NOW)
    assert (waiting(model), model.reasons) == ([3, 4, 5], {"replaced-ring": 2})


def test_r14_a_schedule_that_falls_due_is_dropped_when_the_ring_is_full() -> None:
    model = oracle(ring_size=3)
    publish(model, None, deliver_at=NOW + 5)
    publish(model, None, None, None)
    model.tick(NOW + 5)
    assert (waiting(model), model.reasons) == ([2, 3, 4], {"replaced-ring": 1})


def test_r18_keys_are_replaced_before_the_ring_applies() -> None:
    model = oracle(ring_size=2, last_value_key="k")
    publish(model, "a", "b", "b")
    assert (waiting(model), model.reasons) == ([1, 3], {"replaced-key": 1})


def test_r19_the_least_important_goes() -> None:
    model = oracle(ring_size=3, priorities=10)
    for priority in (9, 0, 0, 0):
        publish(model, None, priority=priority)
    assert waiting(model) == [1, 3, 4]


def test_r20_r21_attempts_and_delay_before_the_ring() -> None:
    delayed, dead = oracle(ring_size=1, redelivery_delay=9), oracle(ring_size=2, max_delivery_attempts=1)
    for model in (delayed, dead):
        session = OracleSession()
        consumer(model, session, messages_max=1)
        publish(model, None, None)
        model.cancel(model.dispatching.consumers[0], NOW)
        requeue(model, session)
    assert (delayed.reasons, dead.reasons) == ({"replaced-ring": 1}, {"rejected": 1})


def test_redelivery_waits_longer_each_time_up_to_its_cap() -> None:
    model = oracle(redelivery_delay=5000, redelivery_multiplier=2.0, max_redelivery_delay=15000)
    assert [model.redelivery_delay(count) for count in (1, 2, 3, 4)] == [5000, 10000, 15000, 15000]
    consumer(model, session := OracleSession(), messages_max=1)
    message, _ = publish(model, None, None)
    requeue(model, session)
    assert (message.state, received(session)) == (SCHEDULED, [1, 2])
    requeue(model, session)
    model.tick(NOW + 5000)
    assert (received(session)[:3], waiting(model)) == ([1, 2, 1], [2])


def test_an_older_one_that_falls_due_has_the_room_that_one_left_which_expired_in_the_same_instant() -> None:
    model, session = oracle(redelivery_delay=9), OracleSession()
    consumer(model, session, bytes_max=10)
    publish(model, None, None, size=5)
    publish(model, None, size=10, own_expiry=NOW + 9)  # too large for the window: it holds back who stands behind it
    publish(model, None, size=5)
    requeue(model, session, 1)
    assert (received(session), waiting(model)) == ([1, 2], [3, 4])
    model.tick(NOW + 9)
    assert (received(session), waiting(model), model.reasons) == ([1, 2, 1], [4], {"expired": 1})


def test_l8_l9_only_the_newest_value_comes_back() -> None:
    model, session = oracle(last_value_key="k"), OracleSession()
    consumer(model, session)
    publish(model, *"aaaaaa")
    model.close(session, NOW)
    assert (waiting(model), model.reasons) == ([6], {"replaced-key": 5})


def test_l12_a_schedule_replaces_when_it_falls_due() -> None:
    model = oracle(last_value_key="k")
    for delay in (1, 2, 3):
        publish(model, "a", deliver_at=NOW + delay)
    assert len(model.in_state(SCHEDULED)) == 3
    model.tick(NOW + 3)
    assert (waiting(model), model.reasons) == ([3], {"replaced-key": 2})


def test_a_replacement_may_keep_the_place_of_what_it_replaces() -> None:
    model = oracle(last_value_key="k", last_value_place="keep-place")
    publish(model, "a", "b", "a")
    assert waiting(model) == [3, 2]


def test_a_tombstone_takes_the_value_away_and_goes_itself() -> None:
    model = oracle(last_value_key="k", tombstone_ttl=5)
    publish(model, "a")
    publish(model, "a", size=0)
    assert waiting(model) == [2]
    model.tick(NOW + 5)
    assert model.reasons == {"replaced-key": 1, "expired": 1}


def test_46_a_byte_limit_drops_as_many_as_it_takes() -> None:
    model = oracle(overflow="ring", max_length=4, max_bytes=100)
    for size in (20, 20, 30, 30, 30):
        publish(model, None, size=size)
    assert (waiting(model), model.counted()) == ([3, 4, 5], (3, 90))


def test_a_message_larger_than_the_limit_is_dropped_itself() -> None:
    model = oracle(overflow="ring", max_bytes=5)
    publish(model, None, size=3)
    publish(model, None, size=6)
    assert (waiting(model), model.reasons) == ([1], {"overflow": 1})


def test_with_only_deliveries_beside_it_the_new_one_stays() -> None:
    model = oracle(overflow="ring", max_length=1, limit_counts="all")
    consumer(model, messages_max=1)
    publish(model, None, None)
    assert waiting(model) == [2]
    publish(model, None)
    assert (waiting(model), model.reasons) == ([3], {"overflow": 1})


def test_52_block_trips_beyond_its_limit_and_lets_go_at_four_fifths() -> None:
    model = oracle(overflow="block", max_length=10)
    publish(model, *[None] * 10)
    assert not model.blocked
    publish(model, None)
    assert model.blocked
    states = []
    for _ in range(3):
        model.get(OracleSession(), NOW, automatic=True)
        states.append(model.blocked)
    assert states == [True, True, False]


def test_weighted_levels_share_and_ageing_levels_rise() -> None:
    weighted = oracle(priorities=2, priority_discipline="weighted", priority_weights=(1, 3))
    publish(weighted, None, None, None, None, priority=0)
    publish(weighted, None, None, None, None, priority=9)
    assert waiting(weighted) == [5, 6, 7, 1, 8, 2, 3, 4]
    ageing = oracle(priorities=2, priority_discipline="ageing", priority_age=10)
    publish(ageing, None, priority=0)
    publish(ageing, None, priority=9, now=NOW + 9)
    publish(ageing, None, priority=9, now=NOW + 11)
    assert waiting(ageing) == [2, 1, 3]


def test_what_falls_due_goes_before_its_level_in_order_of_time() -> None:
    model = oracle(priorities=2)
    publish(model, None, priority=9)
    publish(model, None)
    for delay in (2, 1):
        publish(model, None, deliver_at=NOW + delay)
    model.tick(NOW + 5)
    assert waiting(model) == [1, 4, 3, 2]


def test_expiry_waits_for_a_delivery_to_come_back() -> None:
    model = oracle(message_ttl=10)
    consumer(model, session := OracleSession(), messages_max=1)
    held, expired = publish(model, None, None)
    model.tick(NOW + 10)
    assert (held.state, expired.state) == (DELIVERING, GONE)
    requeue(model, session, now=NOW + 10)
    assert model.reasons == {"expired": 2}


def test_attempts_end_at_the_dead_letter_target_or_nowhere() -> None:
    model, session = oracle(max_delivery_attempts=2, dead_letter_address="d"), OracleSession()
    consumer(model, session)
    publish(model, None)
    requeue(model, session)
    requeue(model, session)
    publish(model, None)
    drop(model, session)
    assert model.forwards == [(1, "dead-lettered", "dead-letter"), (2, "dead-lettered", "dead-letter")]


def test_commit_publishes_then_settles_and_rollback_forgets() -> None:
    model, session = oracle(), OracleSession()
    consumer(model, session, messages_max=1)
    publish(model, None, None)
    for _ in range(2):
        taken = model.take(session, 1, multiple=False)
        session.in_transaction = [(tag, delivery, "acknowledge") for tag, delivery in taken]
        model.rollback(session)
    session.in_transaction = [(1, session.held.pop(1), "acknowledge")]
    model.commit(session, [OracleMessage(3)], NOW)
    assert (model.reasons, received(session), waiting(model)) == ({"acknowledged": 1}, [1, 2], [3])


def test_a1_purge_on_no_consumers() -> None:
    model = oracle(purge_on_no_consumers=True)
    publish(model, None)
    one = consumer(model, messages_max=0)
    publish(model, None)
    assert waiting(model) == [2]
    model.cancel(one, NOW)
    assert model.reasons == {"purged": 2}


def test_operators_purge_delete_move_up_and_deliver_now() -> None:
    model = oracle(priorities=2)
    first, second, third = publish(model, None, None, None, priority=0)
    (later,) = publish(model, None, deliver_at=NOW + 99)
    model.reprioritise(third, 9, NOW)
    model.delete(first, NOW)
    assert waiting(model) == [third.number, second.number]
    model.deliver_now(later, NOW)
    assert waiting(model) == [3, 4, 2]
    model.purge(NOW)
    assert model.reasons == {"deleted": 1, "purged": 3}


def test_a_lower_ring_trims_only_when_told_and_a_paused_queue_serves_nobody() -> None:
    model = oracle()
    publish(model, None, None, None)
    model.update(QueueSettings(ring_size=2), NOW)
    assert waiting(model) == [1, 2, 3]
    model.update(QueueSettings(ring_size=2, ring_trim_now=True), NOW)
    assert waiting(model) == [2, 3]
    model.pause(NOW, paused=True)
    one = consumer(model)
    assert model.get(one.session, NOW, automatic=True) is None
    model.pause(NOW, paused=False)
    assert received(one) == [2, 3]


@pytest.mark.parametrize("writable", [True, False])
def test_nobody_is_served_while_the_connection_is_full(writable: bool) -> None:
    model = oracle()
    one = consumer(model, OracleSession(writable=writable), automatic=True)
    publish(model, None)
    assert received(one) == ([1] if writable else [])
    model.set_writable(one.session, NOW, writable=True)
    assert model.reasons == {"acknowledged": 1}


def test_consumers_beyond_the_maximum_are_refused() -> None:
    model = oracle(max_consumers=1)
    assert model.may_attach()
    consumer(model)
    assert not model.may_attach()


def test_who_reads_rows_of_levels_sees_what_was_there_before_what_came_or_moved_since() -> None:
    model = oracle(priorities=3)
    publish(model, None, None, None)
    rows, entries = (consumer(model, messages_max=1, browse=BROWSE_FOLLOW) for _ in range(2))
    model.dispatching.read_rows(rows)
    publish(model, None, priority=9)
    (moved,) = (message for message in model.pending() if message.number == 2)
    model.reprioritise(moved, 9, NOW)
    publish(model, None)
    for _ in range(6):
        for one in (rows, entries):
            requeue(model, one.session)
        if len(rows.session.received) == 3:  # its second batch is what is there now, not what comes later
            publish(model, None, priority=9)
    assert received(rows) == [1, 3, 4, 2, 5, 6]
    assert received(entries) == [1, 4, 2, 6, 3, 5]
