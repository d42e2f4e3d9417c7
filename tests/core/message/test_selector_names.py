"""What selectors call the parts of a message, and how little is decoded for it."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.message.message import ContentView, Message, Origin, StandardProperties
from annulet.core.message.selector_names import (
    HEADER_IDENTIFIERS,
    PER_DELIVERY,
    MessageLookup,
    address_of,
    lookup_for,
    message_selector,
    refuse_per_delivery,
)
from annulet.selector.selector import compile_selector
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties


class CountingView(ContentView):
    """Knows what it is asked to decode."""

    def __init__(self, properties=None, **application):
        super().__init__("counting")
        self.standard = StandardProperties(**(properties or {}))
        self.application = application
        self.calls = []

    def properties(self, message):
        self.calls.append("properties")
        return self.standard

    def application_property(self, message, name):
        self.calls.append(name)
        return self.application.get(name)


def message_of(view, *, exchange="", routing_key="orders", **facts):
    return Message(b"", b"12345", Origin(exchange, routing_key, "guest@test", view), **facts)


FULL = {
    "message_id": "ID:7", "correlation_id": "c7", "reply_to": "answers", "subject": "car", "content_type": "text/plain",
    "content_encoding": "gzip", "group_id": "g1", "user_id": "ada", "timestamp": 1_700_000_000_000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "empty"),
    [
        ("JMSMessageID", "ID:7", None), ("AMQUserID", "ID:7", None), ("amqp.message_id", "ID:7", None),
        ("JMSCorrelationID", "c7", None), ("amqp.correlation_id", "c7", None),
        ("JMSReplyTo", "answers", None), ("amqp.reply_to", "answers", None),
        ("JMSType", "car", None), ("amqp.subject", "car", None),
        ("JMSXGroupID", "g1", None), ("AMQGroupID", "g1", None), ("amqp.group_id", "g1", None),
        ("JMSXUserID", "ada", None), ("amqp.user_id", "ada", None),
        ("amqp.content_type", "text/plain", None), ("amqp.content_encoding", "gzip", None),
        ("JMSTimestamp", 1_700_000_000_000, 900), ("AMQTimestamp", 1_700_000_000_000, 900),
        ("amqp.creation_time", 1_700_000_000_000, 900),
        ("JMSXGroupSeq", 3, None), ("amqp.group_sequence", 3, None),
        ("JMSPriority", 9, 4), ("AMQPriority", 9, 4), ("amqp.priority", 9, 4),
        ("JMSExpiration", 5000, 0), ("AMQExpiration", 5000, 0), ("amqp.absolute_expiry_time", 5000, 0),
        ("JMSDeliveryMode", "PERSISTENT", "NON_PERSISTENT"), ("AMQDurable", "DURABLE", "NON_DURABLE"),
        ("amqp.durable", True, False),
        ("JMSDestination", "orders", "orders"), ("AMQAddress", "orders", "orders"), ("amqp.to", "orders", "orders"),
        ("amqp.exchange", "", ""), ("amqp.routing_key", "orders", "orders"), ("AMQSize", 5, 5),
        ("JMSRedelivered", None, None), ("JMSXDeliveryCount", None, None), ("amqp.redelivered", None, None),
        ("amqp.delivery_count", None, None),
    ],
)  # fmt: skip
def test_header_identifiers(name, value, empty):
    full = message_of(
        CountingView(FULL, JMSXGroupSeq=3, JMSRedelivered=True),
        durable=True,
        priority=9,
        accepted_at=900,
        expires_at=5000,
    )
    assert name in HEADER_IDENTIFIERS
    assert lookup_for(full)(name) == value
    assert lookup_for(message_of(CountingView(), accepted_at=900))(name) == empty


def test_the_table_above_misses_no_identifier():
    (mark,) = test_header_identifiers.pytestmark
    assert {row[0] for row in mark.args[1]} == HEADER_IDENTIFIERS


def test_everything_else_is_an_application_property():
    lookup = lookup_for(message_of(CountingView(color="red", _AMQ_ORIG_ADDRESS="a", jmspriority="x")))
    assert lookup("color") == "red"
    assert lookup("_AMQ_ORIG_ADDRESS") == "a"
    assert lookup("jmspriority") == "x"  # identifiers have case (JMS 2.0 §3.8.1.1), keywords have not
    assert lookup("weight") is None


def test_header_identifiers_hide_properties_and_annotations_are_null():
    lookup = lookup_for(message_of(CountingView({}, JMSPriority="mine", JMSType="mine", **{"m.x-opt-a": 1, "mx": 2})))
    assert lookup("JMSPriority") == 4
    assert lookup("JMSType") is None
    assert lookup("m.x-opt-a") is None
    assert lookup("mx") == 2


def test_only_what_is_asked_for_is_decoded_and_standard_properties_once():
    view = CountingView(FULL, color="red", weight=1)
    message = message_of(view)
    lookup = lookup_for(message)
    for name in ("JMSPriority", "AMQSize", "JMSDeliveryMode", "JMSDestination", "m.a", "JMSRedelivered"):
        lookup(name)
    assert view.calls == []
    lookup("color")
    assert view.calls == ["color"]
    for name in ("JMSMessageID", "JMSType", "JMSTimestamp", "JMSXGroupID"):
        lookup(name)
    assert view.calls == ["color", "properties"]
    assert lookup_for(message) is not lookup


@pytest.mark.parametrize(
    ("exchange", "routing_key", "address"),
    [("", "orders", "orders"), ("news", "", "news"), ("amq.topic", "a.b", "amq.topic/a.b"), ("", "", "")],
)
def test_the_address_is_the_node_a_message_was_sent_to(exchange, routing_key, address):
    assert address_of(message_of(CountingView(), exchange=exchange, routing_key=routing_key)) == address


def test_selectors_over_a_real_message():
    properties = BasicProperties()
    properties.headers = {"color": "red", "weight": 3000, "urgent": True, "größe": 1.5, "x-y": "z", "JMSXGroupSeq": 2}
    properties.type = "car"
    properties.timestamp = 1_700_000_000
    message = message_of(VIEW, priority=7)
    message.header = encode_properties(properties)
    for text, outcome in [
        ("JMSType = 'car' AND color = 'red' AND weight > 2500 AND urgent", True),
        ("größe BETWEEN 1 AND 2 AND \"x-y\" LIKE '_'", True),
        ("JMSPriority >= 7 AND JMSXGroupSeq = 2 AND AMQSize = 5 AND AMQDurable = 'NON_DURABLE'", True),
        ("JMSTimestamp = 1700000000000", True),
        ("JMSMessageID IS NULL AND missing IS NULL", True),
        ("weight = '3000'", False),
        ("missing > 1", None),
    ]:
        assert compile_selector(text).evaluate(lookup_for(message)) is outcome, text


def test_what_a_view_raises_is_passed_on():
    class BrokenView(CountingView):
        def application_property(self, message, name):
            raise ValueError("malformed")

    with pytest.raises(ValueError, match="malformed"):
        MessageLookup(message_of(BrokenView())).value("color")


@pytest.mark.parametrize("name", sorted(PER_DELIVERY))
def test_selectors_on_deliveries_are_refused_with_a_remedy(name):
    with pytest.raises(InvalidArgument, match=f"filter names {name}.*max-delivery-attempts"):
        refuse_per_delivery(compile_selector(f"a = 1 OR {name} IS NULL"), "filter")


def test_a_client_gives_a_selector_as_an_argument():
    selector = message_selector("color = 'red'")
    assert selector is compile_selector("color='red'")
    assert message_selector("") is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("color = ", r"^invalid x-selector: character 9: found the end, expected .*literal"),
        ("a = 1\nand = 2", r"^invalid x-selector: line 2, character 5: found ="),
        ("  ", r"^invalid x-selector: character 3: found nothing"),
        ("JMSRedelivered", r"^x-selector names JMSRedelivered"),
    ],
)
def test_a_bad_one_is_an_invalid_argument_that_says_where(text, problem):
    with pytest.raises(InvalidArgument, match=problem):
        message_selector(text, "x-selector")


def test_other_selectors_are_not_refused():
    refuse_per_delivery(compile_selector("JMSPriority > 4 AND redelivered = TRUE"))
