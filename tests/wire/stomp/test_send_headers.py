from __future__ import annotations

import pytest

from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.header_block import decode_block
from annulet.wire.stomp.send_headers import PRIORITY_MAX, TIME_MAX, read_number, read_send, read_switch


def test_a_plain_message_asks_for_nothing() -> None:
    facts = read_send({"destination": "/queue/a", "x": "1"})
    assert (facts.durable, facts.priority, facts.expires_at(10), facts.due_at(10)) == (False, -1, 0, 0)
    assert (facts.schedule_id, facts.cancels, facts.duplicate_id, facts.user_id) == ("", False, "", "")
    assert decode_block(facts.block) == {"destination": "/queue/a", "x": "1"}


def test_headers_of_the_frame_are_no_part_of_the_message() -> None:
    given = {"destination": "/queue/a", "receipt": "1", "transaction": "t", "content-length": "3", "ack": "x"}
    facts = read_send(given | {"message-id": "m1", "x-ring-size": "3"}, frozenset({"x-ring-size"}))
    assert decode_block(facts.block) == {"destination": "/queue/a", "amqp-message-id": "m1"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"expiration": "100"}, 1100),
        ({"expiration": "0"}, 0),
        ({"expires": "5000"}, 5000),
        ({"expires": "0"}, 0),
        ({"expires": "500"}, 500),
        ({"expires": "1050", "expiration": "100"}, 1050),
        ({"expires": "5000", "expiration": "100"}, 1100),
    ],
)
def test_lifetimes(headers: dict[str, str], expected: int) -> None:
    assert read_send(headers).expires_at(1000) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x-delay": "100"}, 1100),
        ({"AMQ_SCHEDULED_DELAY": "100"}, 1100),
        ({"AMQ_SCHEDULED_TIME": "5000"}, 5000),
        ({"_AMQ_SCHED_DELIVERY": "5000", "x-deliver-at": "6000"}, 6000),
        ({"x-deliver-at": "1050", "x-delay": "100"}, 1100),
        ({"x-delay": "-5"}, 0),
    ],
)
def test_delays(headers: dict[str, str], expected: int) -> None:
    assert read_send(headers).due_at(1000) == expected


def test_the_other_facts() -> None:
    facts = read_send(
        {
            "persistent": "true",
            "priority": "9",
            "x-schedule-id": "s",
            "x-schedule-cancel": "true",
            "_AMQ_DUPL_ID": "d",
            "user-id": "guest",
        }
    )
    assert (facts.durable, facts.priority, facts.schedule_id, facts.cancels) == (True, 9, "s", True)
    assert (facts.duplicate_id, facts.user_id) == ("d", "guest")


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"persistent": "perhaps"}, "header 'persistent' is 'perhaps'; give true or false"),
        ({"priority": "x"}, "header 'priority' is 'x'; give the priority, a whole number from 0 to 255"),
        ({"priority": str(PRIORITY_MAX + 1)}, "0 to 255"),
        ({"expiration": "-1"}, "header 'expiration' is '-1'"),
        ({"expires": str(TIME_MAX + 1)}, "header 'expires'"),
        ({"timestamp": "noon"}, "header 'timestamp'"),
        ({"JMSXGroupSeq": "first"}, "header 'JMSXGroupSeq'"),
        ({"x-schedule-cancel": "true"}, "name the message to take back in 'x-schedule-id'"),
        ({"_AMQ_DUPL_ID": "d" * 256}, "at most 255 octets"),
        ({"AMQ_SCHEDULED_CRON": "* * * * *"}, "repeated deliveries are not available"),
        ({"AMQ_SCHEDULED_DELAY": "9" * 40}, "header 'AMQ_SCHEDULED_DELAY' is '999"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(headers: dict[str, str], text: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_send(headers)
    assert text in caught.value.text


def test_limits_are_allowed_themselves() -> None:
    assert read_send({"priority": str(PRIORITY_MAX)}).priority == PRIORITY_MAX
    assert read_send({"expires": str(TIME_MAX)}).expires == TIME_MAX
    assert read_send({"x-duplicate-id": "d" * 255}).duplicate_id == "d" * 255


def test_numbers_and_switches() -> None:
    assert read_number("n", " 7 ", "it", 0, 9) == 7
    assert [read_switch("s", text) for text in ("TRUE", "1", "false", "0", "")] == [True, True, False, False, False]
