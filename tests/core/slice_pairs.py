"""A queue whose work takes many turns beside one that has it done at once: what histories of both have in common."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from annulet.core.model.entry import QueueEntry
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, queue_of


class SlicedPair:
    """The first of ``queues`` works in slices, which ``effects`` keeps. A subclass says which actions there are."""

    actions: list[Callable[[], None]]

    def __init__(self, settings: dict[str, Any], chance: random.Random) -> None:
        self.chance = chance
        self.effects = SlicingEffects()
        self.queues = [queue_of(self.effects, **settings), queue_of(**settings)]
        self.held: list[list[list[QueueEntry]]] = [[], []]
        self.sessions: list[RecordingSession] = []
        self.now = NOW
        self.number = 0

    def step(self) -> None:
        self.chance.choice(self.actions)()
        for queue in self.queues:
            check_invariants(queue)

    def take_some(self, most: int) -> None:
        count = self.chance.randint(1, most)
        self.effects.turns(self.now)  # a pull waits for them
        taken = [queue.acquire(count, -1, self.now) for queue in self.queues]
        assert [entry.sequence for entry in taken[0]] == [entry.sequence for entry in taken[1]]
        for held, entries in zip(self.held, taken, strict=True):
            held.append(entries)

    def effects_turn(self) -> None:
        self.effects.turn(self.now)

    def consume(self) -> None:
        if not self.sessions:
            self.sessions = [RecordingSession() for _ in self.queues]
            for queue, session in zip(self.queues, self.sessions, strict=True):
                session.consume(queue, messages=2, now=self.now)

    def die(self) -> None:
        self.effects.turns(self.now)
        if self.sessions:
            assert self.sessions[0].received == self.sessions[1].received
        for session in self.sessions:
            session.close(self.now)
        self.sessions = []

    def end(self) -> None:
        """Do all that is left, and compare everything that can be seen."""
        self.effects.turns(self.now)
        states = [
            (
                [(entry.sequence, entry.delivery_count, entry.redelivered) for entry in queue.order.entries()],
                sorted(entry.sequence for entry in queue.delivering),
                queue.counters.as_dict(),
                sorted((loss.sequence, loss.reason) for loss in queue.ledger.query()),
            )
            for queue in self.queues
        ]
        assert states[0] == states[1]
