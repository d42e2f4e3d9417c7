from __future__ import annotations

import pytest

from annulet.wire.amqp10.frames.frames import FRAME_AMQP, FRAME_SASL
from annulet.wire.amqp10.frames.performatives import (
    Attach,
    Error,
    Open,
    SaslChallenge,
    SaslInit,
    SaslOutcome,
    SaslResponse,
    Source,
    Transfer,
)
from annulet.wire.amqp10.frames.trace import MAX_PAYLOAD_OCTETS_SHOWN, describe_frame
from annulet.wire.amqp10.types.composite import Composite
from tests.wire.amqp10.samples import COMPOSITES


def test_a_frame_is_a_line() -> None:
    attach = Attach("x", 0, True, source=Source("q"))
    assert describe_frame(FRAME_AMQP, 0, attach, 0) == (
        "#0 attach(name='x', handle=0, role=receiver, source=source(address='q'))"
    )
    assert describe_frame(FRAME_AMQP, 3, None, 0) == "#3 empty frame"
    assert describe_frame(FRAME_SASL, 0, SaslOutcome(0), 0) == "sasl sasl-outcome(code=0)"


def test_payloads_show_their_size_and_first_octets() -> None:
    transfer = Transfer(0, 5, b"\x00\x01", 0, True)
    line = "#1 transfer(handle=0, delivery_id=5, delivery_tag=x'0001', message_format=0, settled=True)"
    assert describe_frame(FRAME_AMQP, 1, transfer, 0) == line
    assert describe_frame(FRAME_AMQP, 1, transfer, 70) == line + " + 70 octets"
    assert describe_frame(FRAME_AMQP, 1, transfer, 2, b"\x00\x53") == line + " + 2 octets 00 53"
    shown = b"a" * MAX_PAYLOAD_OCTETS_SHOWN
    assert describe_frame(FRAME_AMQP, 1, transfer, 16, shown).endswith(" 61")
    assert describe_frame(FRAME_AMQP, 1, transfer, 70, shown + b"b").endswith(" 61...")


@pytest.mark.parametrize(
    "performative",
    [
        SaslInit("PLAIN", b"\0guest\0secret"),
        SaslResponse(b"secret"),
        SaslChallenge(b"secret"),
        SaslOutcome(1, b"secret"),
    ],
)
def test_secrets_show_their_length_only(performative: Composite) -> None:
    line = describe_frame(FRAME_SASL, 0, performative, 0)
    assert "secret" not in line
    assert b"secret".hex() not in line
    assert " octets>" in line


@pytest.mark.parametrize("performative", COMPOSITES, ids=repr)
def test_every_frame_fits_one_line_of_bounded_length(performative: Composite) -> None:
    line = describe_frame(FRAME_AMQP, 1, performative, 5, b"\n\r\0ab")
    assert line.isprintable()
    assert len(line) < 2000


def test_what_a_peer_sends_does_not_break_the_line() -> None:
    line = describe_frame(FRAME_AMQP, 0, Open("a\nb\x1b[2J" + "x" * 5000), 0)
    assert line.isprintable()
    assert "a\\nb\\x1b[2Jx" in line
    assert line.endswith("...(5007))")
    assert len(describe_frame(FRAME_AMQP, 0, Error("c", None, {"k": ["x"] * 9999}), 0)) < 300
