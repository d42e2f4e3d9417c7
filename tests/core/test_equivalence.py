"""What a declaration of something that exists is told."""

from __future__ import annotations

import pytest

from annulet.core.equivalence import require_same, require_same_settings
from annulet.core.errors import PreconditionFailed
from annulet.core.settings import QueueSettings


def test_the_same_is_fine():
    require_same("durable", "queue 'q'", True, True)
    require_same_settings("queue 'q'", QueueSettings(ring_size=3), QueueSettings(ring_size=3))


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
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-ring-size' for queue 'q': received none"):
        require_same_settings("queue 'q'", QueueSettings(), QueueSettings(ring_size=3))
