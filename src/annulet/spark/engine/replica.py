"""One queue of the engine: commands in, rows of effects out, by the broker's own core on a virtual time.

This module is independent of batches, Spark and clocks. The queue's time is the latest of its commands' times, and due
events are processed at their own times before the command: so the effects of a command depend only on the commands
before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.core.base.errors import CoreError
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.sessions.session import UnknownDeliveryTag
from annulet.spark.due_times import due_times
from annulet.spark.engine.actions import ACTIONS
from annulet.spark.engine.commands import Command, CommandRefused
from annulet.spark.engine.effects import DONE, OUTCOME, REFUSED, Effect, EngineLosses, EngineSession, Output

if TYPE_CHECKING:
    from annulet.core.configuration.address_settings import ResolvedQueue
    from annulet.core.host.duplicate_ids import DuplicateCache
    from annulet.core.queue.queue import Queue
    from annulet.selector.selector import Selector

LEDGER_MAX: Final = 1 << 30
"""Losses of one command, every one of which becomes a row: no bound but memory."""


class Replica:
    """A queue by name, whether it exists or not: it remembers which commands it has seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.latest = -(1 << 62)  # sequence of the latest command
        self.now = 0  # milliseconds since 1970
        self.queue: Queue | None = None
        self.resolved: ResolvedQueue | None = None
        self.filter: Selector | None = None
        self.sessions: dict[str, EngineSession] = {}
        self.duplicates: DuplicateCache | None = None
        self.output = Output()

    @property
    def next_due_at(self) -> int:
        """Time of the queue's next own event, milliseconds since 1970; 0 for never."""
        return 0 if self.queue is None else self.queue.next_due_at()

    def apply(self, command: Command, body: bytes) -> list[Effect]:
        """Carry out a command whose sequence is above :attr:`latest`; return its effects, the outcome last."""
        self.latest = command.sequence
        self.advance(command.at)
        if command.queue is not None:  # otherwise time advances for all queues, which is not an outcome of one
            state, reason = DONE, None
            values: dict[str, Any] = {}
            try:
                values = ACTIONS[command.command](self, command, body)
                state, reason = values.pop("state", DONE), values.pop("reason", None)
            except (CommandRefused, CoreError) as error:
                state, reason = REFUSED, str(error)
            except UnknownDeliveryTag as error:
                held = f"session {command.session!r} holds no such delivery"
                state, reason = REFUSED, f"field 'tag' is {error.tag}: {held}; settle each delivery once"
            self.output.add(OUTCOME, state=state, reason=reason, **_named(command), **values)
        return self.numbered(command.sequence)

    def advance(self, at: int) -> None:
        """Advance the time to ``at``, and process due events of the queue, each at its time."""
        if self.queue is not None:
            for due in due_times(self.queue, at):
                self.now = self.output.now = max(self.now, due)
                self.queue.tick(self.now)
        self.now = self.output.now = max(self.now, at)

    def numbered(self, sequence: int) -> list[Effect]:
        """Return the collected effects of a command."""
        rows = self.output.take()
        for number, row in enumerate(rows):
            row.queue, row.sequence, row.number = self.name, sequence, number
        if self.queue is not None and self.queue.ledger.total:
            self.queue.ledger = self.ledger()  # its records are rows now
        return rows

    # ------------------------------------------------------------------ for actions

    def ledger(self) -> LossLedger:
        """Return an empty ledger, whose records become rows."""
        ledger = LossLedger(LEDGER_MAX)
        ledger.listeners.append(EngineLosses(self.output))
        return ledger

    def existing(self) -> Queue:
        """Return the queue. Raises :class:`CommandRefused` when there is none."""
        if self.queue is None:
            raise CommandRefused(f"field 'queue' is {self.name!r}: there is no such queue; configure it first")
        return self.queue

    def session(self, name: str) -> EngineSession:
        """Return an open session. Raises :class:`CommandRefused` when it is not."""
        session = self.sessions.get(name)
        if session is None:
            raise CommandRefused(f"field 'session' is {name!r}: it is not open at queue {self.name!r}; consume first")
        return session

    def opened(self, name: str) -> EngineSession:
        """Return a session, opened if need be."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = EngineSession(name, self.output)
        return session


def _named(command: Command) -> dict[str, str | None]:
    return {
        "session": command.session or None,
        "consumer": command.consumer or None,
        "message_id": command.message_id or None,
    }
