"""A queue as lower rooms see it: its declared state, and the few calls they make.

Entries, effects, orders, pages and policies know their queue as a :class:`QueueState` and no more. The fields are of
types of this room and below; :class:`annulet.core.policies.queue_policies.QueuePolicies` adds the policies,
:class:`annulet.core.queue.entries.QueueEntries` the moves of entries, and :class:`annulet.core.queue.queue.Queue` the
commands. Each call below is implemented by one of these: the class itself is never created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import REMOVED
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.model.queue_counters import QueueCounters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import CompactDelivery, Slot
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.effects import Effects
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.events import QueueEvents
    from annulet.core.model.order import Order, OrderView
    from annulet.core.model.queue_bodies import QueueBodies
    from annulet.core.model.queue_listeners import AddressListener, ReaderLists, SettlementWork

HIDES_NOTHING: Final = 1 << 61
"""The sequence from which a queue hides on when it hides nothing: above all there will be."""


class QueueState:
    """The fields of one queue that lower rooms and effects read, and their calls.

    Sizes are body bytes, times milliseconds since 1970, sequences those of entries.
    """

    def __init__(  # noqa: PLR0913 - what a queue is made of
        self,
        name: str,
        settings: QueueSettings,
        effects: Effects,
        order: Order,
        *,
        ledger: LossLedger | None,
        durable: bool,
        auto_delete: bool,
        queue_id: int,
        forwarder: Forwarder | None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.effects = effects
        self.ledger = LossLedger() if ledger is None else ledger
        self.forwarder = Forwarder() if forwarder is None else forwarder
        self.durable, self.auto_delete = durable, auto_delete
        self.queue_id = queue_id  # the catalogue's id; 0 for queues that are not durable
        self.order = order  # the pending entries
        self.counters = QueueCounters()
        self.events: QueueEvents | None = None  # listener of each message's events
        self.bodies: QueueBodies | None = None  # which entries do without their bodies; None: none ever did
        self.accounts: AddressListener | None = None  # notified of removals, if addresses have limits
        self.pending_bytes = self.delivering_bytes = 0
        self.leaving = self.leaving_bytes = 0  # messages it was emptied of that are still in memory, and their bodies
        self.next_sequence = 1
        self.hidden_from = HIDES_NOTHING  # the first sequence of the invisible part
        self.settling: list[SettlementWork] = []  # deliveries that commands have settled and whose turn has not come
        self.pins: list[int] = []  # entries up to these sequences are referenced, see core.model.entry_holds
        self.unsent: list[int] = []  # records of removed messages whose copy could not be stored: the next start's
        self.deleted = self.paused = self.turn_asked = False  # turn: of ``Queue.scan``
        self.blocked = False  # publishers are blocked
        self.halted = False  # dispatch waits
        self.ages = False  # messages without their own time may expire here

    # ------------------------------------------------------------------ facts

    @property
    def pinned_upto(self) -> int:
        """The highest held sequence, 0 without holds. O(holds)."""
        return max(self.pins) if self.pins else 0

    @property
    def visible_end(self) -> int:
        """The sequence below which all visible messages are: of the next arrival, or of the first hidden one."""
        return min(self.next_sequence, self.hidden_from)

    def level_of(self, message: Message) -> int:
        """Return a message's priority level; 0 where all messages are equally important."""
        raise NotImplementedError

    def expires_at(self, entry: QueueEntry) -> int:
        """When an entry expires: the message's time and the queue's bounds put together; 0 for never."""
        raise NotImplementedError

    def due_at(self, entry: QueueEntry) -> int:
        """When a scheduled entry falls due; 0 when it is not scheduled."""
        raise NotImplementedError

    def is_group_first(self, entry: QueueEntry) -> bool:
        """Return whether a delivered message is the first of its group since the group was assigned."""
        raise NotImplementedError

    @property
    def rejection_reason(self) -> RemovalReason:
        """Why a message leaves that its consumers refuse for good."""
        raise NotImplementedError

    def lacks_room(self, count: int, size: int) -> bool:
        """Return whether ring or limits would drop messages for this size, or hold publishers back for expired ones."""
        raise NotImplementedError

    def may_compact(self) -> bool:
        """Return whether only the tables of queue and session know of messages in delivery: these may be compacted."""
        raise NotImplementedError

    def needs_object(self, entry: QueueEntry) -> bool:
        """Return whether an account, a reader or a lane refers to a pending entry, which is no row therefore."""
        raise NotImplementedError

    def returned_may_move(self) -> bool:
        """Return whether returned entries may become rows: without lanes, and while no return in slices knows any."""
        raise NotImplementedError

    def reader_lists(self) -> ReaderLists | None:
        """Return the lists of those that read without taking; ``None`` when there are none."""
        raise NotImplementedError

    def kept_records(self) -> list[int]:
        """Return the records of messages that an emptied queue keeps: in delivery, hidden, or waiting to be sent on."""
        raise NotImplementedError

    # ------------------------------------------------------------------ changes of these fields

    def take_sequence(self) -> int:
        """Return the sequence of a message that takes the place of another one, and use it up."""
        sequence = self.next_sequence
        self.next_sequence += 1
        return sequence

    def continue_from(self, sequence: int) -> None:
        """Let arrivals have this sequence or a higher one."""
        self.next_sequence = max(self.next_sequence, sequence)

    def count_pending(self, size: int) -> None:
        """Count body bytes that became pending, or with a minus sign are pending no more."""
        self.pending_bytes += size

    def count_delivering(self, size: int) -> None:
        """Count body bytes that went into delivery, or with a minus sign came out of it."""
        self.delivering_bytes += size

    def use_order(self, order: Order) -> None:
        """Have another order, which has the same entries."""
        self.order = order

    def use_settings(self, settings: QueueSettings) -> None:
        """Have other settings; what was made from the former ones is made anew by the classes that have it."""
        self.settings = settings

    def note_deleted(self) -> None:
        """Note that the queue is deleted: references to it may stay, and its entries go."""
        self.deleted = True

    def note_paused(self, *, paused: bool) -> None:
        """Note whether an operator has stopped dispatch."""
        self.paused = paused

    def note_halted(self, *, halted: bool) -> None:
        """Note whether dispatch waits, for whatever reason."""
        self.halted = halted

    def block_publishers(self, *, blocked: bool) -> None:
        """Tell publishers whether they have to wait, where that changed."""
        if blocked is not self.blocked:
            self.blocked = blocked
            self.effects.publishers_blocked(self)

    def note_turn(self, *, asked: bool) -> None:
        """Note that a turn of :meth:`scan` was requested, or has come."""
        self.turn_asked = asked

    # ------------------------------------------------------------------ dispatch

    def wake(self, now: int) -> None:
        """Serve consumers after credit or room in their connection came back, or deliveries were settled."""
        raise NotImplementedError

    def scan(self, now: int) -> bool:
        """Look at a few messages of a deep backlog for those that search it. Returns whether there is more to do."""
        raise NotImplementedError

    def dispatch(self, now: int) -> None:
        """Hand messages to consumers until one side runs out."""
        raise NotImplementedError

    def update_gate(self, now: int) -> None:
        """Find out again whether dispatch may go on."""
        raise NotImplementedError

    def finish(self, now: int) -> None:
        """End a public call: tell publishers whether they may go on, send the messages to forward."""
        raise NotImplementedError

    # ------------------------------------------------------------------ consumers and settlement

    def add_consumer(self, consumer: Consumer, now: int) -> None:
        """Attach a consumer and serve it."""
        raise NotImplementedError

    def remove_consumer(self, consumer: Consumer, now: int, *, serve: bool = True) -> None:
        """Detach a consumer. Its deliveries stay with its session (AMQP 0-9-1 §1.8.3.5)."""
        raise NotImplementedError

    def end_consumer(self, consumer: Consumer, now: int, *, serve: bool = True) -> None:
        """Cancel a consumer from this side: a browser that has seen everything, or for its ``ended_for``."""
        raise NotImplementedError

    def outranks(self, consumer: Consumer) -> bool:
        """Return whether a consumer comes before others of its queue by priority."""
        raise NotImplementedError

    def acknowledge(self, entry: QueueEntry) -> None:
        """A delivered message was processed: it is gone. A no-op when the queue was deleted meanwhile."""
        raise NotImplementedError

    def reject(self, entry: QueueEntry, now: int) -> None:
        """A delivered message was refused without requeue: to the dead-letter target if there is one, else dropped."""
        raise NotImplementedError

    # ------------------------------------------------------------------ moves of entries

    def compact_delivery(self, entry: QueueEntry, held: CompactDelivery) -> None:
        """Replace a message in delivery by its compact form."""
        raise NotImplementedError

    def expand_delivery(self, entry: QueueEntry) -> None:
        """Replace the compact form of a message in delivery by its entry."""
        raise NotImplementedError

    def index_expiry(self, entry: QueueEntry) -> None:
        """Index an entry's expiry unless it is indexed already; one delivered on arrival never was."""
        raise NotImplementedError

    def index_all(self, entries: list[QueueEntry]) -> None:
        """Index entries that were rows, or among them, and may expire."""
        ages = self.ages
        for entry in entries:
            if entry.state != REMOVED and (ages or entry.message.expires_at):
                self.index_expiry(entry)

    def leave_expiry(self, entry: QueueEntry) -> None:
        """Remove an entry that left early, or became a row, from the index of expiry, if present."""
        raise NotImplementedError

    def remove_pending(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Take an entry out of the order wherever it is, and finish it."""
        raise NotImplementedError

    def remove_waiting(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Remove an entry that is pending or scheduled; one in delivery stays with its consumer."""
        raise NotImplementedError

    def finish_removal(self, entry: QueueEntry, reason: RemovalReason, now: int, replaced_by: int) -> None:
        """Count, record, forward and settle an entry that was removed from its collection."""
        raise NotImplementedError

    def withdraw(self, entry: QueueEntry) -> None:
        """Remove a pending entry without a trace: another one replaces it."""
        raise NotImplementedError

    def take_back(self, entry: QueueEntry, now: int) -> None:
        """Remove a hidden entry without a trace: its batch could not be committed."""
        raise NotImplementedError

    def settle_record(self, entry: QueueEntry) -> None:
        """Settle the record of a removed entry whose copy is stored (called by the forwarder)."""
        raise NotImplementedError

    def note_unreadable(self, messages: int, size: int) -> None:
        """Count messages that left the order because their records are damaged, and body bytes found to be theirs."""
        raise NotImplementedError

    def show(self, entry: QueueEntry, upcoming: OrderView) -> int:
        """Have the body of an entry at hand for a reader that does not take it, with the next ones it will see."""
        raise NotImplementedError

    def return_entries(
        self, entries: Iterable[Slot], now: int, *, counted: bool = True, exclude: Consumer | None = None
    ) -> None:
        """The one return path: requeue, recover, rollback, close, connection loss, release."""
        raise NotImplementedError
