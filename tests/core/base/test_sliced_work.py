"""What is too long for one turn is handed over, and done to the end."""

from __future__ import annotations

import pytest

from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES, SlicedWork
from annulet.core.routing.node_effects import NodeEffects


class Countdown(SlicedWork):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def step(self, now: int) -> bool:
        assert now == 7
        self.left -= 1
        return self.left > 0


def test_without_a_loop_the_work_is_done_at_once():
    work = Countdown(3)
    NodeEffects().later(work, 7)
    assert work.left == 0
    assert not work.reads


def test_the_base_does_no_work():
    with pytest.raises(NotImplementedError):
        SlicedWork().step(0)


def test_a_slice_is_less_than_what_is_done_at_once():
    assert 0 < SLICE_MESSAGES <= AT_ONCE_MAX
