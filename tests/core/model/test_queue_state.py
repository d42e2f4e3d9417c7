"""The declared state of a queue: every call that lower rooms make is implemented by the queue."""

from __future__ import annotations

import ast
import inspect
from itertools import combinations
from pathlib import Path

import pytest

import annulet
from annulet.core.model.queue_state import HIDES_NOTHING, QueueState
from annulet.core.policies.queue_policies import QueuePolicies
from annulet.core.queue.entries import QueueEntries
from annulet.core.queue.queue import Queue, as_queue
from tests.core.helpers import make_queue

OWN = {
    "block_publishers", "continue_from", "count_delivering", "count_pending", "index_all", "note_deleted",
    "note_halted", "note_paused", "note_turn", "pinned_upto", "take_sequence", "use_order", "use_settings",
    "visible_end",
}  # fmt: skip
"""What the state knows itself, and changes of its fields."""

COUNTED_ABOVE = {"ages", "delivering_bytes", "hidden_from", "next_sequence", "pending_bytes"}
"""Fields that a class above the declaring one writes too: counts of each message, where a call would cost time, and two
facts that policies find out."""


def declared() -> list[str]:
    """Return the names of the calls that the state declares."""
    return [name for name in vars(QueueState) if not name.startswith("_")]


def test_a_queue_implements_every_declared_call():
    calls = [name for name in declared() if callable(inspect.getattr_static(QueueState, name))]
    assert len(calls) > 20
    bare = [name for name in calls if inspect.getattr_static(Queue, name) is inspect.getattr_static(QueueState, name)]
    assert set(bare) <= OWN


def written_by(kind: type) -> set[str]:
    """Return the names of the fields that a class assigns to itself."""
    source = Path(annulet.__file__).parent.parent / f"{kind.__module__.replace('.', '/')}.py"
    tree = ast.parse(source.read_text())
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    stored = [node for node in ast.walk(body) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


def test_a_field_is_written_by_the_class_that_declares_it():
    chain = [QueueState, QueuePolicies, QueueEntries, Queue]
    twice = {name for lower, upper in combinations(chain, 2) for name in written_by(lower) & written_by(upper)}
    assert twice == COUNTED_ABOVE


def test_changes_of_the_fields_are_seen():
    queue = make_queue()
    first = queue.take_sequence()
    queue.continue_from(first + 9)
    assert queue.next_sequence == first + 9
    queue.continue_from(first)
    assert queue.take_sequence() == first + 9
    assert queue.visible_end == first + 10
    queue.count_pending(5)
    queue.count_delivering(7)
    assert (queue.pending_bytes, queue.delivering_bytes) == (5, 7)
    queue.note_turn(asked=True)
    assert queue.turn_asked


def test_a_new_queue_hides_and_pins_nothing():
    queue = make_queue()
    assert (queue.hidden_from, queue.pinned_upto, queue.deleted, queue.blocked) == (HIDES_NOTHING, 0, False, False)


def test_the_state_of_a_queue_is_the_queue():
    queue = make_queue()
    assert as_queue(queue) is queue
    with pytest.raises((AssertionError, TypeError)):  # compiled code refuses it at the call
        as_queue(object())
