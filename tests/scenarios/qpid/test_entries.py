"""Rows 1 to 9 of the Broker-J scenarios: what comes back, what a queue lists, recovery, exclusive consumers."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import AccessRefused
from annulet.core.management import purge
from annulet.core.queue.invariants import check_invariants
from tests.scenarios.qpid.stage import Client, Stage, bodies_of, run


@pytest.fixture
def stage():
    return Stage()


def redelivered(client):
    return [entry.message.body.decode() for _, entry in client.deliveries if entry.redelivered]


def test_row_001_a_released_message_is_delivered_again_and_only_it_is_marked(stage):
    queue, client = stage.declare(), Client(stage)
    client.listen(queue)
    stage.send("a", "b", "c")
    client.reject(1, stage.now, requeue=True)
    assert client.received == ["a", "b", "c", "a"]
    assert client.unacknowledged[4].redelivered
    assert not client.unacknowledged[2].redelivered
    assert not client.unacknowledged[3].redelivered


def test_row_002_released_out_of_order_each_comes_once(stage):
    queue, client = stage.declare(), Client(stage)
    client.listen(queue)
    stage.send("a", "b", "c")
    client.reject(3, stage.now, requeue=True)
    client.reject(1, stage.now, requeue=True)
    assert client.received == ["a", "b", "c", "c", "a"]
    assert sorted(entry.message.body for entry in client.unacknowledged.values() if entry.redelivered) == [b"a", b"c"]


def test_row_003_of_two_consumers_one_gets_what_was_released(stage):
    queue, client, other = stage.declare(), Client(stage), Client(stage)
    client.listen(queue)
    other.listen(queue)
    stage.send("a", "b")
    assert (client.received, other.received) == (["a"], ["b"])
    client.reject(1, stage.now, requeue=True)
    assert len(client.received) + len(other.received) == 3


def test_row_004_what_expired_in_delivery_expires_when_it_comes_back(stage):
    queue, client = stage.declare(), Client(stage)
    client.listen(queue)
    stage.send("a", ttl=100)
    stage.pass_time(101)
    assert stage.figures("delivering_count messages_expired") == (1, 0)
    client.reject(1, stage.now, requeue=True)
    assert client.received == ["a"]
    assert stage.figures("message_count messages_expired") == (0, 1)


def test_row_005_a_settled_message_is_not_listed_and_clearing_leaves_nothing(stage):
    queue, client = stage.declare(), Client(stage)
    stage.send("a", "b", "c", "d")
    client.pull(queue, settle=False)
    client.pull(queue)
    client.leave()
    assert bodies_of(queue) == ["a", "c", "d"]
    assert run(purge(stage.host, queue, user="anna", now=stage.now), stage.now).done == 3
    assert bodies_of(queue) == []


def test_row_006_nobody_takes_a_delivery_from_its_consumer(stage):
    """Broker-J's own operations steal what is delivered and not settled; here it stays until its holder is done."""
    queue, client, other = stage.declare(), Client(stage), Client(stage)
    client.listen(queue)
    stage.send("a")
    assert other.pull(queue) is None
    assert run(purge(stage.host, queue, user="anna", now=stage.now), stage.now).done == 0
    (entry,) = queue.delivering
    assert (entry.consumer.session, bodies_of(queue)) == (client, ["a"])
    client.settle_all()
    assert stage.figures("message_count messages_acknowledged") == (0, 1)


def test_row_007_two_who_refused_a_message_are_both_remembered(stage):
    queue = stage.declare()
    clients = [Client(stage), Client(stage)]
    consumers = [client.listen(queue) for client in clients]
    stage.send("a")
    for client, consumer in zip(clients, consumers, strict=True):
        assert client.received == ["a"]
        queue.return_entries(client.take(1, multiple=False), stage.now, exclude=consumer)
    queue.wake(stage.now)
    assert [client.received for client in clients] == [["a"], ["a"]]
    assert stage.held() == ["a"]
    clients[0].listen(queue, "new")  # a new consumer is somebody else
    assert clients[0].by_consumer["new"] == ["a"]


def test_row_008_a_queue_is_whole_before_anything_new_arrives(stage):
    """Broker-J may recover in the background and buffers what is published meanwhile; recovery comes first here."""
    queue = stage.declare()
    for sequence in (1, 3, 2, 4):  # as found in the log
        queue.restore(stage.message(str(sequence - 1)), sequence, redelivered=False)
    queue.finish_restore(5)
    stage.send("4", "5", "6", "7")
    assert stage.held() == list("01234567")
    check_invariants(queue)


@pytest.mark.parametrize("first", [True, False], ids=["009-exclusive-first", "009-exclusive-second"])
def test_an_exclusive_consumer_is_alone(stage, first):
    queue, client = stage.declare(), Client(stage)
    client.listen(queue, exclusive=first)
    with pytest.raises(AccessRefused, match="queue 'q'"):
        stage.host.check_consumer(queue, exclusive=not first)
