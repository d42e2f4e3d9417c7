from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.typed_values import TimestampMilliseconds
from annulet.wire.amqp10.messages.deaths import decode_deaths, encode_deaths
from tests.wire.contents import as_tuple

DEATH = DeathRecord(
    queue="q", reason="expired", exchange="e", routing_keys=("k", "l"), at=1234, count=3, original_expiration="50"
)


def test_a_trail_both_ways() -> None:
    other = DeathRecord(queue="p", reason="rejected")
    encoded = encode_deaths([DEATH, other])
    assert encoded[0] == {
        "queue": "q", "reason": "expired", "count": 3, "first-time": TimestampMilliseconds(1234), "exchange": "e",
        "routing-keys": ["k", "l"], "original-expiration": "50",
    }  # fmt: skip
    assert "original-expiration" not in encoded[1]
    assert [as_tuple(record) for record in decode_deaths(encoded)] == [as_tuple(DEATH), as_tuple(other)]


@pytest.mark.parametrize("value", [None, "x", 7, {}, {"queue": "q"}])
def test_what_is_no_list_is_no_trail(value: Any) -> None:
    assert decode_deaths(value) == []


@pytest.mark.parametrize(
    "fields",
    [7, {"queue": 1, "reason": [], "count": "x", "first-time": -1, "exchange": None, "routing-keys": "k"},
     {"count": True, "first-time": True, "routing-keys": [1]}, {"count": 0, "first-time": 2**62}],
)  # fmt: skip
def test_a_record_a_client_made_up_counts_as_far_as_it_makes_sense(fields: Any) -> None:
    (record,) = decode_deaths([fields])
    assert as_tuple(record) == as_tuple(DeathRecord(queue="", reason=""))
