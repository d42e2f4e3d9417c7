"""Queue rules as plain data that is sent to workers, and their requirements (design §2).

Independent of Spark: :mod:`annulet.spark.operators.columns` finds the columns, ``batch`` and ``streaming`` apply the
rules.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from annulet.core.base.settings import LEAST_IMPORTANT, LEAST_RECENT_KEY, OLDEST, SOONEST_TO_EXPIRE, UNLIMITED
from annulet.core.host.duplicate_ids import ID_CACHE_SIZE
from annulet.core.ordering.ranks import CENTRED_LEVELS

ARRIVAL: Final = "arrival"
WALL: Final = "wall"
CLOCKS: Final = (ARRIVAL, WALL)
"""The clock of :func:`expire`: the latest message's time of acceptance, or the clock of the machine."""

LEVELS_MAX: Final = 256
"""Priority levels, as in the broker."""

SHARDS: Final = 8
"""Parts the state of a streaming operator is split into: a few for each core of a small machine."""
SHARDS_MAX: Final = 1024
"""More than the cores of any cluster, and the limit of the type of a state."""


class OperatorError(ValueError):
    """A rule, a column or an option of an operator is invalid. The text has its name, value and remedy."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one composition. -1 means off for every number; names are columns."""

    key: str = ""
    """Column whose last ``keep`` messages are kept, per value; empty = no such rule."""
    keep: int = 1
    ring_size: int = UNLIMITED
    max_length: int = UNLIMITED
    max_bytes: int = UNLIMITED
    refuses: bool = False
    """At a limit the new message is refused; otherwise the limits evict."""
    evict: str = LEAST_IMPORTANT
    priorities: int = UNLIMITED
    max_priority: int = UNLIMITED
    priority_age: int = UNLIMITED
    """Milliseconds of waiting that are worth one level; -1 = strict."""
    sort_key: str = ""
    grouped: bool = False
    group_key: str = ""
    """Column of the group's name; empty = the column ``group`` of :class:`~annulet.spark.operators.columns.Columns`."""
    group_buckets: int = UNLIMITED
    default_group: str = ""
    expires: bool = False
    clock: str = ARRIVAL
    message_ttl: int = UNLIMITED
    min_ttl: int = UNLIMITED
    max_ttl: int = UNLIMITED
    deduplicates: bool = False
    window: int = ID_CACHE_SIZE
    """Ids remembered per queue; -1 = all of them."""

    @property
    def limited(self) -> bool:
        """Whether there is a limit in messages or bytes."""
        return self.max_length >= 0 or self.max_bytes >= 0

    @property
    def evicts(self) -> bool:
        """Whether a full ring or limit removes messages that were accepted."""
        return self.ring_size >= 0 or (self.limited and not self.refuses)

    @property
    def prioritised(self) -> bool:
        """Whether messages have levels."""
        return self.priorities >= 0 or self.max_priority >= 0

    @property
    def highest_level(self) -> int:
        """The most important level; levels count from 0."""
        return self.max_priority if self.max_priority >= 0 else max(1, self.priorities) - 1

    @property
    def level_offset(self) -> int:
        """The offset subtracted from a priority to get its level: few levels keep JMS's 4 in the middle (qpid §3)."""
        if self.max_priority >= 0 or self.priorities >= CENTRED_LEVELS:
            return 0
        return 5 - (self.priorities + 1) // 2

    @property
    def default_priority(self) -> int:
        """The effective priority of a message without one."""
        return 0 if self.max_priority >= 0 else 4

    @property
    def stateful(self) -> bool:
        """Whether the fate of a message depends on others, so that a stream has to keep them."""
        return bool(self.key) or self.evicts or self.limited or self.expires or self.deduplicates

    @property
    def by_key(self) -> bool:
        """Whether messages with different keys do not concern each other, so that shards may split a queue."""
        whole_queue = self.evicts or self.limited or self.deduplicates or (self.expires and self.clock == ARRIVAL)
        return bool(self.key) and not whole_queue

    @property
    def needs_level(self) -> bool:
        """Whether eviction depends on levels."""
        return self.prioritised and self.evicts and self.evict == LEAST_IMPORTANT

    @property
    def needs_expiry(self) -> bool:
        """Whether expiry or eviction depends on expiry times."""
        return self.expires or (self.evicts and self.evict == SOONEST_TO_EXPIRE)

    @property
    def fingerprint(self) -> str:
        """The rules in words: those that are not as by default."""
        usual = asdict(Rules())
        return ", ".join(f"{name}={value!r}" for name, value in asdict(self).items() if value != usual[name])


def path_dependence(rules: Rules) -> str:
    """Return why the survivors depend on the course of events, so that no window function finds them; else empty.

    Otherwise the survivors are a choice among all messages by rank, independent of the order of events: an evicted
    message always has enough more important ones above it.
    """
    if rules.deduplicates and rules.window >= 0:
        return "a bounded window of ids forgets the oldest"
    if rules.refuses and (
        rules.max_bytes >= 0 or rules.key or rules.expires or rules.deduplicates or rules.ring_size >= 0
    ):
        return "refusals depend on the content at that moment"
    if not rules.evicts:
        return ""
    by_age = rules.evict == OLDEST or (rules.evict == LEAST_IMPORTANT and not rules.prioritised)
    if rules.evict == LEAST_RECENT_KEY:
        return "every message changes the rank of its key"
    if rules.expires:
        return "expired messages make room again"
    if rules.key and not (by_age and rules.max_bytes < 0):
        return "a replacement may be less important or smaller than the replaced message"
    if rules.max_bytes >= 0 and not by_age:
        return "a small message may fit where a large one had to go"
    return ""
