"""Rows 10 to 16 of the Broker-J scenarios: priority queues."""

from __future__ import annotations

import pytest

from annulet.core.host.transaction import Transaction
from annulet.core.management import change_priority, select
from tests.scenarios.qpid.stage import Client, Stage, run


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def queue(stage):
    return stage.declare(arguments={"x-qpid-priorities": 3})


def test_row_010_higher_levels_first_and_in_order_inside_each(stage):
    queue = stage.declare(arguments={"x-qpid-priorities": 10})
    stage.send_priorities(*(number % 10 for number in range(1, 51)))
    expected = sorted(range(1, 51), key=lambda number: (-(number % 10), number))
    assert stage.take_all(queue) == [str(number) for number in expected]


def test_row_011_three_levels_keep_the_usual_priority_in_the_middle(stage, queue):
    stage.send_priorities(9, 4, 1, 4, 9, 1, 4, 1, 9, 1, 4, 9)
    assert stage.take_all(queue) == ["1", "5", "9", "12", "2", "4", "7", "11", "3", "6", "8", "10"]


def test_row_012_a_priority_above_nine_is_the_highest(stage, queue):
    stage.send_priorities(10, 4, 0, 0, 4, 10, 4, 10, 0)
    assert stage.take_all(queue) == ["1", "6", "8", "2", "5", "7", "3", "4", "9"]


def test_row_013_a_message_sent_back_at_a_higher_priority_is_received_again(stage):
    queue, client = stage.declare(arguments={"x-qpid-priorities": 10}), Client(stage)
    client.listen(queue, messages=1)
    stage.send("0", priority=0)
    for turn in range(5):
        assert client.received[turn:] == [str(turn)]
        transaction = Transaction(client)
        stage.collect(transaction, str(turn + 1), priority=4)
        transaction.acknowledge(turn + 1)
        transaction.commit(stage.host, stage.now)
    client.settle_all()
    assert client.received == ["0", "1", "2", "3", "4", "5"]
    assert stage.figures("message_count") == (0,)


def test_row_014_a_changed_priority_goes_to_the_tail_of_its_level_under_a_new_number(stage, queue):
    stage.send_priorities(3, 3, 4)
    operation = run(change_priority(stage.host, queue, select(ids=[2]), 5, user="anna", now=stage.now), stage.now)
    assert stage.held() == ["2", "3", "1"]
    assert (operation.done, list(operation.ids), queue.order.first().sequence) == (1, [2], 4)


def test_row_015_an_unknown_number_changes_nothing(stage, queue):
    stage.send_priorities(3, 3, 4)
    operation = run(change_priority(stage.host, queue, select(ids=[9]), 5, user="anna", now=stage.now), stage.now)
    assert (operation.done, stage.held()) == (0, ["3", "1", "2"])


def test_row_016_a_priority_above_nine_is_shown_as_given(stage):
    queue = stage.declare(arguments={"x-qpid-priorities": 10})
    stage.send_priorities(5, 6, 1)
    run(change_priority(stage.host, queue, select(ids=[3]), 10, user="anna", now=stage.now), stage.now)
    assert [(entry.message.body, entry.message.priority) for entry in queue.order.entries()] == [
        (b"3", 10), (b"2", 6), (b"1", 5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (1, [0] * 11),
        (2, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]),
        (3, [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]),
        (4, [0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3]),
        (5, [0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 4]),
        (6, [0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5]),
        (7, [0, 0, 1, 2, 3, 4, 5, 6, 6, 6, 6]),
        (8, [0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7]),
        (9, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8]),
        (10, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]),
    ],
)
def test_every_line_of_the_table_from_priority_to_level(stage, levels, expected):
    queue = stage.declare(arguments={"x-qpid-priorities": levels})
    assert [queue.levels.level_of(stage.message("m", priority=priority)) for priority in range(11)] == expected
