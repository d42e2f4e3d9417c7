"""What was promised to the clients of deep queues (:mod:`tests.crash.deep_clients`), and whether it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

from annulet.admin.resources.queues import unaccounted
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.queue.invariants import check_invariants
from annulet.residency.bodies.budget import drift_of
from annulet.residency.loading import search_ahead
from tests.bulk.helpers import Bench
from tests.crash.counted import ACKNOWLEDGED, ADDED, EXPIRED, PURGED
from tests.crash.deep_clients import DEEP_QUEUES, LEVELS, LIFE, PARTS, Choosy, deep_settings, shard_of
from tests.crash.mortal_broker import number_of
from tests.crash.promises import Promises
from tests.store.searching.test_search_tools import StandIn


class DeepPromises(Promises):
    """As :class:`Promises`, and of each deep queue what must be there, may be, and must have gone."""

    clients = "deep"

    def __init__(self) -> None:
        super().__init__()
        self.tried: dict[str, set[int]] = {name: set() for name in DEEP_QUEUES}
        self.kept: dict[str, set[int]] = {name: set() for name in DEEP_QUEUES}
        self.left: dict[str, set[int]] = {name: set() for name in DEEP_QUEUES}
        self.accepted: dict[int, int] = {}  # milliseconds since 1970
        self.purged = 0  # messages there were when a purge began
        self.perhaps = 0  # beside them, those that were refused and may have been there all the same
        self.searched = 0  # rows that a search after a start passed over
        self.told_by_heads = 0  # of those looked at for that, how many a file of heads told of
        self.figures = [0, 0, 0, 0]  # of the last broker: rows made, bodies spilled, rows selected, reads refused

    def hear(self, line: list[Any]) -> None:
        """Take in one line."""
        if line[0] == "figures":
            self.figures = line[1]
        else:
            super().hear(line)

    def settings(self) -> dict[str, Any]:
        """Those of a broker that goes on here."""
        return deep_settings(self.next_number)

    def _burst(self, queue: str, sent: list[list[int]], *, promised: bool) -> None:
        numbers = [number for number, _, _ in sent]
        if queue != "mixed":  # transient messages end with a broker, whatever its counters say
            self.tally.count(queue, ADDED, len(numbers), promised=promised)
        if queue == "brief" and not promised:  # at any time from then on
            self.tally.count(queue, EXPIRED, len(numbers), promised=False)
        if promised:
            self.kept[queue].update(numbers)
            return
        self.tried[queue].update(numbers)
        self.accepted.update({number: at for number, at, _ in sent})
        self.next_number = max(self.next_number, *numbers) + 1

    def _rows(self, sent: list[list[int]], *, promised: bool) -> None:
        self._burst("rows", sent, promised=promised)

    def _levels(self, sent: list[list[int]], *, promised: bool) -> None:
        self._burst("levels", sent, promised=promised)

    def _brief(self, sent: list[list[int]], *, promised: bool) -> None:
        self._burst("brief", sent, promised=promised)

    def _mixed(self, sent: list[list[int]], *, promised: bool) -> None:
        self._burst("mixed", sent, promised=promised)

    def _finish(self, facts: list[Any], *, promised: bool) -> None:
        queue, numbers = facts
        if queue != "mixed":
            self.tally.count(queue, ACKNOWLEDGED, len(numbers), promised=promised)
        self.kept[queue].difference_update(numbers)
        if promised:
            self.left[queue].update(numbers)

    def _expire(self, facts: list[int], *, promised: bool) -> None:
        number, now = facts
        self.next_number = max(self.next_number, number + 1)
        due = {each for each in self.tried["brief"] if self.accepted[each] + LIFE <= now}
        self.kept["brief"] -= due
        if promised:
            self.tally.count("brief", EXPIRED, len(due - self.left["brief"]), promised=True)
            self.left["brief"] |= due

    def _purge(self, facts: list[Any], *, promised: bool) -> None:
        queue, held = facts
        if not promised:
            self.purged = len(self.kept[queue] - set(held))
            self.perhaps = len(self.tried[queue] - self.left[queue] - set(held)) - self.purged
        self.tally.count(queue, PURGED, self.purged, promised=promised)
        if not promised:
            self.tally.count(queue, PURGED, self.perhaps, promised=False)  # nobody will tell whether they were there
        self.kept[queue] &= set(held)
        if promised:
            self.left[queue] |= self.tried[queue] - set(held)

    async def verify(self, here: Bench, *, refused: bool) -> None:
        """Check the shallow queues and the deep ones."""
        now = here.broker.clock()
        part = self.next_number % PARTS
        searched = await self._search(here, part)
        found = [number_of(body) for body in here.bodies("rows")]
        matching = [number for number in found if number % PARTS == part]
        assert searched == matching, "a search misses some, or has one twice"
        await super().verify(here, refused=refused)
        here.host.queues["brief"].expire_due(now)
        assert here.broker.pager is not None
        for name in DEEP_QUEUES:
            queue = here.host.queues[name]
            entries = queue.order.entries()
            found = [number_of(entry.message.body) for entry in entries]
            there = set(found)
            key = (lambda number: (-(number % LEVELS), number)) if name == "levels" else (lambda number: (0, number))
            assert found == sorted(there, key=key), f"{name}: out of order or twice"
            assert there <= self.tried[name], f"{name}: messages nobody sent"
            assert not self.left[name] & there, f"{name}: what was done with came back"
            assert all(entry.message.durable for entry in entries), f"{name}: what is not persistent came back"
            must = self.kept[name]
            if name == "brief":
                must = {number for number in must if self.accepted[number] + LIFE > now}
                assert all(self.accepted[number] + LIFE > now for number in there), "what has expired is there"
                losses = [loss.sequence for loss in here.host.ledger.query(queue=name, reason=RemovalReason.EXPIRED)]
                assert len(losses) == len(set(losses)), "a loss is counted twice"
            assert must <= there, f"{name}: confirmed messages are lost: {sorted(must - there)[:5]}"
            check_invariants(queue)
            assert unaccounted(queue.statistics()) == 0, name
            assert drift_of(queue) == 0, name

    async def _search(self, here: Bench, part: int) -> list[int]:
        """Return what a selector finds among the rows, with whatever is left of the files of heads."""
        pager, search, queue = here.broker.pager, here.broker.log.search, here.host.queues["rows"]
        assert pager is not None
        assert search is not None
        stand_in, session, now = StandIn(search), Choosy(), here.broker.clock()
        rows_least, search_ahead.ROWS_LEAST = search_ahead.ROWS_LEAST, 0  # type: ignore[misc]
        try:
            session.select(queue, f"shard = '{shard_of(part)}'", now)
            while queue.statistics().scan_remaining or pager.run():
                stand_in.answer()
                await asyncio.sleep(0)
        finally:
            search_ahead.ROWS_LEAST = rows_least  # type: ignore[misc]
        self.searched += pager.figures.searched
        self.told_by_heads += stand_in.told
        session.close(now)
        return session.got

    async def settle_accounts(self, here: Bench) -> None:
        """From here on what was found is what is promised."""
        await super().settle_accounts(here)
        for name in DEEP_QUEUES:
            found = {number_of(entry.message.body) for entry in here.host.queues[name].browse()}
            self.left[name] |= self.tried[name] - found
            self.kept[name] = found
        self.tally.count("brief", EXPIRED, len(self.kept["brief"]), promised=False)
