"""The declared state of a queue: every call that lower rooms make is implemented by the queue."""

from __future__ import annotations

import inspect

import pytest

from annulet.core.model.queue_state import HIDES_NOTHING, QueueState
from annulet.core.queue.queue import Queue, as_queue
from tests.core.helpers import make_queue

OWN = {"index_all", "pinned_upto"}
"""What the state knows itself."""


def declared() -> list[str]:
    """Return the names of the calls that the state declares."""
    return [name for name in vars(QueueState) if not name.startswith("_")]


def test_a_queue_implements_every_declared_call():
    calls = [name for name in declared() if callable(inspect.getattr_static(QueueState, name))]
    assert len(calls) > 20
    bare = [name for name in calls if inspect.getattr_static(Queue, name) is inspect.getattr_static(QueueState, name)]
    assert set(bare) <= OWN


def test_a_new_queue_hides_and_pins_nothing():
    queue = make_queue()
    assert (queue.hidden_from, queue.pinned_upto, queue.deleted, queue.blocked) == (HIDES_NOTHING, 0, False, False)


def test_the_state_of_a_queue_is_the_queue():
    queue = make_queue()
    assert as_queue(queue) is queue
    with pytest.raises((AssertionError, TypeError)):  # compiled code refuses it at the call
        as_queue(object())
