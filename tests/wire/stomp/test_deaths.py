from __future__ import annotations

import pytest

from annulet.core.base.death_trail import RECORDS_MAX, DeathRecord
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages import conversion as amqp091
from annulet.wire.amqp10.messages import conversion as amqp10
from annulet.wire.stomp.conversion import to_content
from annulet.wire.stomp.deaths import decode_deaths, encode_deaths
from annulet.wire.stomp.header_block import encode_block
from annulet.wire.stomp.view import VIEW
from tests.wire.contents import as_tuple

RECORDS = [
    DeathRecord(queue="q", reason="expired", exchange="e", routing_keys=("k", "l"), at=5000, count=2),
    DeathRecord(queue="p", reason="rejected", original_expiration="7"),
]


def test_a_trail_survives() -> None:
    headers = encode_deaths(RECORDS, first_known=False)
    assert [as_tuple(record) for record in decode_deaths(headers["x-death"])] == [
        as_tuple(record) for record in RECORDS
    ]
    assert (headers["x-first-death-queue"], headers["x-last-death-reason"]) == ("q", "expired")
    assert "x-first-death-queue" not in encode_deaths(RECORDS, first_known=True)


def test_the_lifetime_a_message_dies_with_is_kept() -> None:
    first = DeathRecord(queue="q", reason="expired")
    headers = encode_deaths([first], first_known=False, original_expiration="100")
    assert decode_deaths(headers["x-death"])[0].original_expiration == "100"


@pytest.mark.parametrize("text", [None, "", "{", "7", '{"a":1}', "[1, null]", "[" * 100_000])
def test_what_a_client_wrote_there_may_be_anything(text: str | None) -> None:
    assert decode_deaths(text) == []


def test_what_no_other_protocol_could_say_is_made_so_that_it_can() -> None:
    """Else nobody could be delivered the message: half a character, a time after the year 9999."""
    (record,) = decode_deaths(
        '[{"queue":"a\\ud800","routing-keys":["\\udfffb","\\ud83d\\ude00"],"time":253402300800000}]'
    )
    assert as_tuple(record) == as_tuple(DeathRecord(queue="a\ufffd", routing_keys=("\ufffdb", "\U0001f600"), reason=""))
    for text in ('[{"queue":"\\ud800","time":253402300799999}]', '[{"reason":"\\udfff","time":253402300800000}]'):
        message = Message(encode_block({"x-death": text}), b"", Origin("", "q", "guest", VIEW))
        for protocol in (amqp091, amqp10):
            assert protocol.from_content(to_content(message))


def test_fields_of_a_wrong_type_count_as_absent_and_records_are_bounded() -> None:
    (record,) = decode_deaths('[{"queue":1,"reason":"r","count":-1,"time":"x","routing-keys":[1,"k"]}]')
    assert as_tuple(record) == as_tuple(DeathRecord(queue="", reason="r", routing_keys=("k",)))
    assert len(decode_deaths("[" + ",".join(["{}"] * (RECORDS_MAX + 5)) + "]")) == RECORDS_MAX
