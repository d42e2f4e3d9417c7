"""Rows 64 to 69 and 75 to 78 of the Broker-J scenarios: time to live, and messages that are held until their time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import UNLIMITED
from tests.scenarios.qpid.stage import SECOND, Client, Stage

DAY = 24 * 3600 * SECOND


@pytest.fixture
def stage():
    return Stage()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"maximumMessageTtl": 10 * SECOND}, (60, 60, 55), id="064"),
        pytest.param({"minimumMessageTtl": 10 * SECOND}, (0, 65, 60), id="065"),
        pytest.param({"minimumMessageTtl": 10 * SECOND, "maximumMessageTtl": 20 * SECOND}, (70, 65, 60), id="066"),
    ],
)
def test_least_and_most_time_to_live(stage, arguments, expected):
    """Arrival at second 50 with expiry never, at 65 and at 55."""
    queue = stage.declare(arguments=arguments)
    start = stage.now - 50 * SECOND
    stage.send("never")
    stage.send("65", ttl=15 * SECOND)
    stage.send("55", ttl=5 * SECOND)
    times = [queue.expires_at(entry) for entry in queue.order.entries()]
    assert tuple((at - start) // SECOND if at else 0 for at in times) == expected


def test_row_067_what_expired_is_not_delivered_not_even_again(stage):
    queue, client = stage.declare(), Client(stage)
    stage.send("A", ttl=SECOND)
    stage.send("B")
    assert client.pull(queue, settle=False) == "A"
    stage.pass_time(SECOND + 1)
    client.roll_back_all()
    assert client.pull(queue) == "B"
    stage.send("A", ttl=SECOND)
    stage.send("B")
    stage.pass_time(SECOND + 1)
    assert stage.take_all(queue) == ["B"]
    assert stage.figures("messages_expired") == (2,)


def test_row_068_a_new_limit_holds_for_what_is_there(stage):
    queue = stage.declare()
    stage.send("A", ttl=DAY)
    stage.change(queue, replace(queue.settings, max_ttl=1))
    stage.pass_time(200)
    stage.change(queue, replace(queue.settings, max_ttl=UNLIMITED))
    stage.send("B")
    assert stage.take_all(queue) == ["B"]


def test_row_069_expired_messages_go_to_the_expiry_address_and_live_on(stage):
    """Broker-J needs a least time to live on the target, or the copy expires there too; ours has no time of its own."""
    stage.declare("letters")
    stage.declare(arguments={"x-expiry-address": "letters"})
    stage.send("m", ttl=SECOND)
    stage.pass_time(SECOND)
    assert (stage.held(), stage.held("letters")) == ([], ["m"])
    stage.pass_time(DAY)
    assert stage.held("letters") == ["m"]


# ---------------------------------------------------------------------- not valid before


def test_row_075_what_is_held_is_overtaken_and_delivered_when_its_time_comes(stage):
    queue, client = stage.declare(arguments={"holdOnPublishEnabled": True}), Client(stage)
    stage.send("A", **{"x-qpid-not-valid-before": stage.now + 20 * SECOND})
    stage.send("B")
    client.listen(queue)
    assert client.received == ["B"]
    assert stage.figures("message_count scheduled_count") == (2, 1)
    stage.pass_time(20 * SECOND - 1)
    assert client.received == ["B"]
    stage.pass_time(1)  # not at the next sweep some seconds later
    assert client.received == ["B", "A"]


def test_row_076_every_queue_holds_messages_until_their_time(stage):
    """Broker-J delivers them at once unless the queue was told to hold; that cannot be switched off here."""
    queue, client = stage.declare(), Client(stage)
    client.listen(queue)
    stage.send("A", **{"x-qpid-not-valid-before": stage.now + 20 * SECOND})
    assert client.received == []
    with pytest.raises(InvalidArgument, match="every queue keeps scheduled messages"):
        stage.declare("other", {"holdOnPublishEnabled": False})


def test_row_077_a_delay_is_kept_to_the_millisecond(stage):
    queue, client = stage.declare(), Client(stage)
    client.listen(queue)
    stage.send("m", delay=3 * SECOND)
    assert stage.host.tick(stage.now) == stage.now + 3 * SECOND
    stage.pass_time(2999)
    assert client.received == []
    stage.pass_time(1)
    assert client.received == ["m"]


def test_row_078_no_queue_and_no_exchange_refuses_a_delay(stage):
    """Broker-J's queues that do not hold refuse it with ``precondition-failed``, or lose it behind an exchange (Q4)."""
    queue = stage.declare()
    stage.host.bind_queue(queue, "amq.fanout", "")
    assert stage.send("direct", delay=SECOND) == 1
    assert stage.send("by exchange", to="amq.fanout", delay=SECOND) == 1
    stage.pass_time(SECOND)
    assert stage.held() == ["direct", "by exchange"]


def test_q7_a_held_message_expires_and_is_cleared_like_any_other(stage):
    """Broker-J's stay until somebody looks at them (Q7)."""
    queue = stage.declare()
    stage.send("expires", delay=10 * SECOND, ttl=SECOND)
    stage.send("cleared", delay=10 * SECOND)
    stage.pass_time(SECOND + 1)
    assert stage.figures("scheduled_count messages_expired") == (1, 1)
    assert queue.purge(stage.now) == 1
    assert stage.figures("message_count") == (0,)
