"""Rows G1 to G7, X1, X2 and P1 to P4 of the Artemis scenarios: groups, exclusive consumers, consumer priority."""

from __future__ import annotations

from itertools import count
from zlib import crc32

import pytest

from tests.scenarios.artemis.scene import Client, Scene, numbers


@pytest.fixture
def scene():
    return Scene()


def clients_of(scene, queue, number, **options):
    """Attach consumers, each with its own session, in this order."""
    clients = [Client(scene, f"client {index}") for index in range(number)]
    for client in clients:
        client.listen(queue, **options)
    return clients


def send_grouped(scene, groups, count):
    """Send messages 0 to count - 1, the groups in turn."""
    for number in range(count):
        scene.send(str(number), JMSXGroupID=groups[number % len(groups)])


# ---------------------------------------------------------------------- groups


def test_g1_one_group_has_one_consumer(scene):
    queue = scene.queue(group_mode="sticky")
    one, two = clients_of(scene, queue, 2)
    send_grouped(scene, ["a"], 100)
    assert (one.received, two.received) == (numbers(0, 100), [])


def test_g2_two_groups_go_to_two_consumers_each_in_order(scene):
    queue = scene.queue(group_mode="sticky")
    one, two = clients_of(scene, queue, 2)
    send_grouped(scene, ["a", "b"], 100)
    assert (one.received, two.received) == (numbers(0, 100)[::2], numbers(0, 100)[1::2])


def test_g3_what_is_rolled_back_goes_to_the_same_owners_in_the_same_order(scene):
    queue = scene.queue(group_mode="sticky")
    one, two = clients_of(scene, queue, 2)
    send_grouped(scene, ["a", "b"], 100)
    for client in (one, two):
        client.received.clear()
        client.roll_back_all()
    assert (one.received, two.received) == (numbers(0, 100)[::2], numbers(0, 100)[1::2])
    for client in (one, two):
        client.commit_all()
    assert scene.figures("message_count messages_acknowledged") == (0, 100)


def test_g4_many_groups_spread_over_the_consumers(scene):
    queue = scene.queue(group_mode="sticky")
    clients = clients_of(scene, queue, 3)
    send_grouped(scene, [f"group {number}" for number in range(10)], 30)
    assert sorted(len(client.received) for client in clients) == [9, 9, 12]


def test_g5_groups_of_one_bucket_share_its_owner(scene):
    """Artemis hashes as Java does, we with CRC-32: which groups share a bucket differs, the rule does not."""
    in_bucket = [
        [f"g{number}" for number in range(20) if crc32(f"g{number}".encode()) % 2 == which] for which in (0, 1)
    ]
    (first, third), second = in_bucket[0][:2], in_bucket[1][0]
    queue = scene.queue(group_mode="sticky", group_buckets=2)
    clients = clients_of(scene, queue, 3)
    send_grouped(scene, [first, second, third], 30)
    thirds = [numbers(0, 30)[start::3] for start in range(3)]
    assert clients[0].received == sorted(thirds[0] + thirds[2], key=int)
    assert clients[1].received == thirds[1]
    assert clients[2].received == []


def test_g6_a_new_consumer_gets_its_share_after_a_rebalance(scene):
    queue = scene.queue(group_mode="sticky", group_rebalance=True)
    clients = clients_of(scene, queue, 2)
    send_grouped(scene, ["a", "b", "c"], 30)
    assert sorted(len(client.received) for client in clients) == [10, 20]
    for client in clients:
        client.settle_all()
        client.received.clear()
    clients += clients_of(scene, queue, 1)
    send_grouped(scene, ["a", "b", "c"], 30)
    assert [len(client.received) for client in clients] == [10, 10, 10]


