"""The pager: keeps bodies in memory within the budget by letting queues page.

Nothing pages inside an arrival: its window is not written, and its transaction may yet be undone. Queues that may have
grown too large are noted there; when a window has reached the disk they are measured, and the largest page slice by
slice until the budget is kept. Waiting messages of plain queues and of those with strict priorities become rows; all
others, and those in delivery, stay entries whose bodies leave: to where the log has them, else to the spill store.
"""

from __future__ import annotations

import math
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.paging.look_turns import Scanning
from annulet.broker.paging.lost_wakes import LostWakes
from annulet.broker.paging.read_wakes import ReadWakes
from annulet.broker.paging.search_process import SearchProcess
from annulet.broker.paging.spill_pace import SpillPace
from annulet.broker.paging.spill_thread import SpillThread
from annulet.broker.paging.stall_warnings import StallWarnings
from annulet.broker.turns.in_turn import in_turn
from annulet.core.deliveries.compaction import HELD_BLOCKS_LEAST, Compaction
from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.paging.paged_fifo import KEEP_MESSAGES, PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.paging.paged_sorted import PagedSorted
from annulet.core.queue.queue import Queue, as_queue
from annulet.core.sessions.session import Session
from annulet.residency.bodies.account_audit import AccountAudit
from annulet.residency.bodies.arrival_notes import FLOOR_BYTES, ArrivalNotes
from annulet.residency.bodies.bodies import GROWTH_LEAST, StoredBodies
from annulet.residency.bodies.body_store import BodyStore
from annulet.residency.bodies.budget import PAGED_AT_ONCE, BodyBudget, in_memory
from annulet.residency.bodies.small_queues import SmallQueues
from annulet.residency.bodies.spilling import BODY_BYTES_LEAST, Spilling
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.pages.chosen_rows import ChosenRows
from annulet.residency.pages.pages import StoredQueueArea

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from annulet.core.model.entry import QueueEntry
    from annulet.store.segments.interface import Log
    from annulet.store.spill.spill import SpillStore

logger = structlog.get_logger(__name__)

CHUNK: Final = 2048
"""Entries that become one page, or bodies that are looked at, before it is asked whether a slice's time is up: 1 ms of
the loop, 2 of bodies that leave."""

SLICE: Final = 8192
"""Entries that page before other tasks get a turn: some 5 ms of the loop where they are cheap."""

SLICE_SECONDS: Final = 0.005
"""Computing time after which paging leaves the loop to other tasks all the same."""

OWED_SECONDS: Final = 0.01
"""The same while others have computed for longer than paging since it began: publishing must not get ahead of paging.

Not as long as they did, which may be any time: the remaining debt makes the next slices longer.
"""

SORTED_WORK: Final = 8
"""Entries of other queues that page in the time of one of a sorted queue."""

DEEP_SHARES: Final = 4
"""A queue with so many times its share on disk keeps no late messages: consumers have read far more by then, and the
memory is more useful elsewhere."""

DEEP_LATE: Final = 256
"""Late messages of such a queue that are on disk, before they page: 0.1 ms of the loop. So most windows page at once,
while the written data is in the processor's caches; with fewer the work around them counts as much."""

FOLDED_LEAST: Final = KEEP_MESSAGES + CHUNK
"""Messages that came back and have no body in memory, before they become rows: those that are next stay objects, and a
page for a few is no gain. The budget does not count them, as their bodies are on disk: 2 MB a queue."""

GIVEN_BACK: Final = 2048
"""Unused places in the spill store noted in one turn: 3 ms of the loop."""

DELIVERY_SHARE: Final = 8
"""The part of a queue's share that bodies in delivery may take before they are spilled: mostly they are settled soon
(design, T10n). With all queues at their shares that is an eighth of the budget."""

ADOPTED_LEAST: Final = 1 << 15
"""Messages in memory from which on it is noted which bodies of a queue may leave, whether any has to or not: to look at
32,768 takes some 5 ms of the loop, and at all that the budget has room for, which is when the first has to, 30."""

TENDED: Final = 256
"""Queues that a tick looks after, of each kind of work: 1 ms of the loop. Where there are more they take turns."""

TENDED_STUCK: Final = 32
"""Of those that were over their share and had nothing to page, so many are asked again by a tick: 1 ms of the loop."""


