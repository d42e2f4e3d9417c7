"""Of several lives of a message the shorter counts, and the longer of its minimum."""

from __future__ import annotations

from annulet.core.base.expiry_times import NEVER, time_of
from annulet.core.base.settings import QueueSettings


def test_the_shorter_life_counts_and_the_longer_minimum():
    assert time_of(QueueSettings(), 100, 0) == 0
    assert time_of(QueueSettings(), 100, 130) == 130
    assert time_of(QueueSettings(message_ttl=5), 100, 0) == 105
    assert time_of(QueueSettings(message_ttl=5, max_ttl=3), 100, 104) == 103
    assert time_of(QueueSettings(message_ttl=5), 100, 103) == 103
    assert time_of(QueueSettings(min_ttl=10), 100, 0) == 0
    assert time_of(QueueSettings(min_ttl=10), 100, 90) == 110
    assert time_of(QueueSettings(min_ttl=10, max_ttl=3), 100, 90) == 103


def test_never_is_behind_the_latest_time_and_sequence():
    latest = (1 << 62) - 1  # no clock of milliseconds comes so far
    assert (latest, 1 << 62) < NEVER
    assert time_of(QueueSettings(message_ttl=1), latest - 1, 0) < NEVER[0]
