"""Which messages of a queue with rows may be one."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.address_accounts import AddressAccounts
from annulet.core.model.entry import DELIVERING
from annulet.core.model.queue_area import QueueArea
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.paging.row_conditions import ROW_COUNT_MOST, may_be_row
from annulet.core.queue.invariants import check_invariants
from annulet.core.routing.node_effects import NodeEffects
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import NOW, RecordingSession
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def test_a_message_that_an_address_with_limits_counts_stays_an_object():
    queue, disk = durable_queue(), Disk()
    queue.accounts = accounts = AddressAccounts(NodeEffects())
    assert queue.pageable()
    counted, other = stored_entries(queue, disk, 2)
    account = accounts.account_for("orders", AddressLimits(max_messages=10))
    assert account is not None
    accounts.charge(account, counted.message, 1)
    assert [may_be_row(one) for one in (counted, other)] == [False, True]
    accounts.released(counted)
    assert may_be_row(counted)


def test_the_account_of_an_address_stays_exact_around_rows():
    queue, disk = durable_queue(), Disk()
    queue.accounts = accounts = AddressAccounts(NodeEffects())
    account = accounts.account_for("orders", AddressLimits(max_messages=10))
    assert account is not None
    for number, one in enumerate(stored_entries(queue, disk, 10)):
        if number % 2:
            accounts.charge(account, one.message, 1)
        queue.insert(one, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 0
    assert order.page_out(1 << 60, 100) == 10
    assert (order.paged_count(), account.messages, account.bytes) == (5, 5, 50)
    for left in (5, 4):
        first = order.first()
        assert first is not None
        queue.remove_pending(first, RemovalReason.PURGED, NOW, 0)
        assert account.messages == left
    assert queue.purge(NOW) == 8
    assert (account.messages, account.bytes, queue.pending_bytes) == (0, 0, 0)


def entry(**facts):
    queue, disk = durable_queue(), Disk()
    (made,) = stored_entries(queue, disk, 1)
    for name, value in facts.items():
        setattr(made.message if hasattr(made.message, name) else made, name, value)
    return made


def test_a_stored_message_of_which_nothing_else_is_known_may_be_a_row():
    assert may_be_row(entry())
    assert may_be_row(entry(redelivered=True))
    assert may_be_row(entry(delivery_count=ROW_COUNT_MOST)), "the highest that has room beside it"
    assert may_be_row(entry(rank=(-3,))), "that of its level"
    assert may_be_row(entry(expires_at=NOW)), "which stands beside the row"


@pytest.mark.parametrize(
    "facts",
    [
        {"record": 0},
        {"durable": False},
        {"deliver_at": NOW},
        {"state": DELIVERING},
        {"delivery_count": ROW_COUNT_MOST + 1},
        {"place": -5},
    ],
)
def test_any_other_stays_an_object(facts):
    assert not may_be_row(entry(**facts))


@pytest.mark.parametrize("facts", [{"evaluated": 1}, {"evaluated": 1, "blocked": 1}])
def test_answers_of_selectors_keep_an_object_where_there_are_lanes_for_them(facts):
    made = entry(**facts)
    assert may_be_row(made), "they are of readers, who ask again"
    made.queue.use_lanes(None, None)
    assert not may_be_row(made)


def test_the_interface_holds_nothing():
    pages = QueueArea()
    assert (pages.items, pages.rows, pages.bytes, pages.lost, pages.lost_bytes) == (0, 0, 0, 0, 0)
    for call in (
        lambda: pages.add([], bytearray()),
        pages.first_sequence,
        pages.first_accepted_at,
        lambda: pages.accepted_at(1),
        lambda: pages.load(insist=True),
        pages.take_unread,
        pages.entries_kept,
        pages.sweep,
        pages.redelivered_ranges,
        pages.counted_ranges,
        lambda: pages.add_among([], bytearray()),
        pages.clear,
    ):
        with pytest.raises(NotImplementedError):
            call()


@pytest.mark.parametrize("levels", [False, True])
def test_what_is_hidden_is_on_no_page_that_a_purge_takes(*, levels: bool) -> None:
    deep, session = Deep(40, levels=levels), RecordingSession()
    batch = deep.publish_hidden(300)
    deep.page_out(ALL)  # the log has all of it but for the commit
    assert deep.queue.purge(NOW) == 40
    assert deep.queue.statistics().message_count == 0
    batch.show(NOW)
    deep.page_out(ALL)
    assert deep.queue.order.paged_count() > 200
    check_invariants(deep.queue)
    session.consume(deep.queue)
    assert numbers(session) == deep.in_order(range(41, 341))


def test_what_is_hidden_is_no_row_behind_what_came_back_either() -> None:
    deep, session = Deep(4), RecordingSession()
    session.consume(deep.queue, messages=2)
    deep.publish_hidden(300)
    session.close(NOW)
    for _ in range(2):
        deep.page_out(ALL)
    assert deep.queue.purge(NOW) == 4
    assert deep.queue.order.count == 300
    check_invariants(deep.queue)


@pytest.mark.parametrize("levels", [False, True])
def test_a_purge_leaves_what_a_selector_has_found_of_it_already(*, levels: bool) -> None:
    deep, selective, other = Deep(levels=levels), RecordingSession(), RecordingSession()
    deep.queue.matchers.lanes_max = 3
    selective.consume(deep.queue, selector="three = 1")
    deep.publish(1)
    batch = deep.publish_hidden(29)
    deep.take_turns()
    assert deep.queue.purge(NOW) == 0
    batch.show(NOW)
    deep.take_turns()
    assert sorted(numbers(selective)) == list(range(1, 31, 3))
    other.consume(deep.queue, "other")
    deep.take_turns()
    check_invariants(deep.queue)
    assert sorted(numbers(selective) + numbers(other)) == list(range(1, 31))
