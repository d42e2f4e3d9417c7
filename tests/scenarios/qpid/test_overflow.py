"""Rows 44 to 63 of the Broker-J scenarios: limits with each overflow policy.

Broker-J counts encoded headers and body; here sizes are bodies. Its log messages QUE-1003 to 1005 are the queue's state
``blocked``, its counters and the loss ledger.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.errors import LimitExceeded, TransactionRefused
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.transaction import Transaction
from tests.core.helpers import removed
from tests.scenarios.qpid.stage import Client, Stage, numbers


@pytest.fixture
def stage():
    return Stage()


def limited(stage, policy, messages=-1, octets=-1, **more):
    arguments = {"qpid.policy_type": policy, "qpid.max_count": messages, "qpid.max_size": octets, **more}
    return stage.declare(arguments=arguments)


def limit(stage, queue, **settings):
    stage.change(queue, replace(queue.settings, **settings))


DEPTH = "message_count pending_bytes"


def test_row_044_without_a_policy_limits_mean_nothing(stage):
    limited(stage, "none", 2, 100)
    stage.send_sized(100, 100, 100)
    assert stage.figures(DEPTH) == (3, 300)


# ---------------------------------------------------------------------- ring


def test_row_045_the_oldest_of_five_goes(stage):
    queue = limited(stage, "ring", 4)
    stage.send_sized(20, 20, 20, 20, 20)
    assert stage.figures(DEPTH) == (4, 80)
    assert queue.order.first().sequence == 2


def test_row_046_as_many_go_as_bytes_need(stage):
    limited(stage, "ring", 4, 100)
    stage.send_sized(20, 20, 30, 30)
    assert stage.figures(DEPTH) == (4, 100)
    stage.send_sized(30)
    assert stage.figures(f"{DEPTH} messages_dropped") == (3, 90, 2)


def test_row_047_the_last_two_are_left(stage):
    queue = limited(stage, "ring", 2)
    stage.send("Test1", "Test2", "Test3")
    assert stage.take_all(queue) == ["Test2", "Test3"]


def test_row_048_what_is_in_delivery_is_passed_over(stage):
    queue, client = limited(stage, "ring", 2), Client(stage)
    client.listen(queue, messages=1)
    stage.send("m1", "m2", "m3")
    assert stage.figures("message_count delivering_count") == (2, 1)
    assert (client.received, stage.held()) == (["m1"], ["m3"])


def test_row_049_released_into_a_full_ring_it_goes(stage):
    queue, client = limited(stage, "ring", 1), Client(stage)
    client.listen(queue, messages=1)
    stage.send("m1", "m2")
    assert stage.figures("message_count") == (2,)
    client.leave()
    assert stage.held() == ["m2"]
    assert removed(queue, RemovalReason.OVERFLOW) == 1


def test_row_050_lowering_a_limit_drops_at_once_and_says_what(stage):
    queue = limited(stage, "ring", octets=20)
    stage.send_sized(6, 4)
    limit(stage, queue, max_bytes=5)
    assert stage.figures(f"{DEPTH} messages_dropped") == (1, 4, 1)
    (loss,) = stage.host.ledger.query()
    assert (loss.queue, loss.sequence, loss.size, loss.reason) == ("q", 1, 6, RemovalReason.OVERFLOW)
    stage.send_sized(1)
    assert stage.figures(f"{DEPTH} messages_dropped") == (2, 5, 1)  # at the limit, not above it


# ---------------------------------------------------------------------- producer flow control


@pytest.mark.parametrize(
    ("octets", "messages", "sizes"),
    [pytest.param(10, -1, [8, 3], id="051"), pytest.param(-1, 10, [1] * 11, id="052")],
)
def test_publishers_wait_above_the_limit_and_go_on_at_four_fifths(stage, octets, messages, sizes):
    queue, client = limited(stage, "producer_flow_control", messages, octets), Client(stage)
    stage.send_sized(*sizes[::-1])
    assert queue.blocked
    for _ in range(3 if messages == 10 else 1):  # 11 to 8
        assert queue.blocked
        client.pull(queue)
    assert not queue.blocked
    assert stage.effects.blocked == [("q", True), ("q", False)]


@pytest.mark.parametrize(("resume", "consumed"), [pytest.param(200, 2, id="053"), pytest.param(350, 1, id="054")])
def test_the_message_that_crosses_the_limit_is_kept(stage, resume, consumed):
    """Capacity for three and a half messages: the fourth trips it."""
    arguments = {"x-qpid-capacity": 350, "x-qpid-flow-resume-capacity": resume}
    queue, client = stage.declare(arguments=arguments), Client(stage)
    for count in range(1, 5):
        assert not queue.blocked
        stage.send_sized(100)
        assert stage.figures("message_count") == (count,)
    for _ in range(consumed):
        assert queue.blocked
        client.pull(queue)
    assert not queue.blocked


def test_row_055_a_limit_of_one_resumes_at_one_and_holds_for_who_comes_later(stage):
    """The queue is blocked, not one publisher; how each waits is up to its protocol
    (tests/broker/durability/test_blocked.py).
    """
    queue, client = limited(stage, "producer_flow_control", 1), Client(stage)
    stage.send("1", "2")
    assert queue.blocked
    assert queue.limits.resume_length == 1
    client.pull(queue)
    assert not queue.blocked
    stage.send("3")
    assert stage.take_all(queue) == ["2", "3"]


def test_row_056_raising_the_limit_lets_publishers_go_on_at_once(stage):
    queue = limited(stage, "producer_flow_control", 1)
    stage.send("1", "2")
    limit(stage, queue, max_length=10)
    assert not queue.blocked


# ---------------------------------------------------------------------- flow to disk


def test_row_057_what_lies_beyond_the_limit_is_paged_and_follows_the_limit(stage):
    queue = limited(stage, "flow_to_disk", 10)
    stage.send_sized(*[1] * 15)
    assert stage.figures("message_count paged_count") == (15, 5)
    limit(stage, queue, max_length=5)
    assert stage.figures("message_count paged_count") == (15, 10)
    limit(stage, queue, max_length=10)
    assert stage.figures("message_count paged_count") == (15, 5)


def test_row_058_each_message_that_goes_brings_one_back(stage):
    queue, client = limited(stage, "flow_to_disk", 5), Client(stage)
    stage.send(*numbers(1, 11))
    paged = []
    for _ in range(5):
        client.pull(queue)
        paged += stage.figures("paged_count")
    assert paged == [4, 3, 2, 1, 0]
    assert client.received == []  # pulled, not pushed
    assert stage.held() == numbers(6, 11)


def test_row_059_a_paged_message_is_intact(stage):
    queue = limited(stage, "flow_to_disk", octets=0)
    stage.send("whole")
    assert stage.figures("paged_count") == (1,)
    assert stage.take_all(queue) == ["whole"]


# ---------------------------------------------------------------------- reject


def test_row_060_a_commit_beyond_the_limit_is_refused_whole(stage):
    queue, client = limited(stage, "reject", 5), Client(stage)
    stage.send(*numbers(0, 5))
    transaction = Transaction(client)
    stage.collect(transaction, "5")
    with pytest.raises(TransactionRefused, match="queue 'q' is full"):
        transaction.commit(stage.host, stage.now)
    client.pull(queue)
    stage.send("6")
    assert stage.held() == ["1", "2", "3", "4", "6"]


def test_row_061_a_refused_message_is_taken_when_there_is_room(stage):
    queue, client = limited(stage, "reject", 1), Client(stage)
    stage.send("0")
    with pytest.raises(LimitExceeded, match="max-length is 1"):
        stage.send("1")
    assert client.pull(queue, settle=False) == "0"
    with pytest.raises(LimitExceeded):  # Broker-J's limits count what is in delivery
        stage.send("1")
    client.settle_all()
    stage.send("1")
    assert client.pull(queue) == "1"


@pytest.mark.parametrize(
    ("octets", "messages", "there", "size"),
    [pytest.param(10, -1, [5], 6, id="062-bytes"), pytest.param(-1, 7, [1] * 7, 1, id="062-messages")],
)
def test_a_message_that_would_cross_either_limit_is_refused(stage, octets, messages, there, size):
    limited(stage, "reject", messages, octets)
    stage.send_sized(*there)
    with pytest.raises(LimitExceeded, match=f"with this message {len(there) + 1} messages"):
        stage.send_sized(size)
    assert stage.figures("message_count") == (len(there),)


def test_row_063_what_was_rolled_back_takes_no_room(stage):
    limited(stage, "reject", 1)
    transaction = Transaction(Client(stage))
    stage.collect(transaction, "first")
    transaction.rollback()
    stage.send("second")
    assert stage.held() == ["second"]
