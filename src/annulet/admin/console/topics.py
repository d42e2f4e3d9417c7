"""The topics of a stream: ``overview``, ``log``, ``queues:VHOST`` and ``queue:VHOST/NAME``, percent-encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from annulet.admin.requests.paths import decode_segment
from annulet.admin.requests.responses import ResourceError
from annulet.broker.observing.stream_figures import TOPICS_MAX

OVERVIEW: Final = "overview"
LOG: Final = "log"
QUEUES: Final = "queues"
QUEUE: Final = "queue"

UNRESERVED: Final = "!'()*"
"""Characters that ``encodeURIComponent`` leaves as they are, so that a page finds its topics by their texts."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; of an overview and of the log the names are empty."""

    kind: str
    vhost: str = ""
    name: str = ""

    def __str__(self) -> str:
        if not self.vhost:
            return self.kind
        vhost = quote(self.vhost, safe=UNRESERVED)
        return f"{self.kind}:{vhost}/{quote(self.name, safe=UNRESERVED)}" if self.name else f"{self.kind}:{vhost}"


def read_topics(text: str) -> tuple[Topic, ...]:
    """Return the topics of a list with commas between, each once; 400 for one that is unknown, or too many."""
    parts = text.split(",", TOPICS_MAX)
    if len(parts) > TOPICS_MAX:
        raise ResourceError(400, f"query parameter 'topics' has more than {TOPICS_MAX} topics; open several streams")
    return tuple(dict.fromkeys(_topic(part) for part in parts))


def _topic(text: str) -> Topic:
    kind, _, names = text.partition(":")
    vhost, slash, name = names.partition("/")
    if kind in {OVERVIEW, LOG} and not names:
        return Topic(kind)
    if kind == QUEUES and vhost and not slash:
        return Topic(QUEUES, decode_segment("topics", vhost))
    if kind == QUEUE and vhost and name and "/" not in name:
        return Topic(QUEUE, decode_segment("topics", vhost), decode_segment("topics", name))
    raise ResourceError(
        400,
        f"query parameter 'topics': {text[:100]!r} is no topic; give overview, log, queues:VHOST or queue:VHOST/NAME, "
        "with each name percent-encoded",
    )
