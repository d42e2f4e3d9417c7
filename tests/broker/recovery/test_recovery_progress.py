"""What the log says while a start takes long."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from annulet.broker.recovery.recovery_progress import PROGRESS_SECONDS, ProgressLines


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_line_a_second_says_how_long_the_rest_takes(clock: Clock) -> None:
    lines = ProgressLines("recovering", clock)
    with capture_logs() as said:
        for seconds, share in ((0.4, 0.1), (0.9, 0.2), (1.0, 0.25), (1.9, 0.5), (2.5, 0.6)):
            clock.now = 1000 + seconds
            lines.say(share, records=7)
    assert [(line["event"], line["records"], line["seconds_left"]) for line in said] == [
        ("recovering", 7, 3),  # a quarter took a second
        ("recovering", 7, 2),  # 1.67: rounded up
    ]


@pytest.mark.parametrize(("share", "left"), [(0.0, None), (0.001, 1998), (0.999, 1), (1.0, 0), (1.5, 0)])
def test_nothing_is_said_of_the_rest_before_something_is_done(clock: Clock, share: float, left: int | None) -> None:
    lines = ProgressLines("restoring", clock)
    clock.now += 2 * PROGRESS_SECONDS
    with capture_logs() as said:
        lines.say(share, restored=3)
    assert [line.get("seconds_left") for line in said] == [left]
    assert said[0]["restored"] == 3


def test_a_start_that_takes_no_second_says_nothing(clock: Clock) -> None:
    with capture_logs() as said:
        lines = ProgressLines("restoring", clock)
        for share in (0.1, 0.5, 1.0):
            clock.now += 0.3 * PROGRESS_SECONDS
            lines.say(share)
    assert said == []
