from __future__ import annotations

import pytest

from annulet.core.base.errors import ResourceLocked
from annulet.core.host.owned_queues import QUEUES_AT_ONCE, SLICE_QUEUES
from annulet.core.host.virtual_host import VirtualHost
from tests.core.helpers import SlicingEffects

SLICES = 3


def test_very_many_exclusive_queues_go_in_slices() -> None:
    effects = SlicingEffects()
    host = VirtualHost("/", effects)
    owner, other = object(), object()
    count = QUEUES_AT_ONCE + SLICE_QUEUES * SLICES
    for number in range(count):
        host.declare_queue(f"q{number}", now=1, owner=owner)
    host.declare_queue("other", now=1, owner=other)
    host.delete_queue(host.queue_for("q0", owner), 1)
    assert len(host.connection_closed(owner, 2)) == count - 1
    assert len(host.queues) == count - 1 - QUEUES_AT_ONCE + 1
    with pytest.raises(ResourceLocked):
        host.queue_for(f"q{count - 1}", other)
    assert effects.turns() >= SLICES - 1
    assert list(host.queues) == ["other"]
    assert host.connection_closed(owner, 3) == []
