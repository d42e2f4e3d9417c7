from __future__ import annotations

import re

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import BasicProperties

import annulet.testing
from annulet.testing import ThreadedBroker
from annulet.testing.assertions import EVENTS_SHOWN


def declare(channel: BlockingChannel) -> None:
    channel.queue_declare("dead")
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("orders", arguments=target)
    channel.basic_publish("", "orders", b'{"id": 1}', BasicProperties(headers={"kind": "new"}, message_id="first"))
    channel.basic_publish("", "orders", b'{"id": 2}')


def test_messages_are_those_in_the_queue_with_their_states(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    declare(channel)
    channel.basic_get("orders")
    first, second = broker.messages("orders")
    assert (first.number, first.state, first.json, first.headers) == (1, "delivering", {"id": 1}, {"kind": "new"})
    assert (second.number, second.state, second.deliveries) == (2, "pending", 0)


def test_scheduled_messages_are_among_them(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("later", arguments={"x-redelivery-delay": 60_000})
    channel.basic_publish("", "later", b"1")
    method, _, _ = channel.basic_get("later")
    channel.basic_nack(method.delivery_tag)
    (one,) = broker.messages("later")
    assert (one.state, one.deliveries) == ("scheduled", 1)
    broker.clock.advance("1m")
    assert broker.messages("later")[0].state == "pending"


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({}, 2), ({"json": {"id": 1}}, 1), ({"body": b'{"id": 2}'}, 1), ({"body": '{"id": 2}'}, 1),
        ({"header": {"kind": "new"}}, 1), ({"header": {"kind": "old"}}, 0), ({"header": {"other": 1}}, 0),
        ({"json": None}, 0), ({"header": {"kind": "new"}, "json": {"id": 2}}, 0),
    ],
)  # fmt: skip
def test_published_messages_count_that_fit_all_that_is_asked(
    broker: ThreadedBroker, channel: BlockingChannel, wanted: dict[str, object], count: int
) -> None:
    declare(channel)
    channel.queue_purge("orders")
    assert len(broker.require_published("orders", count=count, **wanted)) == count
    with pytest.raises(AssertionError, match=f"accepted {count} messages.*wanted {count + 1}"):
        broker.require_published("orders", count=count + 1, **wanted)


def test_a_failure_shows_what_did_happen_in_order(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    declare(channel)
    method, _, _ = channel.basic_get("orders")
    channel.basic_nack(method.delivery_tag, requeue=False)
    channel.basic_publish("", "nowhere", b"lost")
    with pytest.raises(AssertionError) as failure:
        broker.require_published("orders", count=3, json={"id": 3})
    text = str(failure.value)
    head, heading, *events = text.splitlines()
    assert head == "queue 'orders' accepted 0 messages with json {'id': 3}, wanted 3"
    assert heading == "what happened, in order:"
    assert [line.split()[2] for line in events[:4]] == ["published", "published", "fetched", "dead-lettered"]
    assert events[4:] == ["queues that accepted messages: dead", "publishes that reached no queue: 1"]
    assert "orders#1" in events[3]


def test_the_text_of_a_failure_is_bounded(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    for _ in range(EVENTS_SHOWN):
        channel.basic_publish("", "q", b"1")
    with pytest.raises(AssertionError) as exact:
        broker.require_none("q")
    assert "events before" not in str(exact.value)
    channel.basic_publish("", "q", b"1")
    with pytest.raises(AssertionError, match=re.escape("(1 events before; history() has them)")):
        broker.require_none("q")
    assert len(broker.history("q").splitlines()) == EVENTS_SHOWN + 1


def test_require_none_holds_for_a_queue_that_accepted_nothing(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    broker.require_none("q")
    with pytest.raises(AssertionError, match="nothing reached this queue"):
        broker.require_published("q")


def test_require_settled_names_messages_that_were_not_acknowledged(
    broker: ThreadedBroker, channel: BlockingChannel
) -> None:
    declare(channel)
    method, _, _ = channel.basic_get("orders")
    with pytest.raises(AssertionError, match="#1 delivering, #2 pending"):
        broker.require_settled("orders")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("orders", auto_ack=True)
    broker.require_settled("orders")
    broker.require_settled()
    channel.basic_publish("", "orders", b"3")
    channel.queue_purge("orders")
    with pytest.raises(AssertionError, match="#3 purged"):
        broker.require_settled()


@pytest.mark.parametrize("wanted", ["first", b'{"id": 1}', '{"id": 1}'])
def test_a_story_follows_a_message_through_queues(
    broker: ThreadedBroker, channel: BlockingChannel, wanted: str | bytes
) -> None:
    declare(channel)
    method, _, _ = channel.basic_get("orders")
    channel.basic_reject(method.delivery_tag, requeue=False)
    story = broker.story(wanted).splitlines()
    assert [line.split()[2] for line in story] == ["published", "fetched", "dead-lettered", "published"]
    assert "dead#1" in story[3]
    (one,) = broker.messages("dead")
    assert broker.story(one).splitlines() == story


def test_a_message_that_nobody_sent_has_no_story(broker: ThreadedBroker) -> None:
    with pytest.raises(LookupError, match="no message reached any queue"):
        broker.story("unknown")


def test_a_wrong_name_is_refused_with_the_nearest_one(broker: ThreadedBroker, channel: BlockingChannel) -> None:
    with pytest.raises(LookupError, match="there is none yet, declare it first"):
        broker.require_none("orders")
    channel.queue_declare("orders")
    with pytest.raises(LookupError, match="did you mean 'orders'"):
        broker.require_none("order")
    with pytest.raises(LookupError, match="there are orders"):
        broker.messages("zzz")
    with pytest.raises(LookupError, match="no virtual host 'x'; there are /"):
        broker.messages("orders", "x")
    channel.basic_publish("", "orders", b"1")
    channel.queue_delete("orders")
    assert len(broker.require_published("orders")) == 1, "a queue that is gone had messages"


async def test_a_broker_in_the_loop_answers_the_same_questions() -> None:
    async with annulet.testing.broker(http=False) as running:
        running.broker.hosts["/"].declare_queue("q", now=running.clock())
        await running.require_none("q")
        await running.require_settled()
        assert await running.messages("q") == []
        assert await running.history() == ""
        with pytest.raises(AssertionError):
            await running.require_published("q")
        with pytest.raises(LookupError):
            await running.story("x")
    async with annulet.testing.broker(http=False, journal=False) as running:
        with pytest.raises(LookupError, match="journal=False"):
            await running.require_none("q")
    async with annulet.testing.broker(http=False, clock=annulet.testing.VirtualClock()) as running:
        with pytest.raises(LookupError, match=r"clock=\.\.\.; move that clock"):
            _ = running.clock
