from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from annulet.core.base.typed_values import Symbol
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.fields import (
    read_binary,
    read_boolean,
    read_fields,
    read_string,
    read_symbol,
    read_symbols,
    read_timestamp,
    read_unsigned_byte,
    read_unsigned_int,
    read_unsigned_long,
    read_unsigned_short,
    wrong_type,
)

Reader = Callable[[bytes, int, int, str], tuple[Any, int]]

# §1.6: every format of each type, and null
ROWS: list[tuple[Reader, str, Any]] = [
    (read_boolean, "41", 1),
    (read_boolean, "42", 0),
    (read_boolean, "5601", 1),
    (read_boolean, "5600", 0),
    (read_boolean, "40", -1),
    (read_unsigned_byte, "50ff", 255),
    (read_unsigned_byte, "40", -1),
    (read_unsigned_short, "60fffe", 65534),
    (read_unsigned_short, "40", -1),
    (read_unsigned_int, "43", 0),
    (read_unsigned_int, "52ff", 255),
    (read_unsigned_int, "70ffffffff", 2**32 - 1),
    (read_unsigned_int, "40", -1),
    (read_unsigned_long, "44", 0),
    (read_unsigned_long, "53ff", 255),
    (read_unsigned_long, "80ffffffffffffffff", 2**64 - 1),
    (read_unsigned_long, "40", -1),
    (read_timestamp, "83ffffffffffffffff", -1),
    (read_timestamp, "40", None),
    (read_binary, "a002ff00", b"\xff\x00"),
    (read_binary, "b000000002ff00", b"\xff\x00"),
    (read_binary, "40", None),
    (read_string, "a103e282ac", "€"),
    (read_string, "b100000003e282ac", "€"),
    (read_string, "40", None),
    (read_symbol, "a30161", "a"),
    (read_symbol, "b30000000161", "a"),
    (read_symbol, "40", None),
    (read_symbols, "a30161", ["a"]),
    (read_symbols, "b30000000161", ["a"]),
    (read_symbols, "e00602a301610162", ["a", "b"]),
    (read_symbols, "e00200a3", []),
    (read_symbols, "40", []),
    (read_fields, "c10502a3016140", {"a": None}),
    (read_fields, "c10502a1016140", {"a": None}),
    (read_fields, "c10100", {}),
    (read_fields, "40", {}),
]


@pytest.mark.parametrize(("reader", "octets", "value"), ROWS)
def test_every_format_is_read_whole_and_cut_short(reader: Reader, octets: str, value: Any) -> None:
    data = bytes.fromhex(octets)
    assert reader(b"\xff" + data + b"more", 1, 1 + len(data), "attach.x") == (value, 1 + len(data))
    for end in range(1, 1 + len(data)):
        with pytest.raises(DecodeError):
            reader(b"\xff" + data, 1, end, "attach.x")


@pytest.mark.parametrize("reader", sorted({row[0] for row in ROWS}, key=lambda reader: reader.__name__))
def test_other_types_are_refused_with_the_name_of_the_field(reader: Reader) -> None:
    own = {octets[:2] for other, octets, _ in ROWS if other is reader}
    refused = 0
    for _, octets, _ in ROWS:
        if octets[:2] in own:
            continue
        data = bytes.fromhex(octets)
        with pytest.raises(DecodeError, match=r"attach\.x at octet 0 has format code 0x"):
            reader(data, 0, len(data), "attach.x")
        refused += 1
    assert refused > 10


def test_symbols_come_as_plain_text() -> None:
    assert type(read_symbol(b"\xa3\x01a", 0, 3, "x")[0]) is str
    names, _ = read_symbols(b"\xe0\x06\x02\xa3\x01a\x01b", 0, 8, "x")
    assert [type(name) for name in names] == [str, str]
    fields, _ = read_fields(b"\xc1\x05\x02\xa3\x01a\x40", 0, 7, "x")
    assert [type(name) for name in fields] == [Symbol]


@pytest.mark.parametrize(
    ("reader", "octets", "named"),
    [
        (read_boolean, "5602", "boolean of 2"),
        (read_symbol, "a301ff", "x at octet 2"),
        (read_string, "a101ff", "x at octet 2"),
        (read_symbols, "e00402550101", "array of int"),
        (read_fields, "c10402520140", "keys are symbols"),
        (read_fields, "c10602a10161a101", "needs"),
    ],
)
def test_contents_are_checked(reader: Reader, octets: str, named: str) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError, match=named):
        reader(data, 0, len(data), "x")


def test_the_error_of_a_wrong_type_names_all() -> None:
    text = str(wrong_type("transfer.handle", 0xA1, 7, "a uint"))
    assert "transfer.handle at octet 7 has format code 0xa1, needed is a uint" in text