def test_g7_only_the_first_message_of_each_assignment_is_marked(scene):
    """What a protocol shows as ``group-first-key``: the core says which deliveries carry it."""
    queue = scene.queue(group_mode="sticky", group_first_key="first")
    one, two = Client(scene), Client(scene)
    one.listen(queue, "one")
    send_grouped(scene, ["a", "b"], 6)
    assert one.firsts == ["0", "1"]
    one.settle_all()
    one.leave()
    two.listen(queue, "two")
    send_grouped(scene, ["a", "b"], 6)
    assert (two.received, two.firsts) == (numbers(0, 6), ["0", "1"])
    queue.reset_groups(scene.now, "b")
    send_grouped(scene, ["a", "b"], 2)
    assert two.firsts == ["0", "1", "1"]


# ---------------------------------------------------------------------- exclusive consumers

EXCLUSIVE = ["exclusive_consumer", "single_active_consumer"]


@pytest.mark.parametrize("setting", EXCLUSIVE)
def test_x1_the_first_consumer_gets_everything(scene, setting):
    queue = scene.queue(**{setting: True})
    clients = clients_of(scene, queue, 3)
    scene.send(*numbers(0, 100))
    assert [client.received for client in clients] == [numbers(0, 100), [], []]


@pytest.mark.parametrize("setting", EXCLUSIVE)
def test_x2_when_it_closes_exactly_one_other_goes_on_in_order(scene, setting):
    queue = scene.queue(**{setting: True})
    first = Client(scene)
    first.listen(queue, messages=50)
    clients = clients_of(scene, queue, 2)
    scene.send(*numbers(0, 100))
    assert first.received == numbers(0, 50)
    first.detach("c", scene.now)
    assert not any(client.received for client in clients)  # what the first holds may still come back
    first.settle_all()
    first.leave()
    assert [client.received for client in clients] == [numbers(50, 100), []]
    assert scene.figures("messages_acknowledged delivering_count") == (50, 50)


# ---------------------------------------------------------------------- consumer priority


@pytest.mark.parametrize("order", [(3, 2, 1), (1, 2, 3), (2, 3, 1)])
def test_p1_the_highest_priority_gets_everything(scene, order):
    queue, client = scene.queue(), Client(scene)
    for priority in order:
        client.listen(queue, str(priority), priority=priority)
    scene.send(*numbers(0, 100))
    assert client.by_consumer == {"3": numbers(0, 100)}


def test_p2_two_of_the_highest_take_turns(scene):
    queue, client = scene.queue(), Client(scene)
    for tag, priority in (("x", 3), ("y", 3), ("z", 1)):
        client.listen(queue, tag, priority=priority)
    scene.send(*numbers(0, 100))
    assert client.by_consumer == {"x": numbers(0, 100)[::2], "y": numbers(0, 100)[1::2]}


def test_p3_when_the_highest_closes_the_next_goes_on(scene):
    queue, client = scene.queue(), Client(scene)
    for priority in (3, 2, 1):
        client.listen(queue, str(priority), priority=priority)
    scene.send(*numbers(0, 50))
    client.settle_all()
    client.close_consumer("3", scene.now)
    scene.send(*numbers(50, 100))
    assert client.by_consumer == {"3": numbers(0, 50), "2": numbers(50, 100)}


def test_p3_what_the_highest_did_not_settle_goes_to_the_next_first(scene):
    queue, client = scene.queue(), Client(scene)
    client.listen(queue, "high", priority=9, messages=3)
    client.listen(queue, "low", priority=-9)
    scene.send("A", "B", "C")
    client.close_consumer("high", scene.now)
    assert client.by_consumer == {"high": ["A", "B", "C"], "low": ["A", "B", "C"]}


def test_p4_priorities_are_numbers_without_a_bound(scene):
    """AMQP 1.0 states them in the attach: proven for the core's consumers until that protocol is here."""
    queue, client, sent = scene.queue(), Client(scene), count()
    for priority in (5, 50, 10):
        client.listen(queue, str(priority), priority=priority)
    scene.send(*(str(next(sent)) for _ in range(10)))
    client.settle_all()
    client.close_consumer("50", scene.now)
    scene.send(*(str(next(sent)) for _ in range(10)))
    assert client.by_consumer == {"50": numbers(0, 10), "10": numbers(10, 20)}
