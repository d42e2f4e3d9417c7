"""When a request of an idle stream may wait."""

from __future__ import annotations

from annulet.spark.idling import IDLE_SECONDS, WAIT_MILLISECONDS, Idling


def test_only_a_stream_that_just_had_nothing_waits() -> None:
    now = [100.0]
    idling = Idling(lambda: now[0])
    assert idling.wait_milliseconds() == 0, "the first request of a run"
    idling.answered(empty=True)
    now[0] += 0.01
    assert idling.wait_milliseconds() == WAIT_MILLISECONDS
    idling.answered(empty=False)
    assert idling.wait_milliseconds() == 0


def test_a_stream_beside_others_that_have_something_does_not_wait() -> None:
    """A batch of the others runs between two requests, and is not to be held up."""
    now = [100.0]
    idling = Idling(lambda: now[0])
    idling.answered(empty=True)
    now[0] += IDLE_SECONDS + 0.01
    assert idling.wait_milliseconds() == 0
