from __future__ import annotations

from typing import Any

import pytest

from annulet.admin.interface.values import Value
from annulet.admin.requests.bodies import INTEGER, SWITCH, TEXTS
from annulet.admin.requests.responses import ResourceError

NUMBER = Value("size", "the size", INTEGER, 2, 4, 3)
STATE = Value("state", "the state", choices=("on", "off"))


@pytest.mark.parametrize(
    ("value", "text", "read"),
    [
        (NUMBER, "2", 2),
        (NUMBER, "4", 4),
        (STATE, "off", "off"),
        (Value("force", "force", SWITCH), "true", True),
        (Value("force", "force", SWITCH), "false", False),
        (Value("name", "a name"), "é", "é"),
    ],
)
def test_parameters_within_their_bounds(value: Value, text: str, read: Any) -> None:
    assert value.read(text) == read


@pytest.mark.parametrize(
    ("value", "text", "words"),
    [
        (NUMBER, "1", "query parameter size='1' is not an integer from 2 to 4"),
        (NUMBER, "5", "size='5' is not an integer"),
        (NUMBER, "9" * 20, "is not an integer"),
        (NUMBER, "", "size='' is not an integer"),
        (STATE, "onn", "state='onn' is unknown; did you mean 'on'?"),
        (Value("force", "force", SWITCH), "yes", "force='yes' is not true or false"),
    ],
)
def test_other_parameters_are_refused_with_name_value_and_remedy(value: Value, text: str, words: str) -> None:
    with pytest.raises(ResourceError, match="query parameter") as refused:
        value.read(text)
    assert refused.value.status == 400
    assert words in refused.value.reason


def test_fields_have_the_same_bounds() -> None:
    NUMBER.check(2)
    NUMBER.check(4)
    STATE.check("on")
    with pytest.raises(ResourceError, match="field 'size' is 5; give an integer from 2 to 4"):
        NUMBER.check(5)
    with pytest.raises(ResourceError, match="field 'state': unknown value 'of'; did you mean 'off'"):
        STATE.check("of")


def test_the_schema_says_the_same() -> None:
    assert NUMBER.schema() == {"type": "integer", "minimum": 2, "maximum": 4, "default": 3}
    assert STATE.schema() == {"type": "string", "enum": ["on", "off"]}
    assert Value("tags", "tags", TEXTS).schema() == {"type": "array", "items": {"type": "string"}}
