"""When batches happen, as users write it."""

from __future__ import annotations

import re
from typing import Final

AVAILABLE_NOW: Final = "available-now"
"""Process the data present when the run begins, then end."""

INTERVAL: Final = re.compile(r"\d+ (?:milliseconds?|seconds?|minutes?|hours?)")
"""The shortest distance of two batches, in Spark's words."""


def is_trigger(text: str) -> bool:
    """Return whether a text is one of both."""
    return text == AVAILABLE_NOW or INTERVAL.fullmatch(text) is not None
