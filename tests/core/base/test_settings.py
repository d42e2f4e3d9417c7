"""Settings: what a queue does when it is told nothing."""

from __future__ import annotations

import dataclasses

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import UNLIMITED, ConsumerSettings, QueueSettings
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, make_message, pending


def test_by_default_nothing_is_limited_replaced_or_expired():
    queue = Queue("q", QueueSettings(), RecordingEffects())
    for number in range(1000):
        queue.enqueue(make_message(str(number), k="same"), NOW)
    assert queue.expire(NOW + 10**12) == 0
    assert pending(queue) == [str(number) for number in range(1000)]


def test_off_is_minus_one_everywhere():
    settings = QueueSettings()
    assert UNLIMITED == -1
    assert (settings.ring_size, settings.message_ttl, settings.expires) == (UNLIMITED, UNLIMITED, UNLIMITED)


def test_settings_are_values():
    assert QueueSettings(ring_size=3) == QueueSettings(ring_size=3)
    assert QueueSettings(ring_size=3) != QueueSettings(ring_size=4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        QueueSettings().ring_size = 5


@pytest.mark.parametrize(
    "change", [{"last_value_key": "other"}, {"keep_per_key": 3}, {"last_value_fallback": "_AMQ_LVQ_NAME"}]
)
def test_what_a_queue_is_cannot_be_changed_while_it_lives(change):
    settings = QueueSettings(last_value_key="k", keep_per_key=2)
    queue = Queue("q", settings, RecordingEffects())
    name = next(iter(change)).replace("_", "-")
    with pytest.raises(InvalidArgument, match=f"queue 'q': {name} is .* cannot be changed"):
        queue.update(dataclasses.replace(settings, **change, ring_size=1), NOW)
    assert queue.settings == settings


@pytest.mark.parametrize(
    ("settings", "all_of_it"),
    [
        (ConsumerSettings(), False), (ConsumerSettings(priority=9, auto_close=True), False),
        (ConsumerSettings(selector="a = 1"), True), (ConsumerSettings(browse="follow"), True),
        (ConsumerSettings(no_local=True), True), (ConsumerSettings(replay_period=0), True),
    ],
)  # fmt: skip
def test_who_looks_at_all_of_a_queue(settings, all_of_it):
    assert settings.looks_at_all is all_of_it
