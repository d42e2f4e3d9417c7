"""What an address with limits counts of messages that are on disk only: their number and bytes, and nothing is read."""

from __future__ import annotations

import random

import pytest

from annulet.core.base.errors import LimitExceeded
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.queue.live_changes import revise_delivering
from tests.core.helpers import NOW
from tests.core.node_helpers import address, declare, make_host, note, send
from tests.residency.doubles import Disk, pages_of

FAIL_AT_300 = {"max-size-messages": 300, "address-full-policy": "fail"}
PAGE_AT_50 = {"max-size-messages": 50}
KINDS = {
    "plain": {},
    "levels": {"x-max-priority": 3},
    "sorted": {"x-sort-key": "k"},
}


class Backlog:
    """A queue of an address without limits, most of whose messages are rows."""

    def __init__(self, count: int = 200, *, arguments=None, names: tuple[str, ...] = ("news",), alike=True) -> None:
        self.host = make_host()
        self.alike = alike  # messages of one address have one origin, as those of one connection have
        self.origins = {}
        self.disk = Disk()
        (self.queue,) = declare(self.host, "q", arguments=arguments or {})
        self.host.nodes.declare_address("news")
        self.host.nodes.attach_queue(self.queue, "news")
        self.queue.queue_id, self.queue.durable = 7, True
        for number in range(count):
            self.add(number, names[number % len(names)])
        self.page()

    def add(self, number: int, name: str) -> None:
        message = note("x" * (number % 7), to=name, k=number)
        message.priority = number % 3
        if self.alike and self.queue.settings.sort_key == "":
            message.origin = self.origins.setdefault(name, message.origin)
        self.disk.store(self.queue, message, self.queue.next_sequence)
        self.queue.enqueue(message, NOW)

    def page(self) -> None:
        order = paged_order_of(self.queue, pages_of(self.queue, self.disk))
        assert order is not None
        order.keep_messages = 10
        if isinstance(order, PagedLevels):
            order.fold_least = 1
        while order.page_out(1 << 60, 1000):
            pass

    def limit(self, limits, name: str = "news") -> None:
        """Give the address limits; the disk refuses while what is there is counted."""
        self.host.address_settings.set(name, limits)
        self.disk.failing = True
        self.host.limited.account_of(name)
        self.disk.failing = False

    @property
    def rows(self) -> int:
        return self.queue.order.paged_count()

    def account(self, name: str = "news"):
        return self.host.accounts.by_address[name]

    def amounts(self, name: str = "news") -> tuple[int, int]:
        return self.account(name).messages, self.account(name).bytes

    def held(self) -> tuple[int, int]:
        queue = self.queue
        size = queue.pending_bytes + queue.delivering_bytes
        return queue.order.count + len(queue.delivering), size


@pytest.mark.parametrize("kind", KINDS)
def test_rows_stay_rows_and_are_counted_while_they_leave(kind):
    backlog = Backlog(arguments=KINDS[kind])
    rows = backlog.rows
    assert rows > 150
    backlog.limit(PAGE_AT_50)
    assert (backlog.rows, backlog.disk.reads) == (rows, [])
    assert backlog.amounts() == backlog.held() == (200, sum(number % 7 for number in range(200)))
    account = backlog.account()
    while backlog.queue.order.count:
        for entry in backlog.queue.acquire(7, -1, NOW):
            backlog.queue.acknowledge(entry)
            assert backlog.amounts() == backlog.held()
            assert account.paged_count == max(0, account.messages - 50)
    assert (account.paged_bytes, account.rows, account.row_bytes) == (0, 0, 0)
    assert not backlog.host.accounts.has_shares


def test_what_came_back_may_be_a_row_again_and_counts_once():
    backlog = Backlog()
    backlog.limit(PAGE_AT_50)
    taken = backlog.queue.acquire(150, -1, NOW)
    assert backlog.rows < 150
    backlog.queue.return_entries(taken, NOW)
    backlog.page()
    assert backlog.amounts() == backlog.held()
    for entry in backlog.queue.acquire(-1, -1, NOW):
        backlog.queue.acknowledge(entry)
    assert backlog.amounts() == (0, 0)


