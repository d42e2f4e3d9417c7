"""tx.select, tx.commit, tx.rollback; with pika."""

from __future__ import annotations

import pika
import pytest

from tests.clients.support import Scene, bodies, channel_closed, depth

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(params=["transient", "durable"])
def queue(scene: Scene, request: pytest.FixtureRequest) -> str:
    return scene.queue(scene.channel(), durable=request.param == "durable")


def test_sends_appear_at_commit_in_order(scene: Scene, queue: str) -> None:
    channel, watcher = scene.channel(), scene.channel()
    channel.tx_select()
    for number in range(5):
        channel.basic_publish("", queue, str(number).encode(), PERSISTENT)
    assert depth(channel, queue) == 0
    channel.tx_commit()
    assert bodies(watcher, queue) == [b"0", b"1", b"2", b"3", b"4"]


def test_sends_vanish_at_rollback(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"never", PERSISTENT)
    channel.tx_rollback()
    channel.basic_publish("", queue, b"then", PERSISTENT)
    channel.tx_commit()
    assert bodies(scene.channel(), queue) == [b"then"]


def test_sends_vanish_with_the_channel(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    channel.tx_select()
    channel.basic_publish("", queue, b"never")
    channel.close()
    assert bodies(scene.channel(), queue) == []


def test_acknowledgements_count_at_commit(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    channel.tx_select()
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_ack(tags[0])
    channel.tx_commit()
    channel.basic_ack(tags[1])
    channel.close()  # the second acknowledgement was never committed
    assert bodies(scene.channel(), queue) == [b"1", b"2"]


def test_rollback_takes_acknowledgements_back_and_keeps_the_deliveries(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    channel.basic_publish("", queue, b"0")
    channel.basic_publish("", queue, b"1")
    channel.tx_select()
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    channel.basic_ack(tags[1], multiple=True)
    channel.tx_rollback()
    assert depth(channel, queue) == 0  # still in delivery
    channel.basic_ack(tags[0])
    channel.tx_commit()
    channel.close()
    assert bodies(scene.channel(), queue) == [b"1"]


def test_rejections_count_at_commit(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    for number in range(3):
        channel.basic_publish("", queue, str(number).encode())
    channel.tx_select()
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_reject(tags[0], requeue=True)
    channel.basic_nack(tags[1], requeue=False)
    assert depth(channel, queue) == 0
    channel.tx_commit()
    assert depth(channel, queue) == 1
    channel.close()
    assert bodies(scene.channel(), queue) == [b"0", b"2"]


def test_consume_transform_produce_is_all_or_nothing(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    target = scene.queue(channel)
    channel.basic_publish("", queue, b"order")
    channel.tx_select()
    for outcome in ("rollback", "commit"):
        method, _, body = channel.basic_get(queue)
        channel.basic_publish("", target, body + b" done")
        channel.basic_ack(method.delivery_tag)
        if outcome == "rollback":
            channel.tx_rollback()
            channel.basic_recover(requeue=True)
        else:
            channel.tx_commit()
    channel.close()
    watcher = scene.channel()
    assert (bodies(watcher, queue), bodies(watcher, target)) == ([], [b"order done"])


def test_a_mandatory_send_is_returned_before_commit_is_answered(scene: Scene) -> None:
    channel = scene.channel()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda *arguments: returned.append(arguments[-1]))
    channel.tx_select()
    channel.basic_publish("", scene.name(), b"nowhere", mandatory=True)
    channel.tx_commit()
    channel.connection.process_data_events(time_limit=0)
    assert returned == [b"nowhere"]


def test_an_empty_commit_and_a_second_select_are_fine(scene: Scene) -> None:
    channel = scene.channel()
    channel.tx_select()
    channel.tx_select()
    channel.tx_commit()
    channel.tx_rollback()


@pytest.mark.parametrize("method", ["tx_commit", "tx_rollback"])
def test_without_select_there_is_no_transaction(scene: Scene, method: str) -> None:
    with channel_closed(406, "not transactional"):
        getattr(scene.channel(), method)()


def test_confirms_and_transactions_exclude_each_other(scene: Scene) -> None:
    channel = scene.channel()
    channel.tx_select()
    with channel_closed(406, "from tx to confirm"):
        channel.confirm_delivery()
    channel = scene.channel()
    channel.confirm_delivery()
    with channel_closed(406, "from confirm to tx"):
        channel.tx_select()


def test_an_unknown_tag_in_a_transaction_is_an_error(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    channel.tx_select()
    with channel_closed(406, "unknown delivery tag"):
        channel.basic_ack(9)
        channel.tx_commit()


def test_a_large_transaction_is_one(scene: Scene, queue: str) -> None:
    channel = scene.channel()
    channel.tx_select()
    for number in range(1000):
        channel.basic_publish("", queue, number.to_bytes(4, "big"), PERSISTENT)
    channel.tx_commit()
    assert [int.from_bytes(body, "big") for body in bodies(scene.channel(), queue)] == list(range(1000))
