"""An operation on the messages of a queue, and its preview: in slices, with progress, and audited at its end."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from annulet.core.base.settings import UNLIMITED
from annulet.core.management.actions import (
    BODY_TOO_LONG,
    DAMAGED,
    IN_DELIVERY,
    NOT_THERE,
    SCHEDULED_ALREADY,
    UNREADABLE,
)
from annulet.core.management.conditions import BodyTooLong
from annulet.core.model.audit_trail import AuditEntry
from annulet.core.model.compact_messages import entry_in
from annulet.core.model.entry import DELIVERING, SCHEDULED, STATE_NAMES
from annulet.core.queue.deep_queue_scan import scan_of
from annulet.core.queue.queue_scan import Scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.management.actions import Action
    from annulet.core.management.selection import Selection
    from annulet.core.model.entry import QueueEntry

SLICE_MESSAGES: Final = 200
"""Messages one slice examines: a few milliseconds."""

SLICE_BYTES: Final = 4 * 1024 * 1024
"""Body bytes one slice copies; one message always goes."""

REPORTED_IDS_MAX: Final = 100_000
"""Ids an operation reports, 1.6 MB; the counts stay exact beyond it."""

REFUSED_MILLISECONDS: Final = 10_000
"""How long the disk may refuse the next messages before an operation stops, as long as a queue waits for its rows."""

DISK_REFUSES: Final = "the disk does not give the next messages; check it, and run the operation again for the rest"

SAMPLE_MAX: Final = 20
"""Default number of messages in a preview."""

RUNNING: Final = "running"
FINISHED: Final = "finished"
CANCELLED: Final = "cancelled"
STOPPED: Final = "stopped"


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an operation. ``matched`` = ``done`` + ``skipped`` without missing ids."""

    state: str  # running, finished, cancelled, or stopped because of ``reason``
    reason: str  # why it stopped; empty otherwise
    total: int  # messages in the snapshot it walks over
    seen: int  # of them, examined
    matched: int  # of these, selected
    done: int
    skipped: dict[str, int]  # selected but passed over, by reason
    started_at: int  # milliseconds since 1970
    ended_at: int  # 0 while it runs


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """One message of a preview. Times are milliseconds since 1970, 0 for none; ``size`` is body bytes."""

    id: int
    state: str
    size: int
    priority: int
    accepted_at: int
    expires_at: int
    due_at: int
    delivery_count: int
    publisher: str
    obstacle: str  # why the operation would pass it over; empty when it would not


