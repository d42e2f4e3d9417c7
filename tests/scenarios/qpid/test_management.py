"""Rows 96 to 99 of the Broker-J scenarios: operators move, copy and delete messages, and want to be told of much."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.management import copy_messages, delete_messages, move_messages, select
from tests.scenarios.qpid.stage import Client, Stage, numbers, run


@pytest.fixture
def stage():
    return Stage()


def move(stage, queue, selection):
    stage.declare("target")
    return run(move_messages(stage.host, queue, selection, "target", user="anna", now=stage.now), stage.now)


@pytest.mark.parametrize(
    ("policy", "kept", "done"),
    [pytest.param("ring", ["2", "3"], 3, id="096-ring"), pytest.param("reject", ["1", "2"], 2, id="096-reject")],
)
def test_copies_keep_to_the_targets_limit(stage, policy, kept, done):
    """A ring takes every copy and keeps the last; where there is no room the operation stops and says so."""
    queue = stage.declare()
    stage.declare("target", {"qpid.policy_type": policy, "qpid.max_count": 2})
    stage.send("1", "2", "3")
    everything = select(everything=True)
    operation = run(copy_messages(stage.host, queue, everything, "target", user="anna", now=stage.now), stage.now)
    assert stage.held() == ["1", "2", "3"]
    assert (stage.held("target"), operation.done) == (kept, done)
    assert bool(operation.progress.reason) is (done < 3)


def test_row_097_a_selector_says_what_moves(stage):
    """A remainder is no part of JMS selectors; Broker-J's test and scripts use it, so ours have it as well."""
    queue = stage.declare()
    for number in range(6):
        stage.send(str(number), index=number % 2)
    operation = move(stage, queue, select(selector="index % 2 = 0"))
    assert (stage.held("target"), stage.held(), operation.done) == (["0", "2", "4"], ["1", "3", "5"], 3)


def test_row_098_a_limit_on_deleting(stage):
    queue = stage.declare()
    stage.send(*numbers(0, 7))
    selection = select(everything=True, limit=3)
    assert run(delete_messages(stage.host, queue, selection, user="anna", now=stage.now), stage.now).done == 3
    assert stage.held() == ["3", "4", "5", "6"]


@pytest.mark.parametrize("name", ["x-qpid-maximum-message-count", "qpid.alert_count", "qpid.alert_size"])
def test_row_099_an_alert_is_refused_with_what_to_do_instead(stage, name):
    """Alerts are rules over metrics: what they look at is there at any time, and nothing is checked in passing."""
    with pytest.raises(InvalidArgument, match=f"'{name}' is an alert in Broker-J and limits nothing; .* give 'x-max-"):
        stage.declare(arguments={name: 1000})


def test_row_099_what_alerts_look_at_is_always_there(stage):
    queue = stage.declare()
    stage.send_sized(*[1] * 999)
    depths = []
    for _ in range(2):
        stage.send_sized(25)
        depths.append(stage.figures("message_count pending_bytes"))
    assert depths == [(1000, 1024), (1001, 1049)]
    stage.pass_time(15_000)
    assert stage.now - queue.order.first().message.accepted_at == 15_000


def test_q15_ids_that_did_not_move_are_not_reported(stage):
    """Broker-J reports them (Q15)."""
    queue, client = stage.declare(), Client(stage)
    client.listen(queue, messages=1)
    stage.send("held", "pending")
    operation = move(stage, queue, select(ids=[1, 2]))
    assert (list(operation.ids), stage.held("target")) == ([2], ["pending"])
    assert sum(operation.progress.skipped.values()) == 1
