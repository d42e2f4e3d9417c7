"""When addresses with limits get their accounts, and what these count then."""

from __future__ import annotations

import pytest

from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.address_accounts import AddressAccounts
from annulet.core.paging.paged_priorities import paged_order_of
from tests.core.helpers import NOW
from tests.core.node_helpers import RecordingNodeEffects, address, declare, make_host, note, send
from tests.residency.doubles import Disk, pages_of


def account_of(host, name="news"):
    return host.accounts.by_address[name]


def amounts(host, name="news"):
    account = account_of(host, name)
    return account.messages, account.bytes


def test_an_account_without_limits_is_not_opened():
    accounts = AddressAccounts(RecordingNodeEffects())
    assert accounts.account_for("a", AddressLimits()) is None
    assert accounts.account_for("a", AddressLimits(reject_threshold=5)) is None  # of BLOCK only
    assert accounts.account_for("a", AddressLimits(policy="block", reject_threshold=5)) is not None
    accounts.limit({"a": AddressLimits()})
    assert accounts.by_address == {}


def test_limits_that_come_later_count_what_is_there_and_those_that_go_let_go():
    host = make_host()
    first, second = address(host, "news", "first", "second")
    send(host, "news", "abc")
    first.acquire(1, -1, NOW)
    host.address_settings.set("news", {"max-size-messages": 1, "address-full-policy": "block"})
    host.route_to("news", "")
    assert amounts(host) == (1, 3)
    assert host.effects.blocked == [("news", True)]
    host.address_settings.set("news", {"max-size-messages": 5, "address-full-policy": "block"})
    assert host.effects.blocked[-1] == ("news", False)
    host.address_settings.set("news", {"max-size-messages": 1, "address-full-policy": "block"})
    host.address_settings.remove("news")
    assert host.effects.blocked[-1] == ("news", False)
    assert host.accounts.by_address == {}
    assert not host.accounts.counted(second.order.first().message)
    assert send(host, "news") == 2


def test_a_message_nobody_takes_opens_no_account():
    host = make_host({"#": {"max-size-messages": 1}})
    assert [send(host, f"nowhere.{number}") for number in range(3)] == [0, 0, 0]
    assert host.accounts.by_address == {}


def test_what_queues_held_is_counted_once_and_not_for_each_new_address():
    host = make_host()
    old, *_ = declare(host, "old", "new", "newer")
    send(host, "old", "abc")
    host.address_settings.set("#", {"max-size-messages": 5})
    send(host, "new")
    assert [amounts(host, name) for name in ("old", "new")] == [(1, 3), (1, 1)]
    old.enqueue(note("behind the back", to="old"), NOW)
    send(host, "newer")
    assert amounts(host, "old") == (1, 3)  # nobody looked again
    assert amounts(host, "newer") == (1, 1)
    host.address_settings.set("other", {"max-size-messages": 5})
    send(host, "new")
    assert amounts(host, "old") == (1, 3)  # an account that is open counts what comes, and nothing twice


@pytest.mark.parametrize(("addresses", "counted"), [(1, 2), (70, 1)], ids=["few", "more-than-a-page-keeps"])
def test_to_count_what_is_held_no_row_is_read(addresses, counted):
    """Where a page does not know of all its rows where they were sent, those count as the others do."""
    host = make_host()
    deep, mixed = declare(host, "deep", "mixed")
    origins = [note(to=f"free.{number}").origin for number in range(addresses)]
    for queue in (deep, mixed):
        queue.queue_id, queue.durable = 7, True
        disk = Disk()
        for number in range(200):
            message = note("abc", to="news")
            if queue is deep or number != 150:
                message.origin = origins[number % addresses]
            disk.store(queue, message, queue.next_sequence)
            queue.enqueue(message, NOW)
        order = paged_order_of(queue, pages_of(queue, disk))
        order.keep_messages = 10
        order.page_out(1 << 60, 1000)
    (queue,) = address(host, "news", "q")
    host.address_settings.set("news", {"max-size-messages": 500})
    send(host, "news")
    assert amounts(host)[0] == counted
    assert deep.order.paged_count() == mixed.order.paged_count() == 190
    assert queue.order.count == 1