class Work:
    """Work in slices: processes the selected messages of a queue.

    ``leading`` of 0 or more: only about this many of the first pending ones.
    """

    def __init__(self, action: Action, selection: Selection, leading: int = -1) -> None:
        self.seen = 0
        self.matched = 0
        self.skipped: dict[str, int] = {}
        self._begin(action, selection, leading)

    def _begin(self, action: Action, selection: Selection, leading: int = -1) -> None:
        """Begin to walk over the queue of an action."""
        queue = action.queue
        scheduled = action.scheduled or selection.scheduled or selection.ids is not None
        pending = action.pending or selection.ids is not None
        self.action = action
        self.selection = selection
        self._scheduled = scheduled
        if pending and leading >= 0:
            self._scan = Scan(queue, pending=True, scheduled=scheduled, leading=leading)
        else:
            self._scan = scan_of(
                queue, pending=pending, scheduled=scheduled, chosen=selection.ids, reader="a management operation"
            )
        slots = queue.delivering.slots() if action.delivering else []
        self._delivering = map(entry_in, slots)  # those in delivery at the start, after all others
        self._delivering_count = len(slots)
        self._refused_since = 0  # the disk has not given the next messages since then
        self._missing = set(selection.ids or ())  # ids not met yet

    @property
    def total(self) -> int:
        """How many messages there were at the start."""
        return self._scan.size + self._delivering_count

    @property
    def waiting(self) -> bool:
        """Return whether it has nothing to do until the disk gives more."""
        return self._scan.waiting

    def _release(self) -> None:
        """Keep no messages any more."""
        self._scan.release()
        self._delivering = map(entry_in, [])

    def _ready(self, looks: int, now: int) -> bool:
        """Let the scan prepare a slice. Returns whether there is something to process; retries later if not."""
        scan = self._scan
        ready = scan.prepare(looks)
        self.seen += scan.gone
        scan.gone = 0
        if scan.damaged:
            self.matched += len(scan.damaged)
            self._skip(DAMAGED, len(scan.damaged))
            self._missing.difference_update(scan.damaged)
            scan.damaged.clear()
        self._refused_since = (self._refused_since or now) if scan.waiting else 0
        if scan.waiting and now - self._refused_since >= REFUSED_MILLISECONDS:
            self._give_up(now)
        return ready

    def _give_up(self, now: int) -> None:
        """End without the messages that the disk refuses to read."""
        raise NotImplementedError

    @property
    def _all_met(self) -> bool:
        """Every id that was named has been met."""
        return self.selection.ids is not None and not self._missing

    def _next(self) -> QueueEntry | None:
        """Return the next entry to process, ``None`` if there are no more or all ids were found."""
        if self._all_met:
            return None
        entry = self._scan.following() or next(self._delivering, None)
        if entry is not None:
            self.seen += 1
        return entry

    def _meant(self, entry: QueueEntry) -> QueueEntry | None:
        """Return the queue's own entry if it is still there and selected. One with unreadable properties is not."""
        shown = entry if not self.selection.per_delivery else self._scan.own(entry)
        own: QueueEntry | None = None
        try:
            if shown is not None and self.selection.matches(shown):
                own = self._scan.own(entry)
        except BodyTooLong:
            self._pass_over(entry, BODY_TOO_LONG)
            return None
        except Exception:  # noqa: BLE001 - views raise errors of rooms the core does not know
            self._pass_over(entry, UNREADABLE)
            return None
        if own is not None:
            self._missing.discard(own.sequence)
            self.matched += 1
        return own

    def _pass_over(self, entry: QueueEntry, reason: str) -> None:
        """Count an entry that may be meant."""
        if self._scan.own(entry) is not None:
            self._skip(reason)
            self.matched += 1

    def _obstacle(self, entry: QueueEntry, now: int) -> str:
        """Return why a selected entry cannot be touched."""
        if entry.state == DELIVERING and not self.action.delivering:
            return IN_DELIVERY
        if entry.state == SCHEDULED and not self._scheduled:
            return SCHEDULED_ALREADY
        try:
            return self.action.obstacle(entry, now)
        except Exception:  # noqa: BLE001 - views raise errors of rooms the core does not know
            return UNREADABLE

    def _skip(self, reason: str, count: int = 1) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + count

    def _account_for_missing(self) -> None:
        """Report for ids that were not found whether they are in delivery or missing."""
        if not self._missing:
            return
        for sequence in [sequence for sequence in self._missing if self.action.queue.delivering.get(sequence)]:
            self._missing.discard(sequence)
            self.matched += 1
            self._skip(IN_DELIVERY)
        if self._missing:
            self._skip(NOT_THERE, len(self._missing))
            self._missing.clear()


@dataclass(slots=True)
class PreviewResult:
    """The expected effect of an operation, without any change."""

    count: int = 0  # messages it would change; destinations that fill up on the way are not foreseen
    bytes: int = 0  # their body bytes
    kept: int = 0  # of these, how many an undo would bring back; 0 unless it was asked for
    matched: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    refusal: str = ""  # why it would stop at once; empty when it would not
    sample: list[MessageFacts] = field(default_factory=list)


