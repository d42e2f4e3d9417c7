"""All messages of a group are in one share."""

from __future__ import annotations

from collections import Counter

import pytest

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.schema import Row
from annulet.bulk.protocol.shares import SHARES_MAX, check_shares, rows_of_share
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from annulet.wire.amqp10.messages.message import split_incoming
from annulet.wire.amqp10.messages.sections import APPLICATION_PROPERTIES, DATA, encode_section
from annulet.wire.amqp10.messages.view import VIEW as VIEW_10


def row(position: int, **headers: object) -> Row:
    properties = BasicProperties()
    properties.headers = headers or None
    return Row(
        position, Message(encode_properties(properties), b"", Origin("", "q", "", VIEW)), 0, 0, redelivered=False
    )


@pytest.mark.parametrize(("header", "key"), [("group-id", ""), ("sensor", "sensor")])
def test_every_row_is_in_one_share_and_every_group_too(header: str, key: str) -> None:
    rows = [row(position, **{header: f"g{position % 7}"}) for position in range(1, 101)]

    shares = [rows_of_share(rows, share, 3, key) for share in range(3)]

    assert sorted(one.position for share in shares for one in share) == list(range(1, 101))
    assert all(share == sorted(share, key=lambda one: one.position) for share in shares)
    groups = Counter(group for share in shares for group in {one.position % 7 for one in share})
    assert set(groups.values()) == {1}
    assert sum(1 for share in shares if share) > 1


@pytest.mark.parametrize("name", ["JMSXGroupID", "_AMQ_GROUP_ID"])
def test_what_groups_a_queue_groups_a_split(name: str) -> None:
    """AMQP 1.0 has a field of its own for the group; some senders name it in a property all the same."""
    payload = encode_section(APPLICATION_PROPERTIES, {name: "g"}) + encode_section(DATA, b"")
    incoming = split_incoming(payload)
    message = Message(incoming.header, incoming.body, Origin("", "q", "", VIEW_10))
    rows = [Row(position, message, 0, 0, redelivered=False) for position in range(1, 21)]

    assert {len(rows_of_share(rows, share, 3, "")) for share in range(3)} == {0, 20}


def test_numbers_are_groups_by_their_text() -> None:
    rows = [row(position, sensor=position % 2) for position in range(1, 21)]

    assert {len(rows_of_share(rows, share, 50, "sensor")) for share in range(50)} == {0, 10}


def test_rows_without_a_group_are_dealt_out() -> None:
    rows = [row(position) for position in range(1, 11)]

    assert [one.position for one in rows_of_share(rows, 1, 2, "")] == [1, 3, 5, 7, 9]
    assert rows_of_share(rows, 0, 1, "") is rows


@pytest.mark.parametrize(("share", "shares"), [(0, 0), (2, 2), (-1, 2), (0, SHARES_MAX + 1)])
def test_what_is_no_share_is_refused(share: int, shares: int) -> None:
    with pytest.raises(InvalidRequestError, match=f"share {share} of {shares}"):
        check_shares(share, shares)


def test_the_largest_number_of_shares() -> None:
    check_shares(SHARES_MAX - 1, SHARES_MAX)
