from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame

from annulet.wire.amqp091.connection.methods import METHODS, METHODS_BY_NAME, decode_method, encode_method
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError

ORACLE = {value.name.replace(".", "").lower(): value for value in commands.INDEX_MAPPING.values()}
UNKNOWN_TO_ORACLE = {"access.request", "access.request-ok"}
REFUSED_BY_ORACLE = {"channel.open", "channel.open-ok"}  # it wants "0" in a reserved string that others leave empty
short_text = st.text(alphabet="abcXYZ019-_.:", max_size=40)  # what the oracle lets a queue or exchange be called
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 255),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**63 - 1),  # the oracle reads larger ones as negative
    "shortstr": short_text,
    "longstr": short_text.map(str.encode),
    "table": st.dictionaries(short_text, st.booleans() | st.integers(-(2**31), 2**31 - 1) | short_text, max_size=4),
}


def oracle_class(name: str) -> Any:
    return ORACLE[name.replace(".", "").replace("-", "")]


def payload_of(marshalled: bytes) -> bytes:
    return marshalled[7:-1]


def test_the_oracle_knows_every_method_of_the_table_and_no_other() -> None:
    ours = {name.replace(".", "").replace("-", "") for name in METHODS_BY_NAME if name not in UNKNOWN_TO_ORACLE}
    assert ours >= set(ORACLE)
    for name in set(METHODS_BY_NAME) - UNKNOWN_TO_ORACLE:
        if name.replace(".", "").replace("-", "") in ORACLE:
            assert oracle_class(name).index == METHODS_BY_NAME[name].identifier, name


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")  # recover-async, in the oracle
@pytest.mark.parametrize("name", sorted(METHODS_BY_NAME))
@given(data=st.data())
def test_every_method_both_ways(name: str, data: st.DataObject) -> None:
    specification = METHODS_BY_NAME[name]
    arguments = {
        argument: data.draw(VALUES[kind], label=argument)
        for argument, kind in specification.arguments
        if not argument.startswith("reserved")
    }
    encoded = encode_method(name, arguments)
    sender = specification.senders[0]
    decoded = decode_method(encoded, sender).arguments
    assert {key: value for key, value in decoded.items() if not key.startswith("reserved")} == arguments
    if name.replace(".", "").replace("-", "") not in ORACLE or name in REFUSED_BY_ORACLE:
        return
    marshalled = b"\x01\x00\x01" + len(encoded).to_bytes(4, "big") + encoded + b"\xce"
    consumed, channel, theirs = frame.unmarshal(marshalled)
    assert (consumed, channel) == (len(marshalled), 1)
    names = theirs.attributes()
    assert len(names) == len(specification.arguments)
    for (argument, kind), their_name in zip(specification.arguments, names, strict=True):
        if not argument.startswith("reserved"):
            value = getattr(theirs, their_name)
            value = value.encode() if kind == "longstr" and isinstance(value, str) else value
            assert value == arguments[argument], argument
    if all(kind != "table" for _, kind in specification.arguments):
        assert payload_of(frame.marshal(theirs, 1)) == encoded


def test_delivery_tags_are_unsigned() -> None:
    encoded = encode_method("basic.ack", {"delivery_tag": 2**64 - 1})
    assert decode_method(encoded, "C").integer("delivery_tag") == 2**64 - 1


def test_an_accessor_for_another_domain_is_our_own_error() -> None:
    method = decode_method(encode_method("basic.ack"), "C")
    for accessor in (method.text, method.octets, method.flag, method.table):
        with pytest.raises(LocalProtocolError, match="another accessor"):
            accessor("delivery_tag")


@pytest.mark.parametrize("name", sorted(METHODS_BY_NAME))
def test_cut_and_prolonged_methods_are_syntax_errors(name: str) -> None:
    specification = METHODS_BY_NAME[name]
    encoded = encode_method(name)
    for size in range(4, len(encoded)):
        with pytest.raises(RemoteProtocolError) as caught:
            decode_method(encoded[:size], specification.senders[0])
        assert caught.value.code == 502
    with pytest.raises(RemoteProtocolError, match="too many"):
        decode_method(encoded + b"\0", specification.senders[0])


def test_methods_for_the_other_side_and_unknown_ones() -> None:
    for specification in METHODS.values():
        if "C" not in specification.senders:
            with pytest.raises(RemoteProtocolError) as caught:
                decode_method(encode_method(specification.name), "C")
            assert caught.value.code == 503
    with pytest.raises(RemoteProtocolError) as caught:
        decode_method(b"\x00\x3c\x03\xe7", "C")
    assert caught.value.code == 540


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("basic.nonsense", {}),
        ("basic.ack", {"tag": 1}),
        ("basic.ack", {"delivery_tag": -1}),
        ("basic.ack", {"delivery_tag": 2**64}),
        ("basic.cancel", {"consumer_tag": 7}),
        ("basic.cancel", {"consumer_tag": "x" * 256}),
    ],
)
def test_what_cannot_be_encoded_is_our_own_error(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_method(name, arguments)
