"""What a declaration of something that exists is told."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.redeclaration import require_same, require_same_settings


def test_the_same_is_fine():
    require_same("durable", "queue 'q'", True, True)
    three = QueueSettings(ring_size=3)
    require_same_settings("queue 'q'", three, three, three, {})


@pytest.mark.parametrize(
    ("received", "current", "text"),
    [
        (True, False, "received 'true' but current is 'false'"),
        (None, "dead", "received none but current is 'dead'"),
        (3, 4, "received '3' but current is '4'"),
    ],
)
def test_both_values_and_the_remedy_are_named(received, current, text):
    with pytest.raises(PreconditionFailed, match=rf"inequivalent arg 'x' for queue 'q': {text}; declare it with"):
        require_same("x", "queue 'q'", received, current)


def test_settings_that_differ_are_named_by_their_argument():
    three = QueueSettings(ring_size=3)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-ring-size' for queue 'q': received none"):
        require_same_settings("queue 'q'", QueueSettings(), three, three, {})


CHANGED = "received '4' but current is '5', by operator, and it was declared with '3'; declare it with one of these"


def test_what_changed_since_is_named_and_may_be_given_too():
    declared, current = QueueSettings(ring_size=3, max_ttl=7), QueueSettings(ring_size=5, max_ttl=7)
    for ring_size in (3, 5):
        received = QueueSettings(ring_size=ring_size, max_ttl=7)
        require_same_settings("queue 'q'", received, declared, current, {"ring_size": "operator"})
    received = QueueSettings(ring_size=4, max_ttl=7)
    with pytest.raises(PreconditionFailed, match=f"inequivalent arg 'x-ring-size' for queue 'q': {CHANGED}"):
        require_same_settings("queue 'q'", received, declared, current, {"ring_size": "operator"})
    received = QueueSettings(ring_size=5)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-ttl' for queue 'q': received none but"):
        require_same_settings("queue 'q'", received, declared, current, {"ring_size": "operator"})


def test_without_the_argument_a_changed_setting_is_named_with_its_origin():
    text = "received none but current is '5', by policy 'p', and it was declared with '3'"
    with pytest.raises(PreconditionFailed, match=text):
        require_same_settings(
            "queue 'q'",
            QueueSettings(),
            QueueSettings(ring_size=3),
            QueueSettings(ring_size=5),
            {"ring_size": "policy 'p'"},
        )
