"""Transactions over AMQP 1.0 (part 4 of the standard), with Qpid Proton, the client here that has them."""

from __future__ import annotations

import pytest

from tests.clients.amqp10 import Client, data, proton_process, texts, value
from tests.clients.driven import Refused
from tests.clients.support import Peer, Scene, bodies, depth

pytestmark = [pytest.mark.debian, pytest.mark.usefixtures("ours")]


def test_what_is_sent_in_a_transaction_is_there_after_the_commit(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, queue = proton.connect(), scene.queue(channel)
    sender = connection.sender(queue)
    transaction = connection.transaction()
    outcomes = sender.send(data(b"1"), data(b"2"), transaction=transaction)
    assert {outcome["outcome"] for outcome in outcomes} == {"transactional"}
    assert depth(channel, queue) == 0
    assert transaction.commit() == "committed"
    assert bodies(channel, queue) == [b"1", b"2"]


def test_what_is_sent_in_a_transaction_is_nowhere_after_an_abort(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, queue = proton.connect(), scene.queue(channel)
    sender = connection.sender(queue)
    transaction = connection.transaction()
    sender.send(data(b"never"), transaction=transaction)
    assert transaction.abort() == "aborted"
    sender.accepted(data(b"outside"))
    assert bodies(channel, queue) == [b"outside"]


@pytest.mark.parametrize("commits", [True, False])
def test_what_is_accepted_in_a_transaction_is_gone_or_back(proton: Client, scene: Scene, commits: bool) -> None:
    connection, queue = proton.connect(), scene.name()
    connection.sender(queue).accepted(data(b"1"), data(b"2"), data(b"3"))
    receiver = connection.receiver(queue)
    messages = receiver.receive(2)
    transaction = connection.transaction()
    receiver.settle(messages, "accepted", transaction=transaction)
    assert (transaction.commit() if commits else transaction.abort()) == ("committed" if commits else "aborted")
    receiver.detach()
    left = connection.receiver(queue).everything()
    assert texts(left) == ([b"3"] if commits else [b"1", b"2", b"3"])


def test_moving_messages_from_queue_to_queue_is_all_or_nothing(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, source, target = proton.connect(), scene.queue(channel), scene.queue(channel)
    connection.sender(source).accepted(*[data(b"%d" % number) for number in range(4)])
    receiver, sender = connection.receiver(source), connection.sender(target)
    for transaction_ends in ("commit", "abort"):
        transaction = connection.transaction()
        messages = receiver.receive(2)
        sender.send(*[data(message["body"]) for message in messages], transaction=transaction)
        receiver.settle(messages, "accepted", transaction=transaction)
        getattr(transaction, transaction_ends)()
    receiver.detach()
    assert bodies(channel, target) == [b"0", b"1"]
    assert bodies(channel, source) == [b"2", b"3"]


def test_several_transactions_at_once_do_not_touch_each_other(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, queue = proton.connect(), scene.queue(channel)
    sender = connection.sender(queue)
    transactions = [connection.transaction() for _ in range(4)]
    for number in range(8):
        sender.send(data(b"%d" % number), transaction=transactions[number % 4])
    sender.accepted(data(b"outside"))
    assert transactions[2].commit() == "committed"
    assert transactions[0].abort() == "aborted"
    assert transactions[3].commit() == "committed"
    assert transactions[1].abort() == "aborted"
    assert bodies(channel, queue) == [b"outside", b"2", b"6", b"3", b"7"]


def test_closing_rolls_back(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    queue, other = scene.queue(channel), scene.queue(channel)
    channel.basic_publish("", other, b"held")
    connection = proton.connect()
    transaction = connection.transaction()
    connection.sender(queue).send(data(b"never"), transaction=transaction)
    receiver = connection.receiver(other)
    receiver.settle(receiver.receive(), "accepted", transaction=transaction)
    connection.close()
    assert bodies(channel, queue) == []
    assert bodies(channel, other) == [b"held"]


def test_a_killed_client_rolls_back(proton: Client, scene: Scene, peer: Peer) -> None:
    channel = scene.channel()
    queue, other = scene.queue(channel), scene.queue(channel)
    channel.basic_publish("", other, b"held")
    with proton_process() as process:
        connection = Client(process, peer.url).connect()
        transaction = connection.transaction()
        connection.sender(queue).send(data(b"never"), transaction=transaction)
        receiver = connection.receiver(other)
        receiver.settle(receiver.receive(), "accepted", transaction=transaction)
        process.kill()
    again = proton.connect().receiver(other)
    assert texts(again.take()) == [b"held"]
    assert bodies(channel, queue) == []


def test_a_commit_that_a_full_queue_refuses_changes_nothing(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    full = scene.queue(channel, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    queue = scene.queue(channel)
    connection = proton.connect()
    transaction = connection.transaction()
    connection.sender(queue).send(data(b"never"), transaction=transaction)
    connection.sender(full).send(data(b"1"), data(b"2"), transaction=transaction)
    assert transaction.commit().startswith("commit failed amqp:")
    assert (bodies(channel, queue), bodies(channel, full)) == ([], [])


def test_an_unknown_transaction_is_refused(proton: Client, scene: Scene) -> None:
    """§4.5.8: amqp:transaction:unknown-id."""
    connection, queue = proton.connect(), scene.name()
    sender = connection.sender(queue)
    transaction = connection.transaction()
    assert transaction.commit() == "committed"
    with pytest.raises(Refused) as caught:
        connection.driver.ask("send_in", link=sender.name, transaction_id="no such transaction")
    assert caught.value.condition == "amqp:transaction:unknown-id"


def test_a_transaction_of_a_thousand_messages(proton: Client, scene: Scene) -> None:
    channel = scene.channel()
    connection, queue = proton.connect(), scene.queue(channel)
    transaction = connection.transaction()
    connection.sender(queue).send(*[value(number) for number in range(1000)], transaction=transaction)
    assert depth(channel, queue) == 0
    assert transaction.commit() == "committed"
    assert depth(channel, queue) == 1000
