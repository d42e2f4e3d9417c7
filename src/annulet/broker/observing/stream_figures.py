"""Bounds and counters of the streams that open pages of the web console have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CONSOLE_STREAMS_MAX: Final = 40
"""Open streams. Each has one of the 100 HTTP connections, of which others have to be left."""

CONSOLE_STREAMS_PER_USER_MAX: Final = 10
"""Streams of one user: pages in two browsers, which open six connections to a host at most."""

SAMPLE_SECONDS: Final = 1.0
"""Between two samples of a topic."""

TOPICS_MAX: Final = 16
"""Topics of one stream: a page shows the overview, a list, and a queue or a few."""


@dataclass(slots=True)
class StreamFigures:
    """Counters of one broker."""

    streams: int = 0  # open now
    sampled: int = 0  # snapshots made, each once for all of its viewers
    skipped: int = 0  # snapshots that a viewer did not take in time, and of which it gets a later one
