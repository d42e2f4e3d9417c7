from __future__ import annotations

import pytest
from pamqp import exceptions

from annulet.wire.amqp091.types.constants import CHANNEL_CODES, MAX_SHORT_STRING_BYTES, REPLY_NAMES, reply_text


@pytest.mark.parametrize(("code", "name"), sorted(REPLY_NAMES.items()))
def test_every_row_agrees_with_the_oracle(code: int, name: str) -> None:
    theirs = exceptions.CLASS_MAPPING.get(code)
    if theirs is None:
        assert code in {200, 312}  # not an error; lost in the published XML
        return
    assert theirs.name in {name, name.replace("_", "-")}
    assert issubclass(theirs, exceptions.AMQPSoftError) is (code in CHANNEL_CODES)


def test_no_code_of_the_oracle_is_missing() -> None:
    assert set(exceptions.CLASS_MAPPING) <= set(REPLY_NAMES)


def test_texts_carry_the_name_once() -> None:
    assert reply_text(404, "no queue 'q'") == "NOT_FOUND - no queue 'q'"
    assert reply_text(404, "NOT_FOUND - no queue 'q'") == "NOT_FOUND - no queue 'q'"
    assert reply_text(404, "") == "NOT_FOUND"
    assert reply_text(200, "bye") == "bye"
    assert reply_text(999, "odd") == "odd"


@pytest.mark.parametrize("size", [254, 255, 256, 3000])
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_texts_fit_a_short_string(size: int, letter: str) -> None:
    text = reply_text(200, letter * size)
    assert len(text.encode()) <= MAX_SHORT_STRING_BYTES
    assert text == letter * size or text.endswith("...")
    assert text.removesuffix("...") == letter * len(text.removesuffix("..."))