def test_whatever_happens_the_account_is_what_the_queue_holds():
    choose = random.Random(5)
    for _ in range(20):
        backlog = Backlog(300)
        backlog.limit(PAGE_AT_50)
        taken = []
        for _ in range(60):
            action = choose.randrange(6)
            if action < 2:
                taken += backlog.queue.acquire(choose.randrange(1, 40), -1, NOW)
            elif action == 2 and taken:
                backlog.queue.return_entries([taken.pop(choose.randrange(len(taken)))], NOW)
            elif action == 3 and taken:
                backlog.queue.acknowledge(taken.pop(choose.randrange(len(taken))))
            elif action == 4:
                send(backlog.host, "news", "new")
            else:
                backlog.page()
            assert backlog.amounts() == backlog.held()
            assert backlog.account().paged_count == max(0, backlog.amounts()[0] - 50)
        backlog.queue.purge(NOW)
        assert backlog.amounts() == backlog.held()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [200, 3000])  # one by one, or together
def test_a_purge_takes_all_but_what_is_in_delivery(kind, count):
    backlog = Backlog(count, arguments=KINDS[kind])
    backlog.limit(PAGE_AT_50)
    (entry,) = backlog.queue.acquire(1, -1, NOW)
    backlog.queue.purge(NOW)
    assert backlog.amounts() == backlog.held() == (1, entry.message.size)
    backlog.queue.acknowledge(entry)
    assert backlog.amounts() == (0, 0)


def test_a_purge_while_the_disk_refuses_takes_all():
    backlog = Backlog()
    backlog.limit(PAGE_AT_50)
    backlog.disk.failing = True
    backlog.queue.purge(NOW)
    assert backlog.amounts() == backlog.held() == (0, 0)


@pytest.mark.parametrize("count", [200, 3000])
def test_a_deleted_queue_leaves_the_account(count):
    backlog = Backlog(count, names=("news", "other", "news"))
    backlog.limit(PAGE_AT_50)
    backlog.queue.acquire(5, -1, NOW)
    backlog.host.delete_queue(backlog.queue, NOW)
    assert backlog.amounts() == (0, 0)
    assert not backlog.host.accounts.has_shares


@pytest.mark.parametrize("count", [200, 30_000])  # each, or page by page
def test_rows_that_expire_leave_the_account(count):
    backlog = Backlog(count, arguments={"x-message-ttl": 10})
    backlog.limit(PAGE_AT_50)
    assert backlog.amounts()[0] == count
    while backlog.queue.expire(NOW + 20) or backlog.queue.expiring is not None:
        backlog.queue.finish_slices(NOW + 20)
        assert backlog.amounts() == backlog.held()
    assert backlog.amounts() == (0, 0)


def test_damaged_rows_leave_the_account():
    backlog = Backlog()
    backlog.limit(PAGE_AT_50)
    backlog.disk.damaged |= {20, 21, 199}
    while entries := backlog.queue.acquire(1, -1, NOW):
        backlog.queue.acknowledge(entries[0])
        assert backlog.amounts()[0] == backlog.held()[0]
    assert backlog.queue.counters.removed[RemovalReason.UNREADABLE] == 3
    assert backlog.amounts() == (0, 0)


def test_a_changed_message_counts_in_place_of_the_former():
    backlog = Backlog()
    backlog.limit(PAGE_AT_50)
    for entry in backlog.queue.acquire(100, -1, NOW):
        entry.message.durable = True
        revise_delivering(entry, {"why": 1}, stored=False)
        assert backlog.amounts()[0] == 200
        backlog.queue.return_entries([entry], NOW)
    first = backlog.queue.acquire(150, -1, NOW)[120]
    backlog.queue.return_entries([first], NOW)
    assert backlog.queue.reprioritise(first, 9, NOW) is not None
    assert backlog.amounts() == backlog.held()


