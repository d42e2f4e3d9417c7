"""A message on its way into its queues, a part of them at a time: one turn of the loop is too short for very many.

It is stored once, when it is in all of them, so a part must be hidden until then:
:mod:`annulet.core.policies.staged_batches`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.host.publishing import present_ones
from annulet.core.host.send_plan import ROUTED

if TYPE_CHECKING:
    from annulet.core.host.publishing import Publisher
    from annulet.core.host.send_plan import Leg
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue


QUEUES_AT_ONCE_MAX: Final = 1000
"""Queues up to which a message enters all of its queues in one call: some 8 ms of the loop."""


class _Piece:
    """A message with its queues, and its ``entries`` in those before ``place``. A plan's ``leg``, if it has one."""

    __slots__ = ("entries", "leg", "message", "place", "queues")

    def __init__(self, message: Message, queues: list[Queue], leg: Leg | None) -> None:
        self.message = message
        self.queues = queues
        self.leg = leg
        self.place = 0
        self.entries: list[QueueEntry] = []


class Entering:
    """One message with the copies that diverts make of it.

    ``reached`` queues are those it was routed to; a duplicate and what a full address drops count as one. An address
    ``remembers`` an id of it.
    """

    def __init__(self, publisher: Publisher) -> None:
        self.reached = 0
        self.remembers = False
        self._queues = 0
        self._publisher = publisher
        self._pieces: deque[_Piece] = deque()

    @property
    def done(self) -> bool:
        """Return whether it is in all its queues, and stored."""
        return not self._pieces

    @property
    def wide(self) -> bool:
        """Return whether it goes to so many queues that it enters them in several turns."""
        return self._queues > QUEUES_AT_ONCE_MAX

    def add_leg(self, leg: Leg, now: int) -> None:
        """Add a leg of its plan; one that goes to no queue is carried out at once."""
        if leg.fate != ROUTED:
            self.reached += self._publisher.apply([leg], now)
            return
        self.reached += len(leg.queues)
        self._publisher.begin_entering(leg)
        self._add(_Piece(leg.message, leg.queues, leg))

    def add_queues(self, message: Message, queues: list[Queue]) -> None:
        """Add the queues of a route where nothing had to be decided; those that were deleted since get nothing."""
        present = present_ones(queues)
        self.reached += len(present)
        self._add(_Piece(message, present, None))

    def _add(self, piece: _Piece) -> None:
        self._queues += len(piece.queues)
        self._pieces.append(piece)

    def go_on(self, most: int, now: int) -> int:
        """Put it into so many more of its queues. Returns how many these were."""
        left = most
        while self._pieces and left > 0:
            left -= self._enter_some(self._pieces[0], left, now)
        return most - left

    def _enter_some(self, piece: _Piece, most: int, now: int) -> int:
        """Put one message into so many more of its queues; store it when it is in all. Returns how many these were."""
        publisher = self._publisher
        queues = piece.queues[piece.place : piece.place + most]
        for queue in queues:
            entry = publisher.enqueue_one(piece.message, queue, now)
            if entry is not None:
                piece.entries.append(entry)
            piece.place += 1
        if piece.place == len(piece.queues):
            publisher.store_entered(piece.message, piece.entries)
            self._pieces.popleft()
            if piece.leg is not None:
                self.remembers = self.remembers or bool(piece.leg.duplicate_id)
                publisher.end_entering(piece.leg)
        return len(queues)

    def give_up(self) -> None:
        """Let addresses count no queue that it will not reach."""
        for piece in self._pieces:
            for queue in piece.queues[piece.place :]:
                self._publisher.accounts.missed(queue, piece.message)
        self._pieces.clear()
