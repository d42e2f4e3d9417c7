"""What an address may hold, and which limits say the same."""

from __future__ import annotations

import pytest

from annulet.core.configuration.address_limits import BLOCK, DROP, FAIL, NO_POLICY, PAGE, AddressLimits


@pytest.mark.parametrize(("messages", "octets", "full"), [(2, 10, False), (3, 10, True), (2, 11, True), (3, 11, True)])
def test_whichever_limit_comes_first(messages, octets, full):
    assert AddressLimits(max_messages=2, max_bytes=10).exceeded_by(messages, octets) is full


@pytest.mark.parametrize(("messages", "octets", "reached"), [(1, 9, False), (2, 9, True), (1, 10, True)])
def test_a_limit_is_reached_when_no_message_of_one_byte_fits(messages, octets, reached):
    assert AddressLimits(max_messages=2, max_bytes=10).reached_by(messages, octets) is reached
    pages = AddressLimits(page_max_messages=2, page_max_bytes=10, page_policy=DROP)
    assert pages.page_reached_by(messages, octets) is reached


def test_the_reject_threshold_is_a_limit_of_block_only():
    blocking = AddressLimits(policy=BLOCK, reject_threshold=5)
    assert (blocking.refused_by(5), blocking.refused_by(6), blocking.unlimited) == (False, True, False)
    failing = AddressLimits(policy=FAIL, reject_threshold=5)
    assert (failing.refused_by(6), failing.unlimited) == (False, True)


@pytest.mark.parametrize(
    ("policy", "page_policy", "limits"), [(PAGE, DROP, True), (PAGE, NO_POLICY, False), (FAIL, DROP, False)]
)
def test_page_limits_need_paging_and_a_policy(policy, page_policy, limits):
    assert AddressLimits(policy=policy, page_max_messages=1, page_policy=page_policy).limits_pages is limits


def test_limits_are_the_same_by_all_their_values_and_page_the_same_by_three():
    paging = AddressLimits(max_messages=2)
    assert paging.same_as(AddressLimits(max_messages=2))
    assert not paging.same_as(AddressLimits(max_messages=2, page_max_messages=1))
    assert paging.pages_as(AddressLimits(max_messages=2, page_max_messages=1))
    assert not paging.pages_as(AddressLimits(max_messages=2, policy=DROP))
    assert AddressLimits(max_messages=2, policy=FAIL).pages_as(AddressLimits(max_messages=3, policy=DROP))
