"""How many rows of a page were sent where, told without reading them."""

from __future__ import annotations

import pytest

from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.address_accounts import AddressAccounts
from annulet.core.message.message import Origin
from annulet.residency.rows.page import ORIGINS_MAX, Page
from annulet.residency.rows.row_tally import PageTally, page_leaves, tally
from tests.core.helpers import TableView
from tests.core.node_helpers import RecordingNodeEffects
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries

VIEW = TableView({})
QUEUE = durable_queue()
ALL = 1 << 60


def origin(name: str, key: str = "") -> Origin:
    return Origin(name, key, "guest@test", VIEW)


def name_of(origin: Origin) -> str:
    return origin.exchange


def entries_of(origins: list[Origin], sizes: list[int] | None = None, first: int = 1):
    entries = stored_entries(QUEUE, Disk(), len(origins))
    for number, entry in enumerate(entries):
        entry.sequence = first + number
        entry.message.origin = origins[number]
        entry.message.size = sizes[number] if sizes else 10
    return entries


def page_of(origins: list[Origin], sizes: list[int] | None = None, *, kept: tuple[int, ...] = ()) -> Page:
    entries = entries_of(origins, sizes)
    return Page.of(entries, bytearray(number in kept for number in range(len(entries))))


def test_a_page_of_one_name_is_counted_as_a_whole_whatever_its_origins():
    page = page_of([origin("a", str(number)) for number in range(ORIGINS_MAX + 9)], [3, *[7] * (ORIGINS_MAX + 8)])
    assert tally([page], name_of, ALL) == {"a": (ORIGINS_MAX + 9, 3 + 7 * (ORIGINS_MAX + 8))}


def test_of_several_names_rows_are_exact_and_bytes_in_proportion():
    a, b, c = origin("a"), origin("b"), origin("c")
    page = page_of([a, b, a, c, a, a], [1, 2, 3, 4, 5, 1000])
    found = tally([page], name_of, ALL)
    assert {name: rows for name, (rows, _) in found.items()} == {"a": 4, "b": 1, "c": 1}
    assert sum(size for _, size in found.values()) == page.bytes == 1015
    assert found["a"][1] == 1015 * 4 // 6


@pytest.mark.parametrize("below", range(1, 9))
def test_only_rows_below_a_sequence_count(below):
    a = origin("a")
    found = tally([page_of([a] * 6)], name_of, below)
    rows = min(6, below - 1)
    assert found == ({"a": (rows, 10 * rows)} if rows else {})


def test_what_was_taken_or_stays_an_object_does_not_count():
    a, b = origin("a"), origin("b")
    page = page_of([a, a, b, b, b, a, b], kept=(3,))
    assert tally([page], name_of, ALL) == {"a": (3, 30), "b": (3, 30)}
    page.take(1)
    page.remove(3)
    page.bytes -= 20
    assert tally([page], name_of, ALL) == {"a": (2, 20), "b": (2, 20)}


def test_rows_whose_origin_only_the_log_knows_are_as_the_others():
    origins = [origin("ab"[number % 2]) for number in range(ORIGINS_MAX)]
    page = page_of([*origins, *[origin("c", str(number)) for number in range(11)]])
    found = tally([page], name_of, ALL)
    assert found == {"a": (37, 370), "b": (38, 380)}
    page.take(ORIGINS_MAX)
    page.bytes = 110
    assert tally([page], name_of, ALL) == {"a": (11, 110)}


def test_pages_are_added_up_and_an_area_asks_each():
    a, b = origin("a"), origin("b")
    pages = pages_of(QUEUE, Disk())
    pages.add(entries_of([a, b], first=10), bytearray(2))
    pages.add_before(entries_of([a, a]), bytearray(2))
    assert pages.tally(name_of, ALL) == {"a": (3, 30), "b": (1, 10)}
    assert pages.tally(name_of, 3) == {"a": (2, 20)}


def test_a_page_that_leaves_is_told_to_who_accounts_for_its_rows():
    page = page_of([origin("a")] * 3)
    queue = durable_queue()
    queue.next_sequence = 100
    page_leaves(queue, page)  # nobody does
    queue.accounts = accounts = AddressAccounts(RecordingNodeEffects())
    account = accounts.account_for("a", AddressLimits(max_messages=1))
    assert account is not None
    accounts.count_rows(queue, account, (5, 50), 5)
    page_leaves(queue, page)
    assert (account.rows, account.row_bytes) == (2, 20)
    assert PageTally(page).rows == 0