class Preview(Work):
    """Counts the messages of an operation and shows the first few.

    ``keeps`` is asked for each message that would be changed, whether an undo would bring it back.
    """

    def __init__(
        self,
        action: Action,
        selection: Selection,
        *,
        sample_max: int = SAMPLE_MAX,
        leading: int = -1,
        keeps: Callable[[QueueEntry], bool] | None = None,
    ) -> None:
        super().__init__(action, selection, leading)
        self._keeps = keeps
        self.result = PreviewResult()
        self.ended = False
        self._sample_max = sample_max

    def step(self, now: int, budget_messages: int = SLICE_MESSAGES) -> bool:
        """Process one slice. Returns whether :attr:`result` is complete."""
        if self.ended or not self._ready(budget_messages, now):
            return self.ended
        self.selection.begin_slice()
        for _ in range(budget_messages):
            if self.selection.used_up:
                break
            if self._scan.used_up and not self._all_met:
                break
            entry = self._next()
            if entry is None:
                self._end()
                break
            own = self._meant(entry)
            if own is not None:
                self._note(own, now)
        return self.ended

    def cancel(self, now: int) -> None:
        """Stop; the counts so far are in :attr:`result`."""
        del now
        if not self.ended:
            self._end()

    def _note(self, entry: QueueEntry, now: int) -> None:
        result = self.result
        obstacle = self._obstacle(entry, now)
        if obstacle:
            self._skip(obstacle)
        elif self.selection.limit == UNLIMITED or result.count < self.selection.limit:
            if result.count == 0:
                result.refusal = self.action.refusal(entry, now)
            result.count += 1
            result.bytes += entry.message.size
            if self._keeps is not None and self._keeps(entry):
                result.kept += 1
        if len(result.sample) < self._sample_max:
            result.sample.append(facts_of(entry, obstacle))

    def _give_up(self, now: int) -> None:
        del now
        self.result.refusal = DISK_REFUSES
        self._end()

    def _end(self) -> None:
        self._account_for_missing()
        self._release()
        self.result.matched = self.matched
        self.result.skipped = self.skipped
        self.ended = True


