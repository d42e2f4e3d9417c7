"""Splitting a batch by group: all messages of a group are in one share, whichever task reads it and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.core.policies.message_groups import given_name

if TYPE_CHECKING:
    from annulet.bulk.protocol.schema import Row

SHARES_MAX: Final = 10_000
"""Shares of a batch: the largest number of partitions in Spark."""


def check_shares(share: int, shares: int) -> None:
    """Refuse an invalid share. Raises :class:`InvalidRequestError`."""
    if not 1 <= shares <= SHARES_MAX or not 0 <= share < shares:
        raise InvalidRequestError(f"share {share} of {shares} is none; there are 1 to {SHARES_MAX}, counted from 0")


def rows_of_share(rows: list[Row], share: int, shares: int, group_key: str) -> list[Row]:
    """Return the rows of one share, in order. Rows without a group are dealt out by position.

    ``group_key`` is the property that names the group in this queue; empty is the protocol's group id.
    """
    if shares == 1:
        return rows
    return [row for row in rows if share_of(row, shares, group_key) == share]


def share_of(row: Row, shares: int, group_key: str) -> int:
    """Return the share a row belongs to; the same in every process and at every time."""
    group = given_name(row.message, group_key)
    return crc32(group.encode("utf-8", "surrogatepass")) % shares if group else row.position % shares
