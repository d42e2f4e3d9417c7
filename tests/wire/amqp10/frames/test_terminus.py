from __future__ import annotations

import pytest

from annulet.core.base.typed_values import Described, Symbol, UnsignedLong
from annulet.wire.amqp10.frames.outcomes import Modified
from annulet.wire.amqp10.frames.terminus import (
    DELETE_ON_CLOSE,
    DURABLE_UNSETTLED_STATE,
    EXPIRE_NEVER,
    EXPIRE_SESSION_END,
    LIFETIME_POLICY,
    Coordinator,
    Source,
    Target,
)
from annulet.wire.amqp10.types.composite import Composite, decode_composite
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.errors import DecodeError
from tests.wire.amqp10.samples import SOURCE


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        # §3.5.3, §3.5.4, §4.5.1: descriptors and fields by the tables of the standard
        (Source("q"), "005328c00e0ba10171" + "40" * 10),
        (Source("q", 2, EXPIRE_NEVER, 60, True), "005328c0160ba101715202a3056e65766572523c41" + "40" * 6),
        (Target("q", capabilities=["queue"]), "005329c01307a101714040404040" + "e008" + "01a3057175657565"),
        (Coordinator(["a"]), "005330c00701e00401a30161"),
    ],
)
def test_octets_of_the_standard(value: Composite, octets: str) -> None:
    data = encode_composite(value)
    assert decode_composite(data, 0, len(data)) == (value, len(data))
    decoded, stop = decode_composite(bytes.fromhex(octets), 0, len(octets) // 2)
    assert (decoded, stop) == (value, len(octets) // 2)
    assert data.hex() == octets


def test_defaults_of_the_standard() -> None:
    data = b"\x00\x53\x28\x45"
    source, _ = decode_composite(data, 0, len(data))
    assert (source.address, source.durable, source.expiry_policy, source.timeout, source.dynamic) == (
        None,
        0,
        EXPIRE_SESSION_END,
        0,
        False,
    )
    assert (source.dynamic_node_properties, source.distribution_mode, source.filter) == ({}, None, {})
    assert (source.default_outcome, source.outcomes, source.capabilities) == (None, [], [])
    target, _ = decode_composite(b"\x00\x53\x29\x45", 0, 4)
    assert target == Target()


def test_filters_and_node_properties_keep_their_types() -> None:
    policy = Described([UnsignedLong(DELETE_ON_CLOSE), []])
    source = Source(
        dynamic=True,
        dynamic_node_properties={LIFETIME_POLICY: policy, "x-ring-size": 5},
        filter={"jms-selector": Described([Symbol("apache.org:selector-filter:string"), "a = 1"])},
    )
    data = encode_composite(source)
    decoded, _ = decode_composite(data, 0, len(data))
    assert type(decoded.filter["jms-selector"]) is Described
    assert type(decoded.filter["jms-selector"][0]) is Symbol
    assert type(decoded.dynamic_node_properties[LIFETIME_POLICY][0]) is UnsignedLong
    assert decoded == source


def test_a_source_with_every_field() -> None:
    data = encode_composite(SOURCE)
    decoded, _ = decode_composite(data, 0, len(data))
    assert decoded.durable == DURABLE_UNSETTLED_STATE
    assert decoded.default_outcome == Modified(True, True)
    assert decoded.outcomes == ["amqp:accepted:list", "amqp:released:list"]


def test_a_default_outcome_is_an_outcome() -> None:
    data = b"\x00\x53\x28\xc0\x10\x09" + b"\x40" * 8 + b"\x00\x53\x23\xc0\x02\x01\x43"
    with pytest.raises(DecodeError, match=r"source\.default-outcome at octet 14 has the descriptor 0x23"):
        decode_composite(data, 0, len(data))
