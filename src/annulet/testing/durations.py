"""Durations as tests write them: ``"1h"``, ``"90s"``, ``"1m30s"``, ``"250ms"``, or a number of milliseconds."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, TypeAlias

Duration: TypeAlias = "str | int | dt.timedelta"
"""A text of numbers with units, milliseconds, or a ``timedelta``."""

MILLISECONDS_OF: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Milliseconds of each unit."""

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def milliseconds_of(duration: Duration) -> int:
    """Return a duration in milliseconds. Raises ``ValueError`` for a negative one, and for a text without a unit."""
    if isinstance(duration, str):
        return _of_text(duration)
    given = round(duration.total_seconds() * 1000) if isinstance(duration, dt.timedelta) else duration
    if given < 0:
        raise ValueError(f"a clock does not go back, duration={duration!r}; give 0 or more")
    return given


def _of_text(text: str) -> int:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise ValueError(f"duration={text!r} is no duration; write numbers with ms, s, m, h or d, as '1m30s'")
    return round(sum(float(number) * MILLISECONDS_OF[unit] for number, unit in parts))
