"""Deleted queues whose letters are still on their way: log and catalogue forget a queue after its last letter.

A deleted queue is gone for all clients at once, and its name is free. Its records stay until each dead letter that
left it before is stored in its targets, in the slices of :mod:`annulet.core.host.dead_letters`: a crash in between
brings the queue back with all that was not sent, and the deletion is answered after it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.host.letter_outbox import Outbox
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.queue import Queue


class Departure(SlicedWork):
    """The end of one deleted queue, in a turn of its own: its last letter may be sent in the middle of other work.

    ``letters`` of it are not sent; some of these may be in the ``boxes`` of transactions that are not over. There may
    be more while deliveries are ``settling`` that were settled before the deletion.
    """

    def __init__(self, departures: Departures, queue: Queue, letters: int, boxes: list[Outbox]) -> None:
        super().__init__()
        self.queue = queue
        self.letters = letters
        self.boxes = boxes
        self.settling = False
        self.waiting: list[Callable[[bool], None]] = []
        self._departures = departures

    @property
    def over(self) -> bool:
        """Return whether nothing of it is on its way any more."""
        return not self.settling and not self.letters and not self.boxes

    def step(self, now: int) -> bool:
        """Have the queue forgotten, and answer."""
        del now
        self._departures.end(self)
        self._tell(well=True)
        return False

    def abandon(self, now: int) -> None:
        """A defect has met the end: the queue may come back with the next start."""
        del now
        self._tell(well=False)

    def _tell(self, *, well: bool) -> None:
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(well)


class Departures:
    """Those of one virtual host."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self._under_way: dict[QueueState, Departure] = {}
        self._names: dict[str, Queue] = {}  # of these, by the names that no later queue has taken

    @property
    def count(self) -> int:
        """How many deleted queues are not forgotten yet."""
        return len(self._under_way)

    def begin(self, queue: Queue) -> None:
        """Have a deleted queue forgotten: now, or after its last letter."""
        letters, boxes = self._host.dead_letters.left_of(queue)
        departure = Departure(self, queue, letters, boxes)
        departure.settling = queue.when_settled(partial(self._settled, departure))
        if departure.over:
            self._host.effects.queue_deleted(queue)
            return
        self._under_way[queue] = departure
        self._names[queue.name] = queue

    def _settled(self, departure: Departure) -> None:
        """Its letters are all on their way."""
        departure.settling = False
        departure.letters, departure.boxes = self._host.dead_letters.left_of(departure.queue)
        self._go_on(departure)

    def when_gone(self, queue: Queue, done: Callable[[bool], None]) -> bool:
        """Call ``done`` when a deleted queue is forgotten; with ``False`` after a defect. False if it is already."""
        departure = self._under_way.get(queue)
        if departure is None:
            return False
        departure.waiting.append(done)
        return True

    def free_name(self, name: str) -> None:
        """A new queue is about to take the name of one that is not forgotten yet. Raises what the effects raise."""
        queue = self._names.get(name)
        if queue is not None:
            self._host.effects.name_taken(queue)
            del self._names[name]

    def letter_sent(self, queue: QueueState) -> None:
        """A letter is sent and settled, or will never be sent."""
        departure = self._under_way.get(queue)
        if departure is not None:
            departure.letters -= 1
            self._go_on(departure)

    def box_closed(self, box: Outbox) -> None:
        """A transaction is over: the letters that were sent in it are stored."""
        for departure in list(self._under_way.values()):
            if box in departure.boxes:
                departure.boxes.remove(box)
                self._go_on(departure)

    def _go_on(self, departure: Departure) -> None:
        if departure.over:
            self._host.effects.later(departure, self._host.latest)

    def end(self, departure: Departure) -> None:
        """Forget the queue."""
        queue = departure.queue
        del self._under_way[queue]
        if self._names.get(queue.name) is queue:
            del self._names[queue.name]
        self._host.effects.queue_deleted(queue)
