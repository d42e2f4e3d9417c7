from __future__ import annotations

import pytest

from annulet.admin.rabbitmq.framework.bodies import Fields
from annulet.admin.requests.responses import ResourceError


def test_words_and_digits_in_texts_are_taken_as_rabbitmq_does() -> None:
    fields = Fields({"on": "true", "off": False, "count": "5", "less": "-1", "none": None, "list": []})
    assert fields.switch("on", default=False)
    assert not fields.switch("off", default=True)
    assert fields.switch("none", default=True)
    assert fields.integer("count", None, 0) == 5
    assert fields.integer("less", None, -5) == -1
    assert fields.object("list") == {}
    assert fields.text("none", "default") == "default"


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda fields: fields.switch("five", default=True), "field 'five': value 5; give true or false"),
        (lambda fields: fields.switch("list", default=True), r"field 'list': value \[\]; give true or false"),
        (lambda fields: fields.integer("word", None, 0, 9), "field 'word': value 'ten'; give an integer from 0 to 9"),
        (lambda fields: fields.integer("on", None, 0, 9), "field 'on': value True; give an integer"),
        (lambda fields: fields.integer("five", None, 0, 4), "field 'five': value 5; give an integer from 0 to 4"),
        (lambda fields: fields.integer("gone", None, 0, 4), "field 'gone': missing; give an integer from 0 to 4"),
        (lambda fields: fields.text("gone", remedy="give x"), "field 'gone': missing; give x"),
        (lambda fields: fields.text("five"), "field 'five': value 5; give a text"),
        (lambda fields: fields.object("five"), "field 'five': value 5; give an object"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_the_remedy(read: object, reason: str) -> None:
    fields = Fields({"five": 5, "word": "ten", "on": True, "list": []})
    assert callable(read)
    with pytest.raises(ResourceError, match=reason):
        read(fields)
