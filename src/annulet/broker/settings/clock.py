"""The broker's clock. Everything below receives ``now`` from here; tests put a virtual clock in its place."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Returns milliseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the wall clock in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