def test_of_several_addresses_each_counts_its_own():
    backlog = Backlog(210, names=("news", "other", "free"))
    backlog.limit(PAGE_AT_50)
    backlog.limit(PAGE_AT_50, "other")
    assert [backlog.amounts(name)[0] for name in ("news", "other")] == [70, 70]
    while entries := backlog.queue.acquire(1, -1, NOW):
        name = entries[0].message.origin.exchange
        before = {each: backlog.amounts(each)[0] for each in ("news", "other")}
        backlog.queue.acknowledge(entries[0])
        for each, messages in before.items():
            assert backlog.amounts(each)[0] == messages - (each == name)
    assert backlog.amounts() == backlog.amounts("other") == (0, 0)


def test_what_was_estimated_too_high_goes_with_the_last_message_that_was_there():
    backlog = Backlog(900, names=(*["news"] * 70, *["free"] * 20), alike=False)
    backlog.limit(PAGE_AT_50)
    assert backlog.amounts()[0] > 700, "of so many origins a page keeps the first, and these are most"
    send(backlog.host, "news", "abc")
    for entry in backlog.queue.acquire(900, -1, NOW):
        backlog.queue.acknowledge(entry)
    assert backlog.amounts() == (1, 3)


def test_limits_hold_for_rows():
    backlog = Backlog()
    backlog.limit(FAIL_AT_300)
    for _ in range(100):
        send(backlog.host, "news")
    with pytest.raises(LimitExceeded, match="301 messages"):
        send(backlog.host, "news")
    for entry in backlog.queue.acquire(50, -1, NOW):
        backlog.queue.acknowledge(entry)
    for _ in range(50):
        send(backlog.host, "news")
    with pytest.raises(LimitExceeded, match="301 messages"):
        send(backlog.host, "news")


def test_publishers_may_go_on_when_rows_have_left():
    backlog = Backlog()
    backlog.limit({"max-size-messages": 100, "address-full-policy": "block"})
    assert backlog.account().blocked
    backlog.queue.purge(NOW)
    assert not backlog.account().blocked
    assert backlog.host.effects.blocked == [("news", True), ("news", False)]


@pytest.mark.parametrize("octets", [-1, 0, 100, 300, 10_000])
@pytest.mark.parametrize("messages", [-1, 0, 50, 195, 10_000])
def test_limits_that_change_count_rows_no_second_time(octets, messages):
    backlog = Backlog()
    backlog.limit({"max-size-messages": 1})
    total = backlog.amounts()
    limits = {"max-size-messages": messages, "max-size-bytes": octets}
    backlog.host.address_settings.set("news", limits)
    account = backlog.host.limited.account_of("news")
    if messages < 0 and octets < 0:
        assert (account, backlog.host.accounts.has_shares) == (None, False)
        backlog.limit({"max-size-messages": 1})
        assert backlog.amounts() == total
        return
    assert backlog.amounts() == total
    kept = account.messages - account.paged_count, account.bytes - account.paged_bytes
    assert not account.limits.exceeded_by(*kept)
    assert (account.paged_count == 0) is not account.limits.exceeded_by(*total)


def test_what_is_paged_beside_rows_meets_the_page_limits():
    backlog = Backlog()
    backlog.limit({"max-size-messages": 50, "page-limit-messages": 151, "page-full-policy": "fail"})
    assert not backlog.account().page_full
    send(backlog.host, "news")
    assert backlog.account().page_full
    with pytest.raises(LimitExceeded, match="152 messages"):
        send(backlog.host, "news")


def test_a_queue_of_another_address_takes_no_part():
    backlog = Backlog(names=("free",))
    address(backlog.host, "other", "o")
    backlog.limit(PAGE_AT_50, "other")
    send(backlog.host, "other", "abc")
    assert backlog.amounts("other") == (1, 3)
    assert not backlog.host.accounts.has_shares
