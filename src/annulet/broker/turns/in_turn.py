"""Of very many queues some at a time, so that no turn of the loop is for all of them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

T = TypeVar("T")


def in_turn(queues: dict[Queue, T], most: int) -> list[Queue]:
    """Return so many of them, and have others be the first next time."""
    some = list(islice(queues, most))
    if len(some) < len(queues):
        for queue in some:
            queues[queue] = queues.pop(queue)
    return some
