"""Some of many queues at a time."""

from __future__ import annotations

import pytest

from annulet.broker.turns.in_turn import in_turn
from tests.core.helpers import queue_of


def test_those_that_had_no_turn_are_the_first_next_time() -> None:
    queues = {queue_of(): number for number in range(5)}
    seen = [queues[queue] for _ in range(5) for queue in in_turn(queues, 2)]
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("most", [3, 4])
def test_where_all_have_a_turn_they_stay_as_they_are(most: int) -> None:
    queues = {queue_of(): number for number in range(3)}
    assert in_turn(queues, most) == list(queues)
    assert list(queues.values()) == [0, 1, 2]
