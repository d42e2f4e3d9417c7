"""Blocks of memory that each waiting message adds to its queue, counted by the interpreter: no matter how fast."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from tests.core.helpers import NOW, make_message, queue_of

MESSAGES = 2000
KINDS: list[tuple[str, dict[str, Any], float]] = [
    ("plain", {}, 2.2),
    ("ring", {"ring_size": 2 * MESSAGES}, 2.2),
    ("priorities", {"max_priority": 9}, 2.2),
    ("time to live", {"message_ttl": 60_000}, 5.0),
]
"""Settings, and blocks a message at most."""


@pytest.mark.parametrize(("settings", "most"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_a_waiting_message_adds_few_blocks(settings: dict[str, Any], most: float) -> None:
    queue = queue_of(**settings)
    messages = [make_message(b"body") for _ in range(MESSAGES)]
    queue.enqueue(make_message(b"the first one makes the collections"), NOW)
    gc.collect()
    before = sys.getallocatedblocks()
    for message in messages:
        queue.enqueue(message, NOW)
    gc.collect()
    assert 0.5 < (sys.getallocatedblocks() - before) / MESSAGES < most
