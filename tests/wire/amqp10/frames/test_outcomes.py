from __future__ import annotations

import pytest

from annulet.wire.amqp10.frames.outcomes import (
    MAX_TRANSACTION_ID_OCTETS,
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from annulet.wire.amqp10.types.composite import Composite, decode_composite
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        # §3.4 and §4.5: descriptors and fields by the tables of the standard
        (Received(1, 2), "005323c005025201" + "5302"),
        (Accepted(), "00532445"),
        (Rejected(Error("a", "b", {"c": None})), "005325c01401" + "00531dc00e03a30161a10162c10502a3016340"),
        (Released(), "00532645"),
        (Modified(True, True, {"a": None}), "005327c00a034141c10502a3016140"),
        (Declare(), "005331c0020140"),
        (Discharge(b"t", True), "005332c00502a0017441"),
        (Declared(b"t"), "005333c00401a00174"),
        (TransactionalState(b"t", Accepted()), "005334c00802a0017400532445"),
    ],
)
def test_octets_of_the_standard(value: Composite, octets: str) -> None:
    data = bytes.fromhex(octets)
    assert decode_composite(data, 0, len(data)) == (value, len(data))
    assert encode_composite(value) == data


def test_what_is_a_state_and_what_ends_a_delivery() -> None:
    # §3.4: terminal states are outcomes; §4.5.5: so is declared
    outcomes = [Accepted(), Rejected(), Released(), Modified(), Declared(b"t")]
    assert all(isinstance(value, Outcome) for value in outcomes)
    states = [*outcomes, Received(0, 0), TransactionalState(b"t")]
    assert all(isinstance(value, DeliveryState) for value in states)
    assert not any(isinstance(value, Outcome) for value in (Received(0, 0), TransactionalState(b"t")))
    assert not any(isinstance(value, DeliveryState) for value in (Error("a"), Declare(), Discharge(b"t")))


def test_a_transactional_state_holds_outcomes_only() -> None:
    inner = encode_composite(Received(0, 0))
    fields = b"\xa0\x01t" + inner
    data = b"\x00\x53\x34\xc0" + bytes((len(fields) + 1, 2)) + fields
    with pytest.raises(DecodeError, match=r"transactional-state\.outcome at octet 9 has the descriptor 0x23"):
        decode_composite(data, 0, len(data))


def test_transaction_ids_up_to_the_limit() -> None:
    fits = Declared(b"t" * MAX_TRANSACTION_ID_OCTETS)
    data = encode_composite(fits)
    assert decode_composite(data, 0, len(data))[0] == fits
    with pytest.raises(LocalProtocolError, match="at most 32"):
        encode_composite(Declared(b"t" * (MAX_TRANSACTION_ID_OCTETS + 1)))
