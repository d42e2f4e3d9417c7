"""Bytes of stages: counted by user and together, refused at the limit, given back."""

from __future__ import annotations

import pytest

from annulet.bulk.bounds.stage_account import StageAccount
from annulet.bulk.protocol.errors import OverLimitError


def test_a_user_may_have_as_much_as_the_limit_and_not_a_byte_more() -> None:
    account = StageAccount(10, 100)
    entry = account.begin("ann")
    entry.add(10)
    with pytest.raises(OverLimitError, match=r"need 11 bytes, 10 are allowed \(max_stage_bytes_per_user\)") as caught:
        entry.add(1)
    assert caught.value.limit == "max_stage_bytes_per_user"
    account.begin("bob").add(10)
    assert account.figures() == (0, 20)
    entry.fail()
    account.begin("ann").add(10)
    assert account.figures() == (0, 20)


def test_all_users_share_a_limit() -> None:
    account = StageAccount(10, 15)
    account.begin("ann").add(10)
    bob = account.begin("bob")
    bob.add(5)
    with pytest.raises(
        OverLimitError, match=r"all users would need 16 bytes, 15 are allowed \(max_stage_bytes\)"
    ) as caught:
        bob.add(1)
    assert caught.value.limit == "max_stage_bytes"


def test_stages_are_counted_until_they_are_dropped() -> None:
    account = StageAccount(10, 10)
    entry = account.begin("ann")
    entry.add(4)
    entry.keep(("folder", "stage"))
    assert account.figures() == (1, 4)
    again = account.begin("ann")
    again.add(6)
    again.keep(("folder", "stage"))
    assert account.figures() == (1, 6), "a stage sent again takes the place of the first"
    account.drop(("folder", "stage"))
    account.drop(("folder", "stage"))
    assert account.figures() == (0, 0)


def test_what_a_former_run_left_counts_even_above_the_limit() -> None:
    account = StageAccount(10, 10)
    account.restore(("folder", "stage"), "ann", 12)
    assert account.figures() == (1, 12)
    with pytest.raises(OverLimitError):
        account.begin("ann").add(1)
