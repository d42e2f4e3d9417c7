"""The policies of a queue: which queues may page, and whose messages in delivery may be compacted."""

from __future__ import annotations

import pytest

from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.address_accounts import AddressAccounts
from annulet.core.routing.node_effects import NodeEffects
from tests.core.helpers import NOW, RecordingSession, make_message, make_queue, queue_of
from tests.residency.doubles import durable_queue


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ring_size": 1000},
        {"max_length": 1000, "overflow": "reject"},
        {"max_bytes": 1000, "overflow": "block"},
        {"in_flight_max": 5},
        {"consumers_before_dispatch": 2},
        {"redelivery_delay": 100},
        {"exclusive_consumer": True},
        {"message_ttl": 1000},
        {"max_length": 10, "overflow": "page"},
        {"priorities": 3},
        {"max_priority": 9, "max_length": 1000, "overflow": "reject"},
        {"group_mode": "sticky"},
        {"group_mode": "shared", "group_buckets": 5, "ring_size": 10},
        {"sort_key": "k", "max_length": 1000, "overflow": "reject"},
        {"non_destructive": True, "ring_size": 1000},
    ],
)
def test_plain_fifo_queues_those_with_strict_priorities_or_groups_and_sorted_ones_may(settings):
    assert durable_queue(**settings).pageable()


@pytest.mark.parametrize(
    "settings",
    [
        {"priorities": 3, "priority_discipline": "ageing"},
        {"priorities": 3, "ring_size": 10},
        {"priorities": 3, "group_mode": "sticky"},
        {"sort_key": "k", "ring_size": 10},
        {"last_value_key": "k"},
        {"fair_key": "k"},
        {"non_destructive": True, "priorities": 3},
        {"non_destructive": True, "sort_key": "k"},
        {"non_destructive": True, "last_value_key": "k"},
        {"max_length": 10, "max_bytes": 10, "overflow": "page"},
        {"max_length": 10, "overflow": "ring", "evict": "newest"},
    ],
)
def test_queues_that_know_more_of_their_messages_than_the_order_may_not(settings):
    assert not durable_queue(**settings).pageable()


def test_nor_may_a_transient_queue_or_one_that_is_gone():
    assert not queue_of().pageable()
    queue = durable_queue()
    queue.delete(NOW)
    assert not queue.pageable()


def test_nor_while_somebody_looks_into_it():
    queue, session = durable_queue(), RecordingSession()
    session.consume(queue, messages=0, browse="snapshot")
    assert not queue.pageable()


@pytest.mark.parametrize("arguments", [{}, {"priorities": 3}])
def test_selectors_do_not_keep_a_queue_from_paging(arguments):
    queue, session = durable_queue(**arguments), RecordingSession()
    session.consume(queue, messages=0, selector="a = 1")
    assert queue.pageable()


@pytest.mark.parametrize(
    "settings",
    [{"last_value_key": "k"}, {"group_mode": "sticky"}, {"fair_key": "k"}, {"message_ttl": 1000}],
)
def test_deliveries_of_queues_that_know_more_of_them_stay_whole(settings):
    assert durable_queue().may_compact()
    assert not durable_queue(**settings).may_compact()


def test_nor_are_they_compacted_with_accounts_or_readers_or_when_the_queue_is_gone():
    counting, read, gone = durable_queue(), durable_queue(), durable_queue()
    counting.accounts = AddressAccounts(NodeEffects())
    RecordingSession().consume(read, messages=0, browse="snapshot")
    gone.delete(NOW)
    assert [queue.may_compact() for queue in (counting, read, gone)] == [False, False, False]


def test_an_entry_with_answers_in_lanes_or_counted_by_an_account_is_needed_as_an_object():
    queue = make_queue()
    entry = queue.enqueue(make_message("m"), NOW)
    assert not queue.needs_object(entry)
    entry.blocked = 1
    assert not queue.needs_object(entry), "answers are of readers while there are no lanes"
    RecordingSession().consume(queue, messages=0, selector="a = 1")
    assert queue.lanes is not None
    assert queue.needs_object(entry)
    other = make_queue()
    counted = other.enqueue(make_message("m"), NOW)
    other.accounts = accounts = AddressAccounts(NodeEffects())
    account = accounts.account_for("orders", AddressLimits(max_messages=10))
    assert account is not None
    accounts.charge(account, counted.message, 1)
    assert other.needs_object(counted)


def test_the_invisible_part_starts_where_hidden_from_says():
    queue = make_queue()
    entries = [queue.enqueue(make_message(name), NOW) for name in ("a", "b", "c")]
    assert (queue.shown(entries), queue.shown_count(), queue.shown_bytes()) == (entries, 3, 3)
    assert queue.hidden_records() == []
