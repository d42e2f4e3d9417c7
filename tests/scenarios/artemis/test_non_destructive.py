"""Rows R9, R10 and N1 to N7 of the Artemis scenarios: every consumer reads every message."""

from __future__ import annotations

import pytest

from tests.scenarios.artemis.scene import Client, Scene


@pytest.fixture
def scene():
    return Scene()


def test_r9_a_ring_of_one_always_shows_the_newest(scene):
    queue, client = scene.queue(ring_size=1, non_destructive=True), Client(scene)
    client.listen(queue)
    for turn in range(6):
        scene.send(f"h{turn}")
        assert client.received[-1] == f"h{turn}"
        client.settle_all()
        assert scene.figures("messages_replaced message_count") == (turn, 1)


def test_r10_closing_without_acknowledging_changes_no_count(scene):
    queue, client = scene.queue(ring_size=1, non_destructive=True), Client(scene)
    scene.send("h0")
    client.listen(queue)
    assert scene.figures("delivering_count message_count") == (1, 1)
    client.leave()
    assert scene.figures("delivering_count message_count") == (0, 1)
    scene.send("h1")  # Artemis counts one too many from here on
    assert scene.figures("messages_replaced message_count") == (1, 1)


def test_n1_a_message_can_be_read_twice_and_is_removed_by_an_operator(scene):
    queue = scene.queue(non_destructive=True)
    scene.send("m")
    for _ in range(2):
        client = Client(scene)
        client.listen(queue)
        assert client.received == ["m"]
        client.settle_all()
        assert scene.figures("message_count") == (1,)
        client.leave()
    assert queue.purge(scene.now) == 1
    assert scene.figures("message_count messages_acknowledged") == (0, 0)


def test_n2_two_consumers_each_get_everything_in_order(scene):
    queue, clients = scene.queue(non_destructive=True), [Client(scene), Client(scene)]
    clients[0].listen(queue)
    scene.send("0", "1", "2")
    clients[1].listen(queue)
    for client in clients:
        client.settle_all()
        assert client.received == ["0", "1", "2"]
    assert scene.figures("message_count delivering_count") == (3, 0)


def test_n3_what_expires_is_gone_for_everybody():
    scene = Scene({"q": {"expiry-delay": 100}})
    queue, client = scene.queue(non_destructive=True), Client(scene)
    scene.send("m")
    client.listen(queue)
    client.settle_all()
    assert client.received == ["m"]
    scene.pass_time(100)
    assert scene.figures("message_count messages_expired") == (0, 1)
    late = Client(scene)
    late.listen(queue)
    assert late.received == []


def test_n4_a_table_shows_its_current_value_as_often_as_it_is_read(scene):
    queue = scene.queue(last_value_key="name", non_destructive=True)
    scene.send("hello", "how are you", name="x")
    assert scene.figures("message_count messages_replaced") == (1, 1)
    for _ in range(2):
        client = Client(scene)
        client.listen(queue)
        client.settle_all()
        assert client.received == ["how are you"]
    scene.send("hello again", name="x")
    assert scene.figures("message_count messages_replaced") == (1, 2)


def test_n5_a_consumer_that_was_there_first_stands_in_nobodys_way(scene):
    queue, first, second = scene.queue(last_value_key="k", non_destructive=True), Client(scene), Client(scene)
    first.listen(queue)
    scene.send("a1")
    first.settle_all()
    first.leave()
    scene.send("a2")
    assert scene.figures("message_count delivering_count") == (1, 0)
    second.listen(queue)
    assert (first.received, second.received) == (["a1"], ["a2"])


@pytest.mark.parametrize("given", [pytest.param({"ttl": 500}, id="N6"), pytest.param({}, id="N6-by-the-queue")])
def test_a_tombstone_empties_its_key(scene, given):
    """By the sender's time to live as in Artemis, or by ``tombstone-ttl`` for values without a body."""
    arguments = {} if given else {"tombstone_ttl": 500}
    queue = scene.queue(last_value_key="name", non_destructive=True, **arguments)
    scene.send("value", name="x")
    scene.send("last" if given else "", name="x", **given)
    for _ in range(2):
        client = Client(scene)
        client.listen(queue)
        assert client.received == ["last" if given else ""]
        client.leave()
    assert scene.figures("message_count key_count") == (1, 1)
    scene.pass_time(1500)
    assert scene.figures("message_count key_count messages_expired") == (0, 0, 1)


def test_n7_an_eager_reader_sees_every_value_of_many_producers_once(scene):
    queue, reader = scene.queue(last_value_key="name", non_destructive=True), Client(scene)
    reader.listen(queue, messages=3)
    sent = []
    for turn in range(125):
        for producer in range(5):
            sent.append(f"{producer}:{turn}")
            scene.send(sent[-1], name=f"key{(producer + turn) % 5}")
            reader.settle_all()
    assert reader.received == sent
    assert scene.figures("messages_added message_count key_count delivering_count") == (625, 5, 5, 0)
