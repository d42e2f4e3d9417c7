"""What clients know of a queue's counters: how many messages came, and how many left for each reason.

What a broker that was killed counted for a step nobody was told the end of may be in or not; more than that never is. A
death takes acknowledgements back to when counters were written last, and nothing of what left otherwise.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.statistics import QueueStatistics

ADDED = "added"
ACKNOWLEDGED = RemovalReason.ACKNOWLEDGED.value
EXPIRED = RemovalReason.EXPIRED.value
PURGED = RemovalReason.PURGED.value
REJECTED = RemovalReason.REJECTED.value
REPLACED_RING = RemovalReason.REPLACED_RING.value
REPLACED_KEY = RemovalReason.REPLACED_KEY.value
UNREADABLE = RemovalReason.UNREADABLE.value


class Counted:
    """Of one queue, by reason, and under ``ADDED`` what came."""

    def __init__(self) -> None:
        self.found = Counter[str]()  # when the accounts were settled
        self.sure = Counter[str]()  # promised since
        self.most = Counter[str]()  # at most so many more: of the step under way, and of those that were refused
        self.written = Counter[str]()  # of the sure ones, those of before counters were written last

    def try_(self, what: str, most: int) -> None:
        """Note so many, at most, of a step that begins."""
        self.most[what] += most

    def do(self, what: str, most: int, number: int) -> None:
        """Note that it was done, and how many there were."""
        self.most[what] -= most
        self.sure[what] += number

    def verify(self, name: str, figures: QueueStatistics, *, exact: bool, least: str) -> None:
        """Compare with what a start found. ``exact``: all of it was written down, and nothing was under way.

        ``least``: what must be there at least: ``all``, ``found`` (nothing since the accounts were settled), ``none``
        (the disk refused: what it would not read for long enough was passed over, and comes a second time).
        """
        removed, least = figures.removed, "all" if exact else least
        unreadable = removed.get(UNREADABLE, 0) if least == "none" else 0
        for what in {*removed, *self.found, *self.sure, *self.most}:
            has = figures.messages_added if what == ADDED else removed.get(what, 0)
            sure = self.found[what] + self.sure[what]
            most = sure + self.most[what] + unreadable * (what in (ADDED, UNREADABLE))
            assert has <= most, f"{name}: {what} {has}, more than the {most} there were"
            bounds = {"all": sure, "found": self.found[what], "none": 0}
            if not exact and what == ACKNOWLEDGED:
                bounds["all"] = self.found[what] + self.written[what]
            elif not exact and what == ADDED:  # without what was acknowledged since then
                bounds = dict.fromkeys(bounds, 0)
            assert has >= bounds[least], f"{name}: {what} {has}, less than the {bounds[least]} that were promised"

    def settle(self, figures: QueueStatistics) -> None:
        """From here on what was found is what is promised."""
        self.found = Counter({**figures.removed, ADDED: figures.messages_added})
        self.sure, self.most, self.written = Counter(), Counter(), Counter()


class AllCounted:
    """Of all queues that clients told of."""

    def __init__(self) -> None:
        self.queues: defaultdict[str, Counted] = defaultdict(Counted)
        self.compared: Counter[str] = Counter()  # queues whose figures were compared, by how exactly

    def count(self, name: str, what: str, most: int, *, promised: bool, number: int = -1) -> None:
        """Count for a step that begins or, ``promised``, was done; ``number`` of it if not as many as at most."""
        if promised:
            self.queues[name].do(what, most, most if number < 0 else number)
        else:
            self.queues[name].try_(what, most)

    def written(self) -> None:
        """Counters were written just now."""
        for counted in self.queues.values():
            counted.written = counted.sure.copy()
