"""Dispatch that is cut because of selectors goes on, once, and stops when it is done."""

from __future__ import annotations

from annulet.core.queue.continued_dispatch import ContinuedDispatch, go_on_later
from tests.core.helpers import NOW, SlicingEffects, queue_of


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
