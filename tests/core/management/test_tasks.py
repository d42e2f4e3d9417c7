"""Operations under way: turns, ends, cancelling, bounds."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import NotFound, PreconditionFailed
from annulet.core.management import Tasks, purge
from annulet.core.management.operation import CANCELLED, FINISHED, SLICE_MESSAGES
from tests.core.helpers import NOW
from tests.core.management.bench import Bench


def operations(bench, *counts):
    made = []
    for number, count in enumerate(counts):
        queue = bench.queue(f"q{number}")
        bench.send(queue, *["m"] * count)
        made.append(purge(bench.host, queue, user="anna", now=NOW))
    return made


def test_each_gets_a_slice_in_its_turn():
    bench, tasks = Bench(), Tasks()
    long, short = operations(bench, 2 * SLICE_MESSAGES + 1, 1)
    assert [tasks.add(long), tasks.add(short)] == [1, 2]
    assert tasks.step(NOW) is True
    assert tasks.step(NOW) is True
    assert (long.done, short.state, tasks.running) == (SLICE_MESSAGES, FINISHED, 1)
    while tasks.step(NOW):
        pass
    assert (long.state, tasks.running, tasks.numbers()) == (FINISHED, 0, [2, 1])
    assert tasks.step(NOW) is False
    assert tasks.task(1) is long


def test_cancelled_tasks_end_where_they_are():
    bench, tasks = Bench(), Tasks()
    one, two, three = operations(bench, SLICE_MESSAGES + 1, 5, 5)
    for task in (one, two, three):
        tasks.add(task)
    tasks.step(NOW)
    assert tasks.cancel(1, NOW) is one
    assert (one.state, one.done) == (CANCELLED, SLICE_MESSAGES)
    tasks.cancel_all(NOW)
    assert (two.state, three.state, tasks.running) == (CANCELLED, CANCELLED, 0)
    assert len(bench.effects.audit) == 3
    assert tasks.cancel(1, NOW + 5).state == CANCELLED
    assert len(bench.effects.audit) == 3


def test_a_preview_is_a_task_as_well():
    bench, tasks = Bench(), Tasks()
    (operation,) = operations(bench, 3)
    preview = operation.preview()
    tasks.add(preview)
    while tasks.step(NOW):
        pass
    assert preview.result.count == 3


def test_both_tables_are_bounded():
    bench, tasks = Bench(), Tasks(running_max=2, ended_max=1)
    one, two, three = operations(bench, 1, 1, 1)
    tasks.add(one)
    tasks.add(two)
    with pytest.raises(PreconditionFailed, match="2 operations are under way"):
        tasks.add(three)
    while tasks.step(NOW):
        pass
    assert tasks.numbers() == [2]
    with pytest.raises(NotFound, match="no operation 1; the last one is 2, and 1 are remembered"):
        tasks.task(1)
