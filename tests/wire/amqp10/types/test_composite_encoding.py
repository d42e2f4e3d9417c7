from __future__ import annotations

from typing import Any

import pytest

from annulet._build import compiled
from annulet.core.base.typed_values import Symbol, UnsignedLong
from annulet.wire.amqp10.frames.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Declare,
    Discharge,
    Error,
    Open,
    Received,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Transfer,
)
from annulet.wire.amqp10.messages.sections import Header, Properties
from annulet.wire.amqp10.types.composite import Composite, decode_composite
from annulet.wire.amqp10.types.composite_encoding import encode_composite, encode_symbol_map
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError
from annulet.wire.amqp10.types.values import decode_value


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (Accepted(), "00532445"),
        # all fields of frames are there, nulls too: clients read the last ones without looking at the count
        (Close(), "005318c0020140"),
        (Open("c"), "005310c00d0aa10163" + "40" * 9),
        (Open("c", max_frame_size=512), "005310c0110aa1016340" + "7000000200" + "40" * 7),
        (Open("c", max_frame_size=2**32 - 1), "005310c00d0aa10163" + "40" * 9),  # a default is null
        (Begin(None, 0, 1, 2), "005311c00b08404352015202" + "40" * 4),
        (Transfer(0, settled=False), "005314c00c0b4340404042" + "40" * 6),
        (Source(outcomes=["a"]), "005328c0110b" + "404040404040404040" + "e00401a3016140"),
        (Discharge(b"t", True), "005332c00502a0017441"),
        (Declare(), "005331c0020140"),
        # those of a message are not
        (Header(), "00537045"),
        (Header(priority=4), "005370c00402405004"),
        (Properties(user_id=b"u"), "005373c0050240a00175"),
    ],
)
def test_encodings_by_hand(value: Composite, octets: str) -> None:
    assert encode_composite(value).hex() == octets


@pytest.mark.parametrize(
    ("value", "name", "content", "named"),
    [
        (Open("c"), "container_id", None, "open.container-id is missing"),
        (Open("c"), "container_id", 1, "open.container-id: a int was given, needed is a text"),
        (Open("c"), "hostname", "\ud800", "open.hostname: string"),
        (Open("c", channel_max=65536), "", None, "open.channel-max: .*65536"),
        (Open("c", max_frame_size=-1), "", None, "open.max-frame-size"),
        (Open("c"), "properties", [1], "open.properties: a list was given"),
        (Open("c", offered_capabilities=["ä"]), "", None, "open.offered-capabilities: symbol"),
        (Open("c"), "offered_capabilities", "a", "open.offered-capabilities: a str"),
        (Open("c", properties={"a": object()}), "", None, "open.properties: .* type object"),
        (Begin(), "outgoing_window", "1", "begin.outgoing-window: a str was given, needed is a number"),
        (Attach("n", 0, True), "role", 1, "attach.role: a int was given, needed is a boolean"),
        (Attach("n", 0, True, 3), "", None, "attach.snd-settle-mode: 3 was given, allowed are 0 to 2"),
        (Attach("n", 0, True), "source", Accepted(), "attach.source: a Accepted was given, needed is Source"),
        (Attach("n", 0, True), "target", Source(), "needed is Target or Coordinator"),
        (Attach("n", 0, True), "unsettled", {"a": None}, "octets as delivery tag"),
        (Attach("n", 0, True), "unsettled", {b"a": Source()}, "a delivery state"),
        (Transfer(0, 1, b"t" * 33), "", None, "transfer.delivery-tag: 33 octets were given, at most 32"),
        (Transfer(0), "delivery_tag", "t", "transfer.delivery-tag: a str was given, needed is octets"),
        (Received(0, 2**64), "", None, "received.section-offset"),
        (SaslOutcome(5), "", None, "sasl-outcome.code: 5"),
        (Declare(1), "", None, "declare.global-id: a int was given, needed is none"),
        (Close(Error("ä")), "", None, "close.error: error.condition: symbol"),
        (Properties(), "message_id", 1, "properties.message-id: a int was given"),
    ],
)
def test_our_own_mistakes_are_named(value: Composite, name: str, content: Any, named: str) -> None:
    if name:
        try:
            setattr(value, name, content)
        except TypeError:  # compiled classes do not even take it
            assert compiled()
            return
    with pytest.raises(LocalProtocolError, match=named):
        encode_composite(value)


def test_keys_of_fields_become_symbols() -> None:
    data = encode_symbol_map({"a": 1, Symbol("b"): "x", UnsignedLong(1): None})
    decoded, _ = decode_value(data, 0, len(data))
    assert [type(key) for key in decoded[::2]] == [Symbol, Symbol, UnsignedLong]
    data = encode_symbol_map({"lifetime": Accepted()})
    assert decode_value(data, 0, len(data))[0]["lifetime"] == [0x24, []]


def test_an_empty_mandatory_list_of_symbols_is_written_but_not_taken() -> None:
    data = encode_composite(SaslMechanisms([]))
    with pytest.raises(DecodeError, match=r"sasl-mechanisms\.sasl-server-mechanisms is missing"):
        decode_composite(data, 0, len(data))
