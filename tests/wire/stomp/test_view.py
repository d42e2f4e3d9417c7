from __future__ import annotations

import pytest

from annulet.core.base.death_trail import GIVEN, DeathRecord
from annulet.core.message.message import Message, Origin
from annulet.wire.stomp.header_block import decode_block, encode_block
from annulet.wire.stomp.view import VIEW


def message(headers: dict[str, str], body: bytes = b"x", accepted_at: int = 1000) -> Message:
    return Message(encode_block(headers), body, Origin("", "a", "", VIEW), accepted_at=accepted_at)


def test_properties_have_the_names_of_other_brokers() -> None:
    properties = VIEW.properties(
        message(
            {
                "destination": "/queue/a",
                "amqp-message-id": "m",
                "correlation-id": "c",
                "JMSReplyTo": "r",
                "JMSType": "t",
                "content-type": "text/plain",
                "content-encoding": "gzip",
                "JMSXGroupID": "g",
                "user-id": "u",
                "timestamp": "77",
                "colour": "red",
                "x-application-priority": "mine",
            }
        )
    )
    assert (properties.message_id, properties.correlation_id, properties.reply_to) == ("m", "c", "r")
    assert (properties.subject, properties.content_type, properties.content_encoding) == ("t", "text/plain", "gzip")
    assert (properties.group_id, properties.user_id, properties.timestamp) == ("g", "u", 77)
    assert properties.application == {"colour": "red", "priority": "mine"}


def test_application_properties_are_texts_and_the_group_sequence_a_number() -> None:
    sent = message({"price": "10", "JMSXGroupSeq": "-1", "x-application-destination": "d"})
    assert VIEW.application_property(sent, "price") == "10"
    assert VIEW.application_property(sent, "JMSXGroupSeq") == -1
    assert VIEW.application_property(sent, "destination") == "d"
    assert VIEW.application_property(sent, "none") is None
    assert VIEW.application_property(message({"JMSXGroupSeq": "x"}), "JMSXGroupSeq") is None


@pytest.mark.parametrize(("given", "priority"), [({}, -1), ({"priority": "7"}, 7), ({"priority": "x"}, -1)])
def test_the_given_priority(given: dict[str, str], priority: int) -> None:
    assert VIEW.given_priority(message(given)) == priority


def test_schedules_and_ids() -> None:
    assert VIEW.deliver_at(message({"AMQ_SCHEDULED_DELAY": "50"})) == 1050
    assert VIEW.deliver_at(message({"x-deliver-at": "9000", "x-delay": "bad"})) == 9000
    assert VIEW.deliver_at(message({})) == 0
    assert VIEW.schedule_id(message({"x-schedule-id": "s"})) == "s"
    assert VIEW.schedule_id(message({})) == ""
    assert VIEW.duplicate_id(message({"x-duplicate-id": "d"})) == "d"
    assert VIEW.duplicate_id(message({})) == ""
    assert VIEW.routing_keys(message({})) == ("a",)


def test_annotating_changes_only_what_it_is_told() -> None:
    sent = message({"destination": "/queue/a", "expiration": "5", "keep": "1", "drop": "2"})
    block = VIEW.annotated(sent, {"n": 7, "b": True}, without=("drop",), expires=False)
    assert decode_block(block) == {"destination": "/queue/a", "keep": "1", "n": "7", "b": "true"}
    assert decode_block(VIEW.annotated(sent, {}))["expiration"] == "5"


def test_a_dead_letter_carries_its_trail_and_leaves_lifetime_delay_and_destination() -> None:
    sent = message({"destination": "/queue/a", "expiration": "5", "expires": "9", "x-delay": "1", "keep": "1"})
    death = DeathRecord(queue="a", reason="expired", routing_keys=("a",), at=2000)
    header = VIEW.forwarded_header(sent, [death], {"_AMQ_ORIG_QUEUE": "a"}, rerouted=False)
    headers = decode_block(header)
    assert not {"destination", "expiration", "expires", "x-delay"} & set(headers)
    assert headers["keep"] == "1"
    assert headers["_AMQ_ORIG_QUEUE"] == "a"
    assert headers["x-first-death-queue"] == "a"
    copy = Message(header, b"", sent.origin)
    (known,) = VIEW.deaths(copy)
    assert (known.queue, known.reason, known.original_expiration) == ("a", "expired", "5")
    again = VIEW.forwarded_header(copy, [DeathRecord(queue="b", reason="rejected"), known], {}, rerouted=True)
    assert decode_block(again)["x-first-death-queue"] == "a"
    assert decode_block(again)["x-last-death-queue"] == "b"


def test_a_trail_that_its_publisher_wrote_is_no_death_and_the_next_one_takes_its_place() -> None:
    written = {"x-death": '[{"queue": "other", "reason": "expired"}]', "x-first-death-reason": "expired", "mine": "1"}
    assert [record.queue for record in VIEW.deaths(message(written))] == ["other"]
    sent = message({**written, GIVEN: "true"})
    assert VIEW.deaths(sent) == []
    header = VIEW.forwarded_header(sent, [DeathRecord(queue="q", reason="rejected")], {}, rerouted=False)
    headers = decode_block(header)
    assert (headers["mine"], headers["x-first-death-reason"], GIVEN in headers) == ("1", "rejected", False)
    assert [record.queue for record in VIEW.deaths(Message(header, b"", sent.origin))] == ["q"]


def test_the_whole_content_is_decoded_for_other_protocols() -> None:
    content = VIEW.content(message({"content-type": "text/plain", "a": "b"}, "hé".encode()))
    assert (content.body, content.application, content.routing_key) == ("hé", {"a": "b"}, "a")
