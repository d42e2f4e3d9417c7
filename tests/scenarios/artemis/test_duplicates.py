"""Rows U1 to U4 and U6 of the Artemis scenarios: duplicate detection. U5 needs a restart."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import TransactionRefused
from annulet.core.host.transaction import Transaction
from tests.scenarios.artemis.scene import Client, Scene


def test_u1_of_messages_with_one_id_the_first_is_delivered():
    scene = Scene()
    queue, client = scene.queue(), Client(scene)
    client.listen(queue)
    for body in ("A", "B", "C"):
        assert scene.send(body, duplicate_id="1") == 1  # no error for the sender
    scene.send("D", duplicate_id="2")
    for mark in ("2", "1"):
        scene.send("E", duplicate_id=mark)
    assert client.received == ["A", "D"]
    assert scene.figures("messages_added") == (2,)
    assert scene.host.publisher.duplicates_dropped == 4


def test_u2_a_cache_of_0_lets_everything_through():
    scene = Scene({"q": {"id-cache-size": 0}})
    scene.queue()
    scene.send("A", "B", "C", duplicate_id="1")
    assert scene.held() == ["A", "B", "C"]


def test_u3_ids_of_a_rolled_back_transaction_are_free():
    scene = Scene()
    scene.queue()
    transaction = Transaction(Client(scene))
    scene.collect(transaction, "A", duplicate_id="1")
    transaction.rollback()
    scene.collect(transaction, "B", duplicate_id="1")
    transaction.commit(scene.host, scene.now)
    assert scene.held() == ["B"]
    scene.send("C", duplicate_id="1")
    assert scene.held() == ["B"]


def test_u4_one_duplicate_undoes_the_whole_transaction():
    scene = Scene()
    scene.queue()
    source, client = scene.queue("source"), Client(scene)
    client.listen(source)
    scene.send("taken", to="source")
    scene.send("old", duplicate_id="3")
    transaction = Transaction(client)
    for mark in "1234":
        scene.collect(transaction, f"new{mark}", duplicate_id=mark)
    transaction.acknowledge(1)
    with pytest.raises(TransactionRefused, match="send 3 to 'q' has duplicate id '3'"):
        transaction.commit(scene.host, scene.now)
    assert scene.held() == ["old"]
    assert scene.figures("delivering_count messages_acknowledged", "source") == (1, 0)
    client.leave()
    assert scene.held("source") == ["taken"]
    assert scene.send("new1", duplicate_id="1") == 1
    assert scene.held() == ["old", "new1"]


def test_u6_the_memory_of_an_address_goes_with_its_last_queue():
    scene = Scene()
    queues = [*scene.address("news", "first", "second"), scene.queue("other")]
    scene.send("m", to="news", duplicate_id="1")
    scene.send("m", to="other", duplicate_id="1")
    assert len(scene.host.publisher.duplicates) == 2
    scene.host.delete_queue(queues[0], scene.now)
    assert len(scene.host.publisher.duplicates) == 2
    for queue in queues[1:]:
        scene.host.delete_queue(queue, scene.now)
    assert len(scene.host.publisher.duplicates) == 0
