"""What selectors may take in one call."""

from __future__ import annotations

from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX, used_up
from annulet.core.policies.matchers import Matchers


def test_a_call_is_cut_at_the_bound() -> None:
    matchers = Matchers()
    matchers.steps = EVALUATION_STEPS_MAX - 1
    assert not used_up(matchers)
    assert not matchers.cut
    matchers.steps = EVALUATION_STEPS_MAX
    assert used_up(matchers)
    assert matchers.cut
