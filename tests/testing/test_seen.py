from __future__ import annotations

import pytest

from annulet.core.message.message import Message, Origin
from annulet.testing.seen import BODY_CHARACTERS_SHOWN, SeenMessage, seen
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties


def message(body: bytes, **properties: object) -> SeenMessage:
    given = BasicProperties()
    for name, value in properties.items():
        setattr(given, name, value)
    return seen("q", 3, Message(encode_properties(given), body, Origin("orders", "new", "", VIEW), accepted_at=5))


def test_it_has_the_properties_of_every_protocol() -> None:
    one = message(b'{"id": 1}', headers={"a": 1}, message_id="m", correlation_id="c", content_type="t", reply_to="r")
    assert (one.queue, one.number, one.state) == ("q", 3, "published")
    assert one.json == {"id": 1}
    assert one.text == '{"id": 1}'
    assert one.headers == {"a": 1}
    assert (one.message_id, one.correlation_id, one.content_type, one.reply_to) == ("m", "c", "t", "r")
    assert (one.exchange, one.routing_key, one.published_at) == ("orders", "new", 5)


def test_its_line_shows_enough_to_tell_it_from_others() -> None:
    assert message(b"1", headers={"a": 1}).line() == "q#3 '1' headers={'a': 1} by exchange 'orders' with key 'new'"
    exact = message(b"x" * BODY_CHARACTERS_SHOWN).line()
    longer = message(b"x" * (BODY_CHARACTERS_SHOWN + 1)).line()
    assert "..." not in exact
    assert f"... ({BODY_CHARACTERS_SHOWN + 1} bytes)" in longer
    assert "\\xff" in message(b"\xff").line()


def test_a_body_that_is_no_json_says_which() -> None:
    with pytest.raises(ValueError, match=r"the body of q#3 'x' .* is no JSON"):
        _ = message(b"x").json