class Operation(Work):
    """Does one action to the selected messages that were in the queue when it was made."""

    def __init__(
        self, host: VirtualHost, action: Action, selection: Selection, *, user: str, now: int, leading: int = -1
    ) -> None:
        super().__init__(action, selection, leading)
        self.host = host
        self.user = user
        self.target = action.queue.name  # the queue that it is an operation on
        self.done = 0
        self.rate = 0  # messages a second at most; 0: as fast as slices allow
        self._done_max = -1  # messages that may be done in this slice, counted from the start; -1: any number
        self._paced = False  # the rate allows none now
        self.state = RUNNING
        self.reason = ""
        self.started_at = now
        self.ended_at = 0
        self.ids = array("q")  # of the messages it changed, the first REPORTED_IDS_MAX
        self.new_ids = array("q")  # of the results; 0 for none

    @property
    def ended(self) -> bool:
        """Return whether there is nothing left to do."""
        return self.state != RUNNING

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            state=self.state,
            reason=self.reason,
            total=self.total,
            seen=self.seen,
            matched=self.matched,
            done=self.done,
            skipped=dict(self.skipped),
            started_at=self.started_at,
            ended_at=self.ended_at,
        )

    def preview(self, *, sample_max: int = SAMPLE_MAX, keeps: Callable[[QueueEntry], bool] | None = None) -> Preview:
        """Return a preview of the same action and selection, for the present messages."""
        return Preview(self.action, self.selection, sample_max=sample_max, keeps=keeps)

    def step(self, now: int, budget_messages: int = SLICE_MESSAGES, budget_bytes: int = SLICE_BYTES) -> bool:
        """Do one slice, bounded in messages and copied body bytes. Returns whether the operation has ended."""
        if self.ended:
            return True
        if self.is_gone(self.action):
            self._end(STOPPED, now, f"queue '{self.action.queue.name}' was deleted")
            return True
        if self._pace(now):
            return False
        self.action.queue.tick(now)  # expired messages are not there any more
        if self._ready(budget_messages, now):
            self._do(budget_messages, budget_bytes, now)
        if self.action.keeper is not None:
            self.action.keeper.end_slice(now)
        return self.state != RUNNING

    @property
    def waiting(self) -> bool:
        """Return whether it has nothing to do until the disk gives more, or the rate allows more."""
        return self._paced or super().waiting

    @staticmethod
    def is_gone(action: Action) -> bool:
        """Return whether the queue of an action was deleted."""
        return action.queue.deleted

    def _pace(self, now: int) -> bool:
        """Find how many messages may be done in this slice. Returns whether it is none, because of the rate."""
        if self.rate:
            self._done_max = (now - self.started_at) * self.rate // 1000 + 1
            self._paced = self.done >= self._done_max
        return self._paced

    def cancel(self, now: int) -> None:
        """Stop. Changes stay."""
        if not self.ended:
            self._end(CANCELLED, now)

    def _give_up(self, now: int) -> None:
        self._end(STOPPED, now, DISK_REFUSES)

    def _do(self, looks: int, octets: int, now: int) -> None:
        """Process this many entries, or until this many body bytes were copied."""
        copied = 0
        self.selection.begin_slice()
        for _ in range(looks):
            if self.selection.used_up or self.done == self._done_max:
                return
            enough = self.done == self.selection.limit
            if self._scan.used_up and not enough and not self._all_met:
                return
            entry = None if enough else self._next()
            if entry is None:
                if not enough:
                    self._account_for_missing()
                self._end(FINISHED, now)
                return
            own = self._meant(entry)
            if own is not None:
                copied += self._touch(own, now)
            if copied >= octets or self.state != RUNNING:
                return

    def _touch(self, entry: QueueEntry, now: int) -> int:
        """Do it to one selected entry, or say why not. Returns the body bytes copied."""
        obstacle = self._obstacle(entry, now)
        if obstacle:
            self._skip(obstacle)
            return 0
        try:
            refusal = self.action.refusal(entry, now)
            if refusal:
                self.matched -= 1  # it was examined and is left for a later operation
                self._end(STOPPED, now, refusal)
                return 0
            size = self.action.cost(entry)
            if not self.action.keep:
                self._scan.claim(entry)
            new_id = self.action.carry_out(entry, now)
        except Exception as error:  # noqa: BLE001 - effects and views raise errors of rooms the core does not know
            self.matched -= 1
            self._end(STOPPED, now, f"message {entry.sequence}: {error}")
            return 0
        self.done += 1
        if len(self.ids) < REPORTED_IDS_MAX:
            self.ids.append(entry.sequence)
            self.new_ids.append(new_id)
        return size

    def _end(self, state: str, now: int, reason: str = "") -> None:
        self._release()  # an operation is kept after its end, its deleted messages must not be
        self.state = state
        self.reason = reason
        self.ended_at = now
        action = self.action
        self.host.effects.audited(
            AuditEntry(
                at=now,
                virtual_host=self.host.name,
                user=self.user,
                operation=action.name,
                target=self.target,
                arguments=", ".join(part for part in (str(self.selection), action.arguments) if part),
                count=self.done,
                duration=now - self.started_at,
                outcome=self._outcome(),
            )
        )

    def _outcome(self) -> str:
        parts = [f"{self.state}: {self.reason}" if self.reason else self.state, f"{self.matched} matched"]
        parts.extend(f"{count} {reason}" for reason, count in self.skipped.items())
        keeper = self.action.keeper
        if keeper is not None and keeper.kept + keeper.unkept:
            parts.append(str(keeper))
        return "; ".join(parts)


def facts_of(entry: QueueEntry, obstacle: str = "") -> MessageFacts:
    """Return the data of one message for a preview."""
    message = entry.message
    return MessageFacts(
        id=entry.sequence,
        state=STATE_NAMES[entry.state],
        size=message.size,
        priority=message.priority,
        accepted_at=message.accepted_at,
        expires_at=entry.queue.expires_at(entry),
        due_at=entry.queue.due_at(entry),
        delivery_count=entry.delivery_count,
        publisher=message.origin.publisher,
        obstacle=obstacle,
    )
