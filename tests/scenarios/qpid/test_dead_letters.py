"""Rows 70 to 73 of the Broker-J scenarios: attempts, dead letters, and what an alternate may be."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.removal_reasons import RemovalReason
from tests.core.helpers import removed
from tests.scenarios.qpid.stage import Client, Stage, numbers


@pytest.fixture
def stage():
    return Stage()


def consume_and_roll_back(stage, queue, refused):
    """Take one message after the other, give back those with these bodies; return how many deliveries there were."""
    client = Client(stage)
    client.listen(queue, messages=1)
    while client.unacknowledged:
        if client.received[-1] in refused:
            client.roll_back_all()
        else:
            client.commit_all()
    return len(client.received)


def test_row_070_only_what_is_rolled_back_too_often_becomes_a_dead_letter(stage):
    queue = stage.declare(arguments={"x-qpid-maximum-delivery-count": 2, "x-dead-letter-address": "letters"})
    stage.declare("letters")
    stage.send(*numbers(0, 5))
    assert consume_and_roll_back(stage, queue, {"0", "2", "4"}) == 8
    assert stage.held("letters") == ["0", "2", "4"]


def test_row_071_the_switch_names_the_dead_letter_queue_after_its_queue(stage):
    queue = stage.declare(arguments={"x-qpid-dlq-enabled": True, "x-qpid-maximum-delivery-count": 1})
    stage.declare("q_DLQ")
    stage.send(*numbers(0, 4))
    assert consume_and_roll_back(stage, queue, {"1", "3"}) == 4
    assert stage.held("q_DLQ") == ["1", "3"]


def test_row_071_address_settings_make_the_queue_where_none_was_declared():
    stage = Stage({"#": {"auto-create-dead-letter-resources": True}})
    queue = stage.declare(arguments={"x-qpid-dlq-enabled": True, "x-qpid-maximum-delivery-count": 1})
    stage.send(*numbers(0, 4))
    consume_and_roll_back(stage, queue, {"1", "3"})
    assert stage.held("DLQ.q") == ["1", "3"]
    assert stage.host.queues["DLQ.q"] in stage.host.addresses["q_DLQ"].queues()


def test_row_072_deleting_a_queue_sends_nothing(stage):
    """Broker-J sends what is in it to the alternate (depth 1); here, as in RabbitMQ, deleting is dropping."""
    stage.host.declare_exchange("dead", "fanout")
    letters = stage.declare("letters")
    stage.host.bind_queue(letters, "dead", "")
    queue = stage.declare(arguments={"x-dead-letter-exchange": "dead"})
    stage.send("m")
    stage.host.delete_queue(queue, stage.now)
    assert stage.held("letters") == []
    (loss,) = stage.host.ledger.query(queue="q")
    assert loss.reason is RemovalReason.DELETED


def test_row_073_a_target_that_is_missing_or_deleted_leaves_a_record(stage):
    """Broker-J refuses a missing target and one that is not durable, and keeps one in use from being deleted.

    Here, as in RabbitMQ, a target is a name that is looked up when a message dies: it may come and go.
    """
    queue = stage.declare(arguments={"x-dead-letter-address": "letters"}, durable=True)
    client = Client(stage)

    def die(body):
        stage.send(body)
        client.pull(queue, settle=False)
        client.reject(client.last_tag, stage.now, requeue=False)

    die("missing")
    letters = stage.declare("letters")
    die("there")
    assert stage.held("letters") == ["there"]
    stage.host.delete_queue(letters, stage.now)
    die("deleted")
    assert removed(queue, RemovalReason.DEAD_LETTERED) == 3
    losses = list(stage.host.ledger.query(queue="q"))
    assert [loss.sequence for loss in losses] == [1, 3]
    with pytest.raises(InvalidArgument, match="x-dead-letter-address"):
        stage.declare("other", {"alternateBinding": "letters"})


def test_row_073_a_queue_may_be_its_own_target(stage):
    queue, client = stage.declare(arguments={"x-dead-letter-address": "q"}), Client(stage)
    client.listen(queue, messages=1)
    stage.send("m")
    client.reject(1, stage.now, requeue=False)
    assert client.received == ["m", "m"]


def test_q10_a_refused_message_is_dead_lettered_or_dropped_and_never_comes_round(stage):
    """Broker-J puts it back when the queue has no most attempts, and 1.0 ``rejected`` loops (Q10)."""
    stage.declare("letters")
    for name, arguments in (("plain", {}), ("q", {"x-dead-letter-address": "letters"})):
        client, queue = Client(stage), stage.declare(name, arguments)
        client.listen(queue)
        stage.send(name, to=name)
        client.reject(1, stage.now, requeue=False)
        assert client.received == [name]
    assert stage.removed("rejected", "plain") == 1
    assert stage.removed("dead-lettered") == 1
    assert stage.held("letters") == ["q"]
