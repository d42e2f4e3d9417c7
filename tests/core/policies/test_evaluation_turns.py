"""Dispatch that is cut because of selectors goes on, once, and stops when it is done."""

from __future__ import annotations

from annulet.core.policies.evaluation_turns import EVALUATION_STEPS_MAX, ContinuedDispatch, go_on_later, used_up
from tests.core.helpers import NOW, SlicingEffects, queue_of


def test_a_call_is_cut_at_the_bound() -> None:
    queue = queue_of()
    queue.matchers.steps = EVALUATION_STEPS_MAX - 1
    assert not used_up(queue)
    assert not queue.matchers.cut
    queue.matchers.steps = EVALUATION_STEPS_MAX
    assert used_up(queue)
    assert queue.matchers.cut


def test_what_was_cut_goes_on_once_however_often_it_is_cut() -> None:
    effects = SlicingEffects()
    queue = queue_of(effects)
    go_on_later(queue, NOW)
    assert effects.works == [], "nothing was cut"
    queue.matchers.cut = True
    go_on_later(queue, NOW)
    go_on_later(queue, NOW)
    assert len(effects.works) == 1
    assert effects.turns() == 1
    assert not queue.matchers.cut
    assert not queue.matchers.continued


def test_a_deleted_queue_is_left_alone_and_a_defect_lets_the_next_dispatch_begin() -> None:
    effects = SlicingEffects()
    queue = queue_of(effects)
    queue.matchers.cut = True
    go_on_later(queue, NOW)
    queue.delete(NOW)
    effects.turns()
    assert not queue.matchers.continued
    queue.matchers.cut = queue.matchers.continued = True
    ContinuedDispatch(queue).abandon(NOW)
    assert not queue.matchers.cut
    assert not queue.matchers.continued
