"""Limits of addresses: one account across all queues, four policies."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import TransactionRefused
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.configuration.address_limits import DROP, AddressLimits
from annulet.core.host.address_accounts import IDLE_MAX, TOLD_MAX, AddressAccount, AddressAccounts
from annulet.core.host.transaction import Transaction
from annulet.core.queue.live_changes import revise_delivering
from annulet.core.routing.diverts import Divert
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.core.node_helpers import RecordingNodeEffects, address, declare, held, make_host, note, refused, send


def account_of(host, name="news"):
    return host.accounts.by_address[name]


def amounts(host, name="news"):
    account = account_of(host, name)
    return account.messages, account.bytes


def test_one_body_counts_once_until_the_last_queue_is_done_with_it():
    host = make_host({"news": {"max-size-messages": 10}})
    first, _ = address(host, "news", "first", "second")
    send(host, "news", "12345")
    assert amounts(host) == (1, 5)
    host.queues["first"].purge(NOW)
    assert amounts(host) == (1, 5)
    session = RecordingSession()
    session.consume(host.queues["second"])
    assert amounts(host) == (1, 5)  # in delivery
    session.acknowledge(1, NOW)
    assert amounts(host) == (0, 0)
    assert first.counters.messages_added == 1


def test_a_message_taken_at_once_is_not_counted():
    host = make_host({"news": {"max-size-messages": 1, "address-full-policy": "fail"}})
    (queue,) = address(host, "news", "q")
    RecordingSession().consume(queue, auto_acknowledge=True)
    assert [send(host, "news") for _ in range(3)] == [1, 1, 1]
    assert amounts(host) == (0, 0)


@pytest.mark.parametrize(
    "leave",
    [
        lambda host, queue: queue.purge(NOW),
        lambda host, queue: host.delete_queue(queue, NOW),
        lambda host, queue: queue.remove(queue.order.first(), RemovalReason.MOVED, NOW),
        lambda host, queue: queue.tick(NOW + 100),
        lambda host, queue: queue.acknowledge(queue.acquire(1, -1, NOW)[0]),
        lambda host, queue: queue.reject(queue.acquire(1, -1, NOW)[0], NOW),
        lambda host, queue: send(host, "other", "replaces"),
    ],
    ids=["purge", "delete", "move", "expire", "acknowledge", "reject", "replace"],
)
def test_every_way_out_is_taken_off(leave):
    host = make_host({"news": {"max-size-messages": 10}})
    (queue,) = declare(host, "q", arguments={"x-ring-size": 1, "x-message-ttl": 50})
    host.nodes.attach_queue(queue, "news")
    host.nodes.attach_queue(queue, "other")
    send(host, "news")
    assert amounts(host) == (1, 1)
    leave(host, queue)
    assert amounts(host) == (0, 0)


def test_fail_refuses_and_changes_nothing():
    host = make_host({"news": {"max-size-bytes": 10, "address-full-policy": "FAIL"}})
    address(host, "news", "first", "second")
    send(host, "news", "1234567890")
    text = refused(host, "news", "x")
    assert "address 'news' is full: with this message 2 messages and 11 bytes" in text
    assert "max-size-messages is unlimited and max-size-bytes is 10" in text
    assert held(host, "first", "second") == [["1234567890"]] * 2
    assert account_of(host).refused == 1
    host.queues["first"].purge(NOW)
    assert refused(host, "news", "x")
    host.queues["second"].purge(NOW)
    assert send(host, "news", "x") == 2


def test_drop_discards_and_says_so_in_the_ledger():
    host = make_host({"news": {"max-size-messages": 1, "address-full-policy": "drop"}})
    address(host, "news", "q")
    assert [send(host, "news", body) for body in ("A", "BB", "C")] == [1, 1, 1]
    assert held(host, "q") == [["A"]]
    assert account_of(host).dropped == 2
    records = list(host.ledger.query(queue="news", reason=RemovalReason.OVERFLOW))
    assert [record.size for record in records] == [2, 1]
    assert records[0].publisher == "guest@test"


def test_block_lets_the_message_in_that_fills_and_reports():
    host = make_host({"news": {"max-size-messages": 2, "address-full-policy": "block"}})
    (queue,) = address(host, "news", "q")
    send(host, "news")
    assert host.effects.blocked == []
    send(host, "news")
    send(host, "news")  # a publisher that had not stopped yet
    assert host.effects.blocked == [("news", True)]
    assert account_of(host).blocked
    for _ in range(2):
        queue.acknowledge(queue.acquire(1, -1, NOW)[0])
    assert host.effects.blocked == [("news", True), ("news", False)]


def test_block_has_a_hard_limit():
    host = make_host(
        {"news": {"max-size-bytes": 2, "address-full-policy": "block", "max-size-bytes-reject-threshold": 4}}
    )
    address(host, "news", "q")
    for _ in range(4):
        send(host, "news")
    assert "max-size-bytes-reject-threshold is 4" in refused(host, "news")
    assert account_of(host).bytes == 4


def test_page_takes_everything_and_counts_what_lies_beyond():
    host = make_host({"news": {"max-size-messages": 2}})
    (queue,) = address(host, "news", "q")
    for body in "ABCD":
        send(host, "news", body)
    assert account_of(host).paged_count == 2
    queue.acknowledge(queue.acquire(1, -1, NOW)[0])
    assert account_of(host).paged_count == 1
    send(host, "news", "E")
    assert [message.body for message in account_of(host).paged] == [b"D", b"E"]  # in order, while anything is paged
    queue.purge(NOW)
    assert account_of(host).paged_count == account_of(host).paged_bytes == 0
    send(host, "news", "F")
    assert account_of(host).paged_count == 0


def test_a_limit_of_0_pages_everything():
    account = AddressAccount("a", AddressLimits(max_bytes=0))
    messages = [make_message("x"), make_message("")]
    for message in messages:
        account.add(message)
    assert account.paged_count == 2
    account.subtract(messages[1])
    assert account.paged_count == 1
    account.subtract(messages[0])
    assert (account.messages, account.bytes, account.paged_bytes) == (0, 0, 0)


def test_a_transaction_counts_its_own_sends():
    host = make_host({"news": {"max-size-messages": 3, "address-full-policy": "fail"}})
    address(host, "news", "q")
    send(host, "news", "A")
    transaction = Transaction(RecordingSession())
    for body in "BCD":
        transaction.send(note(body, to="news"), host.route_to("news", ""))
    with pytest.raises(TransactionRefused, match="send 3: address 'news' is full: with this message 4 messages"):
        transaction.commit(host, NOW)
    assert held(host, "q") == [["A"]]
    assert amounts(host) == (1, 1)


def test_an_address_is_counted_where_it_was_sent_to():
    host = make_host({"a": {"max-size-messages": 1, "address-full-policy": "fail"}})
    (queue,) = address(host, "a", "q")
    host.nodes.attach_queue(queue, "b")
    assert [send(host, "b") for _ in range(3)] == [1, 1, 1]
    assert send(host, "a") == 1
    assert refused(host, "a")
    assert send(host, "b") == 1


def test_a_message_with_a_new_priority_stands_for_the_old_one():
    host = make_host({"news": {"max-size-messages": 5}})
    (queue,) = declare(host, "q", arguments={"x-max-priority": 5})
    host.nodes.attach_queue(queue, "news")
    send(host, "news", "abc")
    assert queue.reprioritise(queue.order.first(), 5, NOW) is not None
    assert amounts(host) == (1, 3)
    queue.purge(NOW)
    assert amounts(host) == (0, 0)


def anycast(host):
    address(host, "news", "first", "second", types=("anycast",))


def filtered(host):
    host.nodes.declare_address("news")
    (queue,) = declare(host, "q", arguments={"x-selector": "1 = 1"})
    host.nodes.attach_queue(queue, "news")


def diverted(host):
    address(host, "news", "q")
    address(host, "elsewhere", "other")
    host.add_divert(Divert("copy", "news", ("elsewhere",)))


def by_headers(host):
    host.declare_exchange("news", "headers")
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "news", "", {"x-match": "all"})


@pytest.mark.parametrize("prepare", [anycast, filtered, diverted, by_headers])
def test_limits_hold_where_each_message_is_asked_for_its_way(prepare):
    host = make_host({"news": {"max-size-messages": 1, "address-full-policy": "fail"}})
    prepare(host)
    send(host, "news")
    assert "max-size-messages is 1" in refused(host, "news")
    assert amounts(host) == (1, 1)


def test_limits_hold_for_what_the_broker_sends_to_an_internal_exchange():
    host = make_host({"dead": {"max-size-messages": 1, "address-full-policy": "drop"}})
    host.declare_exchange("dead", "fanout", internal=True)
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "dead", "")
    for _ in range(3):
        host.publisher.apply(host.publisher.plan_forward(note(to="dead"), "dead", ("",)), NOW)
    assert queue.order.count == 1
    assert account_of(host, "dead").dropped == 2


def test_what_a_retroactive_address_keeps_does_not_fill_it():
    host = make_host({"news": {"max-size-messages": 2, "address-full-policy": "fail", "retroactive-message-count": 3}})
    (queue,) = address(host, "news", "q")
    for _ in range(4):
        assert send(host, "news") == 2
        assert amounts(host) == (1, 1)
        queue.purge(NOW)
        assert amounts(host) == (0, 0)
    host.delete_queue(queue, NOW)
    assert [send(host, "news") for _ in range(3)] == [1, 1, 1]  # into the ring alone
    address(host, "news", "late")
    assert amounts(host) == (3, 3)  # its copies count
    host.address_settings.set("news", {"retroactive-message-count": 3})
    host.address_settings.set("news", {"max-size-messages": 9, "retroactive-message-count": 3})
    send(host, "news")
    assert amounts(host) == (4, 4)


def test_a_message_that_is_changed_in_delivery_counts_once():
    host = make_host({"news": {"max-size-messages": 2}})
    queue, other = address(host, "news", "q", "other")
    send(host, "news", "abc")
    (entry,) = queue.acquire(1, -1, NOW)
    revise_delivering(entry, {"why": "because"})
    assert amounts(host) == (2, 6), "the other queue has the former one"
    other.purge(NOW)
    assert amounts(host) == (1, 3)
    queue.acknowledge(entry)
    assert amounts(host) == (0, 0)


def test_idle_accounts_are_closed_when_there_are_many():
    accounts = AddressAccounts(RecordingNodeEffects())
    limits = AddressLimits(max_messages=1)
    busy = accounts.account_for("busy", limits)
    accounts.charge(busy, make_message("m"), 1)
    told = accounts.account_for("told", limits)
    told.refused = 1
    idle = accounts.account_for("idle", limits)
    for number in range(IDLE_MAX - 2):
        accounts.account_for(f"once.{number}", limits)
    assert sorted(accounts.by_address) == ["busy", f"once.{IDLE_MAX - 3}", "told"]
    accounts.charge(idle, make_message("m"), 1)  # planned before, carried out now
    assert accounts.by_address["idle"] is idle


def test_of_idle_accounts_that_dropped_something_those_opened_last_are_kept():
    accounts = AddressAccounts(RecordingNodeEffects())
    limits = AddressLimits(max_messages=0, policy=DROP)
    for number in range(3 * IDLE_MAX):
        accounts.account_for(f"once.{number}", limits).dropped = 1
        assert len(accounts.by_address) <= IDLE_MAX
    kept = [int(name.removeprefix("once.")) for name in accounts.by_address]
    assert kept == list(range(kept[0], 3 * IDLE_MAX))
    assert len(kept) > TOLD_MAX
