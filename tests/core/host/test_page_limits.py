"""Limits of what an address pages: how much, and what meets a message that would be more."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import TransactionRefused
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.address_accounts import AddressAccount, AddressAccounts
from annulet.core.host.transaction import Transaction
from annulet.core.routing.diverts import Divert
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.core.node_helpers import RecordingNodeEffects, address, declare, held, make_host, note, refused, send

ONE_AND_TWO = {"max-size-messages": 1, "page-limit-messages": 2}
"""One message, and two more that are paged."""

FAILING = {**ONE_AND_TWO, "page-full-policy": "FAIL"}
DROPPING = {**ONE_AND_TWO, "page-full-policy": "DROP"}


def account_of(host, name="news"):
    return host.accounts.by_address[name]


def take(queue):
    queue.acknowledge(queue.acquire(1, -1, NOW)[0])


@pytest.mark.parametrize(
    ("limits", "fits", "too_much"),
    [
        ({"page-limit-messages": 3}, ["", "", "xxxx"], ""),
        ({"page-limit-bytes": 3}, ["xx", "x", ""], "x"),
        ({"page-limit-bytes": 3}, [], "xxxx"),
        ({"page-limit-messages": 2, "page-limit-bytes": 3}, ["x", "x"], "x"),
        ({"page-limit-messages": 2, "page-limit-bytes": 3}, ["xxx"], "x"),
        ({"page-limit-messages": 0}, [], ""),
        ({"page-limit-bytes": 0}, ["", ""], "x"),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", ["DROP", "FAIL"])
def test_as_much_as_the_limit_is_paged_and_no_more(limits, fits, too_much, policy):
    host = make_host({"news": {"max-size-messages": 1, **limits, "page-full-policy": policy}})
    (queue,) = address(host, "news", "q")
    for body in ("first", *fits):
        assert send(host, "news", body) == 1
    if policy == "DROP":
        assert send(host, "news", too_much) == 1
    else:
        refused(host, "news", too_much)
    assert held(host, "q") == [["first", *fits]]
    account = account_of(host)
    assert (account.paged_count, account.paged_bytes) == (len(fits), sum(map(len, fits)))
    assert (account.dropped, account.refused) == ((1, 0) if policy == "DROP" else (0, 1))
    for _ in ("first", *fits):
        take(queue)
    assert send(host, "news", "again") == 1
    assert held(host, "q") == [["again"]]


def test_the_refusal_names_amounts_limits_and_policy():
    host = make_host({"news": {**FAILING, "page-limit-bytes": 100}})
    address(host, "news", "q")
    for body in ("A", "BB", "CCC"):
        send(host, "news", body)
    assert refused(host, "news", "DDDD") == (
        "address 'news' is full: with this message 3 messages and 9 bytes are paged, but page-limit-messages is 2 and "
        "page-limit-bytes is 100 (page-full-policy fail); consume from its queues or raise the limit"
    )


def test_what_is_dropped_is_in_the_ledger_and_reported_once():
    host = make_host({"news": DROPPING})
    address(host, "news", "q")
    for body in ("A", "B", "C", "DD", "EEE"):
        assert send(host, "news", body) == 1
    assert held(host, "q") == [["A", "B", "C"]]
    records = list(host.ledger.query(queue="news", reason=RemovalReason.OVERFLOW))
    assert [(record.size, record.rule) for record in records] == [
        (2, "page-full-policy drop"),
        (3, "page-full-policy drop"),
    ]
    assert host.effects.dropping == [("news", "page-full-policy drop")]
    assert host.accounts.dropped == 2
    host.address_settings.set("news", {"max-size-messages": 1, "address-full-policy": "DROP"})
    for _ in range(2):
        send(host, "news")
    assert host.effects.dropping[1:] == [("news", "address-full-policy drop")], "other limits, another report"
    host.address_settings.set("#", {"id-cache-size": 5})
    send(host, "news")
    assert len(host.effects.dropping) == 2, "another setting, the same limits"


@pytest.mark.parametrize(
    "limits",
    [
        {"page-limit-messages": 0, "page-limit-bytes": 0},
        {"page-limit-messages": 0, "page-full-policy": "none"},
        {"page-full-policy": "FAIL"},
        {"page-limit-messages": -1, "page-limit-bytes": -1, "page-full-policy": "DROP"},
    ],
    ids=str,
)
def test_limits_and_policy_have_no_effect_without_each_other(limits):
    host = make_host({"news": {"max-size-messages": 1, **limits}})
    address(host, "news", "q")
    for _ in range(5):
        send(host, "news")
    account = account_of(host)
    assert (account.paged_count, account.page_full) == (4, False)


def test_they_limit_nothing_where_nothing_is_paged():
    host = make_host({"news": {"page-limit-messages": 0, "page-full-policy": "FAIL"}})
    address(host, "news", "q")
    assert [send(host, "news") for _ in range(3)] == [1, 1, 1]
    assert host.accounts.by_address == {}
    host.address_settings.set(
        "news",
        {"max-size-messages": 5, "address-full-policy": "BLOCK", "page-limit-messages": 0, "page-full-policy": "FAIL"},
    )
    assert [send(host, "news") for _ in range(3)] == [1, 1, 1]
    assert account_of(host).blocked


def test_an_address_that_always_pages_holds_what_may_be_paged():
    host = make_host({"news": {"max-size-bytes": 0, "page-limit-messages": 2, "page-full-policy": "FAIL"}})
    (queue,) = address(host, "news", "q")
    send(host, "news", "A")
    send(host, "news", "B")
    assert "3 messages" in refused(host, "news", "C")
    take(queue)
    assert send(host, "news", "C") == 1


def test_with_a_limit_of_0_bytes_a_message_without_a_body_finds_room():
    """It is not more than 0 bytes, of the address as of what is paged."""
    host = make_host({"news": {"max-size-bytes": 0, "page-limit-messages": 0, "page-full-policy": "FAIL"}})
    address(host, "news", "q")
    assert send(host, "news", "") == 1
    refused(host, "news", "x")


def test_while_anything_is_paged_what_comes_is_paged_too():
    """Or it would overtake: so a small message is refused although the address has room for it."""
    host = make_host({"news": {"max-size-bytes": 4, "page-limit-bytes": 3, "page-full-policy": "FAIL"}})
    address(host, "news", "q")
    send(host, "news", "AAA")
    send(host, "news", "BBB")
    assert account_of(host).bytes - account_of(host).paged_bytes == 3
    assert "4 bytes are paged" in refused(host, "news", "C")


def test_what_moves_up_makes_room():
    host = make_host({"news": FAILING})
    (queue,) = address(host, "news", "q")
    for body in "ABC":
        send(host, "news", body)
    assert account_of(host).page_full
    refused(host, "news", "D")
    take(queue)
    assert (account_of(host).paged_count, account_of(host).page_full) == (1, False)
    assert send(host, "news", "D") == 1
    refused(host, "news", "E")


def test_lower_limits_drop_nothing_that_is_there():
    host = make_host({"news": {"max-size-messages": 1}})
    (queue,) = address(host, "news", "q")
    for body in "ABCDE":
        send(host, "news", body)
    host.address_settings.set("news", FAILING)
    assert (held(host, "q"), account_of(host).paged_count) == ([["A", "B", "C", "D", "E"]], 4)
    assert "with this message 5 messages" in refused(host, "news", "F")
    for _ in range(3):
        take(queue)
    assert send(host, "news", "F") == 1
    refused(host, "news", "G")
    host.address_settings.set("news", {**FAILING, "page-limit-messages": 3})
    assert send(host, "news", "G") == 1
    refused(host, "news", "H")


def test_what_is_paged_follows_a_change_of_what_the_address_may_hold():
    host = make_host({"news": {"max-size-messages": 4, "page-limit-messages": 2, "page-full-policy": "FAIL"}})
    address(host, "news", "q")
    address(host, "other", "r")
    host.address_settings.set("other", {"max-size-messages": 1})
    for body in "ABCD":
        send(host, "news", body)
        send(host, "other", body)
    news, other = account_of(host), account_of(host, "other")
    assert news.paged_count == 0
    host.address_settings.set("news", {"max-size-messages": 1, "page-limit-messages": 2, "page-full-policy": "FAIL"})
    assert [message.body for message in news.paged] == [b"B", b"C", b"D"]
    assert (news.messages, news.bytes, news.paged_bytes, news.page_full) == (4, 4, 3, True)
    refused(host, "news", "E")
    host.address_settings.set("news", {"max-size-messages": 3, "page-limit-messages": 2, "page-full-policy": "FAIL"})
    assert [message.body for message in news.paged] == [b"D"]
    assert send(host, "news", "E") == 1
    host.address_settings.set("news", {"max-size-messages": 3, "address-full-policy": "BLOCK"})
    assert (news.paged_count, news.paged_bytes, news.messages) == (0, 0, 5)
    assert host.effects.blocked == [("news", True)]
    assert (other.messages, other.paged_count) == (4, 3), "the other address is as it was"


def test_the_worked_example_of_the_page():
    limits = {"max-size-messages": 2, "page-limit-messages": 2, "page-limit-bytes": 10, "page-full-policy": "FAIL"}
    host = make_host({"news": limits})
    (queue,) = address(host, "news", "q")
    account = host.limited.account_of("news")

    def state():
        return account.paged_count, account.paged_bytes

    for size in (4, 4, 6):
        send(host, "news", "x" * size)
    assert state() == (1, 6)
    assert "2 messages and 11 bytes are paged" in refused(host, "news", "x" * 5)
    send(host, "news", "xxx")
    assert state() == (2, 9)
    assert "3 messages and 10 bytes are paged" in refused(host, "news", "x")
    take(queue)
    assert state() == (1, 3)
    send(host, "news", "x")
    assert state() == (2, 4)
    host.address_settings.set("news", {**limits, "max-size-messages": 1})
    assert state() == (3, 10)
    assert "4 messages and 10 bytes are paged" in refused(host, "news", "")
    assert queue.order.count == 4


def test_settings_are_merged_field_by_field():
    host = make_host(
        {
            "#": {"page-full-policy": "DROP", "page-limit-messages": 5},
            "news.#": {"max-size-messages": 1, "page-limit-messages": 1},
            "news.eu": {"page-full-policy": "FAIL"},
            "news.us": {"page-full-policy": "none"},
        }
    )
    for name in ("news.eu", "news.us", "news.de"):
        address(host, name, f"q.{name}")
    for name in ("news.eu", "news.us", "news.de"):
        send(host, name)
        send(host, name)
    assert "page-limit-messages is 1" in refused(host, "news.eu")
    assert [send(host, "news.us"), send(host, "news.de")] == [1, 1]
    assert [len(bodies) for bodies in held(host, "q.news.us", "q.news.de")] == [3, 2]
    host.address_settings.remove("news.eu")
    assert send(host, "news.eu") == 1
    assert account_of(host, "news.eu").dropped == 1


def test_a_transaction_counts_its_own_sends_and_is_refused_as_a_whole():
    host = make_host({"news": FAILING})
    (queue,) = address(host, "news", "q")
    transaction = Transaction(RecordingSession())
    for body in "ABCD":
        transaction.send(note(body, to="news"), host.route_to("news", ""))
    with pytest.raises(TransactionRefused, match="send 4: address 'news' is full: with this message 3 messages"):
        transaction.commit(host, NOW)
    assert held(host, "q") == [[]]
    for body in "ABC":
        transaction.send(note(body, to="news"), host.route_to("news", ""))
    transaction.commit(host, NOW)
    assert (queue.order.count, account_of(host).paged_count) == (3, 2)


def test_a_transaction_drops_what_does_not_fit():
    host = make_host({"news": {"max-size-bytes": 2, "page-limit-bytes": 3, "page-full-policy": "DROP"}})
    address(host, "news", "q")
    transaction = Transaction(RecordingSession())
    for body in ("AA", "BB", "CC", "D", "E"):
        transaction.send(note(body, to="news"), host.route_to("news", ""))
    transaction.commit(host, NOW)
    assert held(host, "q") == [["AA", "BB", "D"]]
    assert (account_of(host).dropped, account_of(host).paged_bytes) == (2, 3)


def test_a_divert_back_to_its_address_counts_both_messages():
    host = make_host({"news": FAILING})
    address(host, "news", "q")
    host.add_divert(Divert("twice", "news", ("news",)))
    send(host, "news", "A")
    assert account_of(host).messages == 2
    refused(host, "news", "B")
    assert account_of(host).messages == 2


@pytest.mark.parametrize(("policy", "there"), [("FAIL", 5), ("DROP", 3)])
def test_what_the_broker_sends_on_is_dropped_but_not_refused(policy, there):
    host = make_host({"dead": {**ONE_AND_TWO, "page-full-policy": policy}})
    host.declare_exchange("dead", "fanout", internal=True)
    (queue,) = declare(host, "q")
    host.bind_queue(queue, "dead", "")
    for _ in range(5):
        host.publisher.apply(host.publisher.plan_forward(note(to="dead"), "dead", ("",)), NOW)
    assert queue.order.count == there
    assert account_of(host, "dead").dropped == 5 - there


def test_the_id_of_what_was_dropped_or_refused_is_free():
    host = make_host({"news": DROPPING})
    (queue,) = address(host, "news", "q")
    for number in range(4):
        send(host, "news", duplicate_id=str(number))
    take(queue)
    assert send(host, "news", "again", duplicate_id="3") == 1
    assert host.publisher.duplicates_dropped == 0
    assert held(host, "q")[0][-1] == "again"


def test_the_same_message_in_several_queues_is_paged_once():
    host = make_host({"news": FAILING})
    first, second = address(host, "news", "first", "second")
    for body in "ABC":
        send(host, "news", body)
    refused(host, "news", "D")
    first.purge(NOW)
    refused(host, "news", "D")
    take(second)
    assert send(host, "news", "D") == 2


def test_what_queues_held_before_is_counted_in_the_order_in_which_it_came():
    """Not in that of the queues: a byte limit would page other messages after a restart than before."""
    host = make_host()
    first, second = declare(host, "first", "second", arguments={"x-max-priority": 9})
    for record, (body, queues) in enumerate((("AAA", [second]), ("B", [first]), ("CCC", [second]), ("D", [first])), 1):
        message = note(body, to="news")
        message.record = record
        host.publisher.enqueue_all(message, queues, NOW)
    host.address_settings.set("news", {"max-size-bytes": 4})
    assert host.limited.account_of("news").messages == 4
    assert [message.body for message in account_of(host).paged] == [b"CCC", b"D"]


def test_page_full_says_whether_the_next_message_has_room():
    limits = AddressLimits(max_messages=1, page_max_messages=1, page_policy="fail")
    account = AddressAccount("a", limits)
    messages = [make_message("x") for _ in range(3)]
    seen = []
    for message in messages:
        seen.append((account.page_full, account.refusal(1) != ""))
        account.add(message)
    assert seen == [(False, False), (False, False), (True, True)]
    nothing = AddressAccount("b", AddressLimits(max_messages=1, page_max_messages=0, page_policy="fail"))
    assert not nothing.page_full
    nothing.add(messages[0])
    assert nothing.page_full


def test_counters_stay_when_an_account_is_closed():
    accounts = AddressAccounts(RecordingNodeEffects())
    account = accounts.account_for("a", AddressLimits(max_messages=0, policy="drop"))
    accounts.note_dropped(account)
    accounts.note_refused(account)
    accounts.limit({"a": AddressLimits()})
    assert (accounts.dropped, accounts.refused, accounts.by_address) == (1, 1, {})
