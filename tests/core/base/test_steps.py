"""The steps of one message's way."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import LimitExceeded, RoutingTooLong
from annulet.core.base.steps import LIMIT_ROUTING, ROUTING_STEPS_MAX, Steps


def test_steps_are_taken_up_to_the_bound_and_not_beyond() -> None:
    steps = Steps()
    steps.take(ROUTING_STEPS_MAX - 1)
    steps.take(1)
    steps.take(0)
    with pytest.raises(RoutingTooLong, match=f"{ROUTING_STEPS_MAX} steps .{LIMIT_ROUTING}.; use fewer"):
        steps.take(1)
    with pytest.raises(RoutingTooLong):
        steps.take(0)


def test_protocols_answer_it_as_any_limit() -> None:
    assert issubclass(RoutingTooLong, LimitExceeded)