class Pager:
    """Notes, measures, pages. Belongs to the event loop."""

    def __init__(
        self,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        budget_bytes: int,
        room: Callable[[], int],
        clock: Callable[[], int],
        spill: SpillStore | None = None,
        queues: Callable[[], list[Queue]] = list,
        *,
        searches: bool = False,
    ) -> None:
        self.scanning = Scanning(loop, clock)
        self._read_wakes = ReadWakes(loop, clock)
        self.budget = BodyBudget(budget_bytes, spills=spill is not None)
        self.figures = PagingFigures()
        self.spill = spill  # None: messages without a log stay in memory
        self.pace = SpillPace()
        self._thread = SpillThread(loop)
        self.spilling = None if spill is None else Spilling(spill, self.figures, self._thread.submit)
        self.store = BodyStore(log, self.figures, room, self._changed, self.spilling)
        self._log = log
        self._search = log.search if searches else None
        self.searching = None if self._search is None else SearchProcess(loop, self._search)
        self._loop = loop
        self.notes = ArrivalNotes()  # stores of a message tell them, without a detour over the pager
        self.small = SmallQueues(self.budget, self.notes, queues, self._bound)
        self._paging: dict[Queue, None] = {}  # queues with rows
        self._bodies: dict[Queue, StoredBodies] = {}  # queues that were asked for bodies
        self._folding: dict[Queue, None] = {}  # queues to which very many came back
        self._unfolded: dict[Queue, int] = {}  # how many came back to those of which none could become a row
        self._held: dict[Queue, list[Compaction]] = {}  # queues with very many deliveries, and the folders of these
        self._untidy: dict[Queue, None] = {}  # queues to adopt, or of which bodies are to be let go of that are gone
        self._held_left: dict[Queue, int] = {}  # messages without their bodies that these could not fold
        self.held_least = HELD_BLOCKS_LEAST * BLOCK_TAGS
        self.audit = AccountAudit()
        self._lost_wakes = LostWakes(self.figures, self.scanning.asked)
        self._stuck: dict[Queue, None] = {}  # over their share with nothing to page, until a message comes or a tick
        self._scheduled = False
        self._worked = math.inf  # seconds the loop's thread had computed when the last slice ended that left more to do
        self._exceeded = False  # the budget was, at the end of the last pass that had work
        self._owed = 0.0  # by so many others have computed for longer than paging since there is something to page
        self._warnings = StallWarnings()

    def note(self, queue: Queue) -> None:
        """Look at a queue that a message was put into, with the next window."""
        if self.notes.worth_noting(queue):
            self.notes.queues.add(queue)

    def unstored(self, entry: QueueEntry) -> None:
        """A message was put into a queue, and the log has nothing of it for this queue: no window will be written."""
        queue = as_queue(entry.queue)
        notes = self.notes
        if self.spilling is None or entry.message.size < BODY_BYTES_LEAST:
            return
        if queue.pending_bytes < notes.floor + entry.message.size:
            notes.arrived += entry.message.size
        if not notes.worth_noting(queue):
            return
        if (bodies := self._bodies.get(queue)) is not None:
            bodies.note(entry)
        notes.queues.add(queue)
        if self.pace.note(entry.message.size) or not self.spilling.refusing:  # else a tick looks again: nothing can go
            self._go_on_soon()

    def _changed(self, queue: Queue) -> None:
        """Look at a queue that took bodies back into memory, or had some written."""
        self.notes.queues.add(queue)
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._go_on)

    def window_written(self) -> None:
        """Page what the window made durable, in slices. One that is due comes for it too: no two in one turn."""
        if not self._scheduled and self.run():
            self._go_on_soon()

    def _go_on(self) -> None:
        self._scheduled = False
        self.window_written()

    def run(self) -> bool:
        """Measure the noted queues, and page one slice if the budget requires it. Returns whether there is more to do.

        A queue whose bodies are being written is looked at again when that is done.
        """
        if not self._has_work():
            self._worked, self._owed = math.inf, 0.0
            self.pace.look(self.budget.over, self.spilling)
            return False
        self.store.drop_orphans()
        given_back = self.spilling is not None and self.spilling.reclaim(GIVEN_BACK)
        began = time.thread_time()
        self._owed += max(
            0.0, began - self._worked
        )  # the computing time of others while there was nothing to page is not owed
        looking = self.small.go_on()
        try:
            more = self._page(began) or self._fold(began) or self._fold_held(began) or looking or bool(self._untidy)
        finally:  # else a defect would leave publishers unread
            over = self.budget.over
            self._exceeded = over > 0
            self.pace.look(over, self.spilling)
        if more:
            self._worked = time.thread_time()
            self._owed = max(0.0, self._owed - (self._worked - began))
        else:
            self._worked, self._owed = math.inf, 0.0
        return more or given_back

    def _has_work(self) -> bool:
        """Return whether a pass may find something to do. Most windows of queues that are consumed leave nothing."""
        return bool(
            self.notes.queues
            or self.notes.records
            or self._exceeded
            or self._untidy
            or self._folding
            or self._held
            or self.store.orphans
            or self.small.due
            or (self.spill is not None and self.spill.all)
        )

    def _page(self, began: float) -> bool:
        noted = self.notes.queues
        self.adopt_noted(self._slice_end(began))
        durable = self._log.written_below
        self._try_again([*noted, *self.notes.take_written(durable)])  # these were looked at before they could page
        for queue in noted:
            if self._deep(queue, durable):
                self._rows_out(queue, durable)
        self.budget.measure_arrivals(noted)
        noted.clear()
        if not self.budget.surely_exceeded():
            return self.budget.exceeded()
        left = SLICE
        until = self._slice_end(began)
        largest = self.budget.to_page(without=self._stuck.keys())
        asked = 0
        for queue in largest:
            share = self.budget.share
            while self.budget.exceeded() and self.budget.cost_of(queue) > share and not self._writes(queue):
                moved = self._page_out(queue, durable)
                asked += 1
                self.budget.measure([queue])
                left -= moved * SORTED_WORK if queue.ranker.sorts else moved
                if not moved:
                    self._stuck[queue] = None
                if left <= 0 or time.thread_time() >= until:
                    return self.budget.exceeded()
                if not moved:
                    break
        return asked > 0 and len(largest) == PAGED_AT_ONCE and self.budget.exceeded()  # others may have something

    def _try_again(self, queues: Iterable[Queue]) -> None:
        """Let queues page again that had nothing to."""
        for queue in queues:
            self._stuck.pop(queue, None)

    def adopt_noted(self, until: float = math.inf) -> None:
        """Examine the messages in memory of queues with so many that later it would take long.

        Forget examined messages that have left. Queues not reached ``until`` the loop's thread has computed that long
        have the next turn: arrivals in ten queues at once would otherwise all be examined in one.
        """
        self._untidy.update(dict.fromkeys(self.notes.queues))
        for queue in list(self._untidy):
            del self._untidy[queue]
            if (bodies := self._bodies.get(queue)) is not None:
                worked = bodies.tidy()
                if bodies.untidy:
                    self._untidy[queue] = None
            elif worked := (in_memory(queue) >= ADOPTED_LEAST and self.budget.concerns(queue)):
                self.bodies_of(queue)
            if worked and time.thread_time() >= until:
                return

    def _slice_end(self, began: float) -> float:
        """Return how many seconds the loop's thread will have computed when a slice ends that began at so many."""
        return began + min(max(SLICE_SECONDS, self._owed), OWED_SECONDS)

    def _fold(self, began: float) -> bool:
        """Make rows of returned messages, one slice. Returns whether there is more to do."""
        durable = self._log.written_below
        until = self._slice_end(began)
        while self._folding:
            queue = next(iter(self._folding))
            order = self._paged(queue) if self._foldable(queue, begun=True) else None
            moved = 0 if order is None else order.fold(durable, CHUNK)
            if moved:
                self._paging[queue] = None
                self.budget.measure([queue])
                if time.thread_time() >= until:
                    return True
                continue
            if order is not None:
                self._unfolded[queue] = order.came_back()
            del self._folding[queue]
        return False

    def _fold_held(self, began: float) -> bool:
        """Fold what sessions hold without bodies, one slice. Returns whether there is more to do."""
        until = self._slice_end(began)
        while self._held:
            queue = next(iter(self._held))
            works = self._held[queue]
            while works:
                if not works[-1].step(CHUNK):
                    works.pop()
                if time.thread_time() >= until:
                    return True
            del self._held[queue]
            if (bodies := self._bodies.get(queue)) is not None:
                self._held_left[queue] = bodies.in_delivery - queue.delivering.folded
        return False

    def _foldable(self, queue: Queue, *, begun: bool = False) -> bool:
        """Return whether so many came back whose bodies are on disk that they had better be rows.

        A pass ``begun`` goes on with those whose bodies are in memory: they stand before the others.
        """
        bodies = self._bodies.get(queue)
        if (
            bodies is None or queue.deleted or queue.returns or not queue.pageable()
        ):  # rows being written are checked later
            return False
        back = queue.order.came_back()
        if back < FOLDED_LEAST or (not begun and bodies.count - bodies.in_delivery < FOLDED_LEAST):
            self._unfolded.pop(queue, None)  # later returns are others
            return False
        return abs(back - self._unfolded.get(queue, -CHUNK)) >= CHUNK  # else none could, and they are about the same

    def _deep(self, queue: Queue, durable: int) -> bool:
        """Return whether a queue that messages came to is to keep hardly any of them, whatever the budget has left."""
        order = queue.order
        return order.paged_bytes() > DEEP_SHARES * self.budget.share and order.enough_written(DEEP_LATE, durable)

    def _page_out(self, queue: Queue, durable: int) -> int:
        """Let one slice go, and return of how many entries; 0 when nothing can go.

        Bodies of a begun pass go first, and deliveries since the last one: no consumer waits for those.
        """
        if not self.budget.concerns(queue):
            return 0
        bodies = self.bodies_of(queue)
        if not bodies.passing and bodies.grown < GROWTH_LEAST:
            moved = self._rows_out(queue, durable)
            if moved:
                return moved
        if not bodies.passing:
            bodies.begin(self.budget.excess(queue), self.budget.share // DELIVERY_SHARE)
        looked = bodies.step(durable, CHUNK)
        if not bodies.freed and self.spilling is not None and self.spilling.refusing:
            bodies.end()  # the next pass begins where this one came to
        if bodies.passing or bodies.freed:
            return looked
        return self._rows_out(queue, durable)

    def _writes(self, queue: Queue) -> bool:
        bodies = self._bodies.get(queue)
        return bodies is not None and bodies.writing > 0

    def _rows_out(self, queue: Queue, durable: int) -> int:
        order = self._paged(queue)
        if order is None:
            return 0
        moved = order.page_out(durable, CHUNK)
        if any(pages.items for pages in order.page_parts()):
            self._paging[queue] = None
        return moved

    def rows_of(self, queue: Queue) -> PagedFifo | PagedLevels | None:
        """Return the order of a queue that gets rows back at start, ``None`` when it may have none, or is sorted."""
        order = self._paged(queue)
        if order is None or isinstance(order, PagedSorted):
            return None
        self.bodies_of(queue)  # deliveries of its rows count from the first on
        self._paging[queue] = None
        return order

    def _paged(self, queue: Queue) -> PagedFifo | PagedLevels | PagedSorted | None:
        order = paged_order_of(queue, self._pages_of(queue))
        if order is not None and self.budget.floor < FLOOR_BYTES:  # else it is made so, or was told so
            self.budget.front_of(queue).apply(order)
        return order

    def _bound(self, queue: Queue) -> None:
        """The floor changed: let a queue that has paged keep as much of its next messages as it may now."""
        if (bodies := self._bodies.get(queue)) is not None:
            self._try_again([queue])
            bounds = self.budget.front_of(queue)
            bodies.bound(bounds)
            if queue.stock is not None:
                bounds.apply(queue.stock)

    def bodies_of(self, queue: Queue) -> StoredBodies:
        """Return the bodies of a queue, which may leave memory from now on, bound by the budget of today."""
        bodies = self._bodies.get(queue)
        if bodies is None:
            bodies = self._bodies[queue] = queue.bodies = StoredBodies(queue, self.store)
        if self.budget.floor < FLOOR_BYTES:  # its messages may be of other sizes by now
            bodies.bound(self.budget.front_of(queue))
        return bodies

    def _pages_of(self, queue: Queue) -> StoredQueueArea:
        pages = None if queue.stock is None else queue.stock.whole_area()
        if isinstance(pages, StoredQueueArea):
            return pages
        if queue.ranker.sorts:
            return ChosenRows(queue, self._log, self.figures, self.store.room, self.scanning.ask, self._search)
        wake = self._read_wakes.of(queue)
        return StoredQueueArea(queue, self._log, self.figures, self.store.room, self.scanning.ask, self._search, wake)

    def tick(self, now: int) -> None:
        """Measure queues that shrank, and try the disk again where it refused. ``now``: milliseconds since 1970."""
        self._lost_wakes.begin(self._overdue())
        self._lost_wakes.serve(self._paging, self._bodies, now)
        if self.spilling is not None:
            self.spilling.retry()
        self.small.tick()
        self.budget.measure_some(TENDED)
        paging = in_turn(self._paging, TENDED)
        self.budget.measure(paging)  # nothing arrived, but read messages may be in delivery, or back from there
        self._try_again(list(islice(self._stuck, TENDED_STUCK)))
        for queue in paging:
            parts = [pages for pages in queue.order.page_parts() if isinstance(pages, StoredQueueArea)]
            if queue.deleted or (queue.copies is None and not any(pages.items for pages in parts)):
                del self._paging[queue]
                self._warnings.forget(queue)
                for pages in parts:  # the next rows are others, and would not be requested again
                    pages.retry()
                queue.ask_disk_again(now)
                continue
            if any(pages.stalled for pages in parts):
                self._warnings.refused(queue, now)
                for pages in parts:
                    pages.retry()
                queue.ask_disk_again(now)
            if queue.copies is not None:  # a browser may wait for the disk, also for rows that others have taken since
                self.scanning.ask(queue)
        self.audit.tick(self._bodies)
        self._tend_bodies(now)
        self.window_written()
        self._lost_wakes.end()

    def _overdue(self) -> list[Queue]:
        """Return queues that a slice that is over had to page, where none is due: those with nothing to page aside."""
        if self._scheduled or self.notes.queues:
            return []
        return [queue for queue in self.budget.to_page(without=self._stuck.keys()) if not self._writes(queue)]

    def _tend_bodies(self, now: int) -> None:
        """Forget bodies of deleted queues, end unneeded passes, try the disk again, note the deliveries to fold."""
        exceeded = self.budget.exceeded()
        for queue in in_turn(self._bodies, TENDED):
            bodies = self._bodies[queue]
            if queue.deleted:
                del self._bodies[queue]
                self.audit.forget(queue)
                self._unfolded.pop(queue, None)
                self._held_left.pop(queue, None)
                continue
            if self._foldable(queue):
                self._folding[queue] = None
            objects = bodies.in_delivery - queue.delivering.folded
            left = self._held_left[queue] = min(self._held_left.get(queue, 0), objects)
            if objects - left >= self.held_least and queue not in self._held:  # else they are those looked at before
                sessions = {consumer.session: None for consumer in queue.consumers}
                self._held[queue] = [
                    Compaction(session.unacknowledged) for session in sessions if isinstance(session, Session)
                ]
            if not exceeded:
                bodies.end()
            self._untidy[queue] = None
            if bodies.stalled:
                logger.warning("bodies of a queue cannot be read now", queue=queue.name, remedy="check the disk")
                bodies.retry()
                queue.wake(now)

    async def idle(self) -> None:
        """Return when no body is on its way to the spill store."""
        await self._thread.idle()

    async def close(self) -> None:
        """Stop reading, wait for running writes, and remove the spill store."""
        if self.searching is not None:
            self.searching.close()
        self.scanning.close()  # behind that: waiters for the search process request a turn at its end
        if self.spilling is not None:
            self.spilling.close()
        await self._thread.close()
        if self.spill is not None:
            self.spill.close()
        self.store.close()

    @property
    def drift(self) -> int:
        """Bytes by which the accounts of queues were wrong when last counted anew: 0, or there is a defect."""
        return self.audit.drift

    @property
    def bodies_away(self) -> tuple[int, int]:
        """Entries whose bodies are on disk only, and the bytes of these; rows are not counted."""
        there = self._bodies.values()
        return sum([bodies.count for bodies in there]), sum([bodies.bytes for bodies in there])

    @property
    def held_folded(self) -> int:
        """Messages in delivery that are folded."""
        return sum([queue.delivering.folded for queue in self._bodies])

    @property
    def queues_paging(self) -> int:
        """How many queues had rows at the last look."""
        return len(self._paging)
