from __future__ import annotations

import pytest

from annulet.wire.amqp10.frames.performatives import decode_performative, encode_performative
from annulet.wire.amqp10.frames.sasl import (
    SASL_AUTHENTICATION_FAILED,
    SASL_OK,
    SASL_PERMANENT_SYSTEM_ERROR,
    SASL_SYSTEM_ERROR,
    SASL_TEMPORARY_SYSTEM_ERROR,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from annulet.wire.amqp10.types.composite import Composite
from annulet.wire.amqp10.types.errors import DecodeError


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        # §5.3.3: descriptors and fields by the tables of the standard
        (SaslMechanisms(["A", "B"]), "005340c00901e00602a301410142"),
        (SaslInit("A", b"x", "h"), "005341c00a03a30141a00178a10168"),
        (SaslInit("A"), "005341c00603a301414040"),
        (SaslChallenge(b"x"), "005342c00401a00178"),
        (SaslResponse(b""), "005343c00301a000"),
        (SaslOutcome(SASL_OK), "005344c00402500040"),
        (SaslOutcome(SASL_AUTHENTICATION_FAILED, b"x"), "005344c006025001a00178"),
    ],
)
def test_octets_of_the_standard(value: Composite, octets: str) -> None:
    data = bytes.fromhex(octets)
    assert decode_performative(data, 0, len(data)) == (value, len(data))
    assert encode_performative(value) == data


def test_one_mechanism_needs_no_array() -> None:
    data = bytes.fromhex("005340c00401a30141")
    assert decode_performative(data, 0, len(data))[0] == SaslMechanisms(["A"])


def test_outcome_codes_of_the_standard() -> None:
    codes = [
        SASL_OK, SASL_AUTHENTICATION_FAILED, SASL_SYSTEM_ERROR, SASL_PERMANENT_SYSTEM_ERROR,
        SASL_TEMPORARY_SYSTEM_ERROR,
    ]  # fmt: skip
    assert codes == list(range(5))
    data = bytes.fromhex("005344c003015005")
    with pytest.raises(DecodeError, match=r"sasl-outcome\.code is 5, allowed are 0 to 4"):
        decode_performative(data, 0, len(data))


def test_a_response_is_mandatory_but_may_be_empty() -> None:
    data = bytes.fromhex("00534345")
    with pytest.raises(DecodeError, match=r"sasl-response\.response is missing"):
        decode_performative(data, 0, len(data))
