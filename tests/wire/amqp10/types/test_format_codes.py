from __future__ import annotations

from annulet.wire.amqp10.types import format_codes
from annulet.wire.amqp10.types.format_codes import SIZE_OCTET, SIZE_WORD, UNKNOWN_WIDTH, WIDTHS


def test_widths_follow_the_subcategory_of_each_code() -> None:
    # §1.2.3: the high half of a format code says how many octets follow
    by_category = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 0xA: SIZE_OCTET, 0xB: SIZE_WORD, 0xC: SIZE_OCTET,
                   0xD: SIZE_WORD, 0xE: SIZE_OCTET, 0xF: SIZE_WORD}  # fmt: skip
    known = [code for code in range(256) if WIDTHS[code] != UNKNOWN_WIDTH]
    assert len(known) == 39  # the primitive encodings of §1.6
    for code in known:
        assert WIDTHS[code] == by_category[code >> 4]


def test_every_named_code_is_known() -> None:
    bounds = {"MAX_DEPTH", "MAX_ZERO_WIDTH_ELEMENTS", "UNKNOWN_WIDTH", "SIZE_OCTET", "SIZE_WORD", "DESCRIBED"}
    codes = {name: value for name, value in vars(format_codes).items() if isinstance(value, int) and name not in bounds}
    assert len(set(codes.values())) == len(codes) == 39
    assert all(WIDTHS[code] != UNKNOWN_WIDTH for code in codes.values())
