"""The interface of a message log, durable or in memory, and the records passed through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mypy_extensions import mypyc_attr

from annulet.core.message.message import Message, Origin
from annulet.store.database.definitions import KnownQueues, QueueName

if TYPE_CHECKING:
    from annulet.store.log.read_ahead import AheadStretch
    from annulet.store.searching.search import Search

NO_PRIORITY: Final = 256
"""Represents the priority of a message without one: its queue defines the effective value."""


class RecoveredMessage(NamedTuple):
    """One live message found at start. ``targets`` are the (queue id, sequence) pairs that have not settled it."""

    record: int
    header: bytes
    body: bytes
    exchange: str
    routing_key: str
    publisher: str
    view: str  # name of the protocol's ContentView, such as "amqp-0-9-1"
    priority: int
    accepted_at: int  # milliseconds since 1970
    expires_at: int  # milliseconds since 1970; 0 = never
    targets: list[tuple[int, int]]
    redelivered: bool  # possibly delivered before: the log was not closed cleanly (AMQP 0-9-1 §1.8.3.13.2)


class RecoveredRows(NamedTuple):
    """Live messages of one queue found at start and not read, in record order. All columns have the same length.

    The log guarantees that none requests a delay.
    """

    queue_id: int
    records: Sequence[int]  # ascending
    sequences: Sequence[int]
    sizes: array[int]  # of the bodies, in bytes
    origin_numbers: array[int]  # index into ``origins``
    origins: list[tuple[str, str, str, str]]  # exchange, routing key, publisher, name of the protocol's ContentView
    duplicate_ids: bool  # some of them may have a time
    priorities: array[int]  # as their senders gave it, or ``NO_PRIORITY``
    accepted_at: Sequence[int]  # milliseconds since 1970
    expires_at: array[int]  # as their senders have it, milliseconds since 1970; 0 = never


class LoggedMessage(NamedTuple):
    """A message read back while the log is open. A tuple: many thousand a second are made, and forgotten at once."""

    header: bytes
    body: bytes
    origin: tuple[str, str, str, str]  # exchange, routing key, publisher, name of the protocol's ContentView
    priority: int
    accepted_at: int  # milliseconds since 1970
    expires_at: int  # milliseconds since 1970; 0 = never
    targets: list[tuple[int, int]]  # all (queue id, sequence) pairs it was written for


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """Progress of recovery.

    ``records`` and ``bytes`` are totals so far, ``share`` is the finished part of the work, 0 to 1.
    """

    segments_done: int
    segments_total: int
    records: int
    bytes: int
    share: float = 0.0

    def as_dict(self) -> dict[str, int]:
        """Flat form for the structured log, with the remaining time instead of the share."""
        figures = asdict(self)
        del figures["share"]
        return figures


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are no valid record.

    ``kind`` is ``torn`` (a write the crash interrupted: nothing confirmed is lost), ``corrupt`` (content changed after
    it was written), ``header`` (a segment header, its copy was used), ``missing`` (a segment with ``length`` live
    records does not exist), ``short`` (the log ends ``length`` bytes before the synced position, and ``messages`` are
    lost; some of them may have been settled) or ``cut`` (a segment, or one of the ``length`` behind it, is shorter than
    it was, and ``messages`` that were not settled are lost; -1: the number is unknown).
    """

    kind: str
    segment: int
    offset: int
    length: int
    messages: int = 0

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"segment {self.segment} is missing with {self.length} live records"
        if self.kind == "short":
            return (
                f"segment {self.segment} ends at byte {self.offset}, {self.length} bytes before its synced end: "
                f"{self.messages} messages that were written there are gone, and those not settled by then are lost"
            )
        if self.kind == "cut":
            gone = "an unknown number of" if self.messages < 0 else str(self.messages)
            where = f"segment {self.segment} ends at byte {self.offset} and"
            if self.length:
                where = f"one of segments {self.segment} to {self.segment + self.length}"
            return (
                f"{where} is shorter than before, while later records are present: {gone} messages are gone, and "
                "what settled others there is"
            )
        return f"{self.length} {self.kind} bytes at offset {self.offset} of segment {self.segment}"


@dataclass(slots=True)
class RecoveryReport:
    """The findings of recovery. All counts are 0 after a clean shutdown on a sound disk."""

    records: int = 0  # valid records read, or named by the index of their segment
    indexed_segments: int = 0  # restored from their index, without reading their records
    live_records: int = 0
    restored_records: int = 0  # of the live ones, those in segments that the broker has taken all of since
    corrupt_records: int = 0  # stretches of damaged bytes that were not merely torn
    torn_tails: int = 0
    lost_records: int = 0  # records that must have been live and cannot be read
    doubtful_places: int = 0  # of the corrupt ones, those behind the checkpoint: their contents are unknown
    uncertain_transactions: int = 0  # kept although their commit was not found: no checkpoint could be read
    checkpoint_fallback: bool = False  # the newest checkpoint was damaged
    torn_messages: dict[int, int] = field(default_factory=dict)
    """Messages of torn batches behind the checkpoint, by queue id.

    They stay, and the messages evicted for them returned.
    """
    damages: list[Damage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """Figures of one moment. Sizes in bytes; totals since the log was opened."""

    bytes_written: int = 0
    batches: int = 0
    appended: int = 0
    cancelled: int = 0  # settled before they were written: no disk was used
    settled: int = 0
    live_records: int = 0
    segments: int = 0
    window_records: int = 0
    window_bytes: int = 0
    open_transactions: int = 0
    deferred_settlements: int = 0  # wait in memory for disk space; repeated deliveries if the broker dies now
    checkpoints: int = 0
    compactions: int = 0
    indexes: int = 0  # written, of closed segments
    indexed_segments: int = 0  # at open: restored from their index, the others were read
    maintenance_errors: int = 0
    corrupt_records: int = 0
    lost_records: int = 0
    doubtful_places: int = 0  # damaged behind the last checkpoint: their contents are unknown
    quarantined_records: int = 0  # damaged places whose bytes were set aside
    quarantined_bytes: int = 0
    quarantine_refused: int = 0  # damaged places whose bytes were not: a bound, or the disk
    read_ahead_bytes: int = 0  # in memory, read or to be read ahead
    heads_bytes_written: int = 0  # of the files beside segments that have heads of messages alone
    heads_bytes_dropped: int = 0  # of heads that were not written: a full disk, one that refuses or is too slow
    heads_bytes_pending: int = 0  # of heads in memory waiting to be written
    heads_failures: int = 0  # files of heads given up as the disk refused
    disk_full: bool = False
    failed: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Batch:
    """A sealed window on its way to the disk."""

    __slots__ = ("number", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size  # bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskWork:
    """A piece of work for a disk thread. An ``OSError`` inside ``run`` is kept in ``error`` for the finishing code."""

    error: OSError | None = None

    def run(self) -> None:
        """Do the disk work. Touches nothing the loop changes."""
        try:
            self.work()
        except OSError as error:
            self.error = error

    def work(self) -> None:
        """Do the disk work of this kind."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class MaintenanceTask(DiskWork):
    """One step of upkeep. ``run`` belongs to a disk thread, ``Log.finish`` afterwards to the loop.

    ``finish`` judges the error; upkeep never makes the log fail.
    """


@mypyc_attr(allow_interpreted_subclasses=True)
class Log(ABC):
    """A message log. All methods belong to the event loop, except ``write`` and ``MaintenanceTask.run``."""

    clean: bool
    """At open: the previous shutdown was clean."""

    outcomes: dict[str, int]
    """Query id of a staged publish to its highest committed batch id, the latest queries first to survive."""

    next_sequences: dict[int, int]
    """At open: per queue id the lowest sequence above all that were ever written; queues not listed start at 1."""

    sequences: dict[int, int]
    """Per queue id the highest sequence in a sealed window. Higher ones may be given out again after a restart: those
    of messages that were settled before they were written, too."""

    report: RecoveryReport

    known_queues: KnownQueues
    """At open: the names and settings of the queues in its records."""

    search: Search | None = None
    """Results of a search process about stored messages; ``None``: the log has no files that it could read."""

    @property
    def deferring(self) -> bool:
        """Settlements of a sealed window, or discards, found no room on a full disk.

        A checkpoint can still make them durable.
        """
        return False

    @property
    @abstractmethod
    def next_record(self) -> int:
        """Records of taken batches have lower ids than this, all later records have this id or a higher one."""

    @property
    def written_below(self) -> int:
        """Every record below this id is on disk, of no open transaction, and its id is never given out again.

        0 for a log without files, whose :meth:`read` is never called.
        """
        return 0

    def read(self, records: Sequence[int]) -> list[LoggedMessage | None]:
        """Return the messages of these records below ``written_below``, in their order; ``None`` for damaged ones.

        ``targets`` are all that the record was written for. A damaged record counts in ``report.lost_records``.
        Raises ``OSError`` when a file cannot be read now; nothing is counted then.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps its messages nowhere; {len(records)} were asked for")

    def lack(self, records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        """Say, if it is known, that no header of these records has all octets of one of the ``needles``.

        Makes no messages. Raises ``OSError`` when a file cannot be read now.
        """
        del records, needles
        return False

    def holds(self, record: int, queue_id: int) -> bool:
        """Return whether a record is unsettled in a queue. In doubt true, for one that is not written yet."""
        raise NotImplementedError(f"{type(self).__name__} keeps its messages nowhere; {record, queue_id} was asked for")

    def held(self, records: list[int], queue_id: int) -> list[int]:
        """Return the places of those records that are unsettled in a queue, as defined by :meth:`holds`.

        One call from elsewhere for all of them: each costs 1 µs.
        """
        return [place for place, record in enumerate(records) if self.holds(record, queue_id)]

    def messages(
        self, queue_id: int, records: Sequence[int], sequences: Sequence[int], origins: list[Origin]
    ) -> list[Message | None]:
        """Return what :meth:`read` would, made into messages with these origins for speed.

        Ranges of ``records`` and ``sequences``, which grow by one, are the fastest.
        ``None`` also for a record that does not name the queue with the sequence. Raises as :meth:`read`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} keeps its messages nowhere; {len(records)} of queue {queue_id} with "
            f"{len(sequences)} sequences and {len(origins)} origins were asked for"
        )

    def fitting(self, records: Sequence[int], size: int) -> int:
        """Return how many of these come with ``size`` bytes read, at least 1, without reading any.

        Records ascend as a rule; where they do not, some more may be read.
        """
        raise NotImplementedError(
            f"{type(self).__name__} keeps its messages nowhere; {len(records), size} was asked for"
        )

    def prefetch(self, records: Sequence[int]) -> AheadStretch | None:
        """Have these records read ahead of their :meth:`read`, without waiting for them.

        Returns how far the last block is that a thread will read for it, ``None`` if it reads none.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps its messages nowhere; {len(records)} were asked for")

    def read_ahead_with(self, submit: Callable[[Callable[[], None]], None] | None) -> None:
        """Let a thread do the work of :meth:`prefetch`, while there is one: ``submit`` runs a function in it.

        A log that keeps nothing on disk has nothing for it to do.
        """
        del submit

    @abstractmethod
    def recovered(self) -> Iterator[RecoveredMessage]:
        """Yield the live messages found at open, in record order. To be used up before the first append."""

    def restorable(self, may_have_rows: Callable[[int], bool]) -> Iterator[RecoveredMessage | RecoveredRows]:
        """Yield the same as :meth:`recovered`, but unread, in columns, if the log knows enough of the messages.

        ``may_have_rows`` tells whether the queue of an id can use columns. A message of several queues is read if one
        of them cannot.

        Messages of one queue are in their order, those of different queues need not be. A message in columns is yielded
        once for each of its queues.

        Damage of their records is detected when they are read.
        """
        del may_have_rows
        return self.recovered()

    @abstractmethod
    def append(self, message: Message, targets: Sequence[tuple[int, int]], transaction: int = 0) -> int:
        """Take a message for the (queue id, sequence) pairs ``targets`` and return its record id.

        It is durable when the batch of the open window completes. ``targets`` must not change afterwards.
        Raises :class:`DiskFullError` when there is no room, :class:`LogFailedError` after a failed write.
        """

    @abstractmethod
    def settle(self, record: int, queue_id: int, transaction: int = 0) -> None:
        """Settle the record for the queue. Settled and unknown ones are ignored."""

    def settle_all(self, records: list[int], queue_id: int, transaction: int = 0) -> None:
        """Settle these records as :meth:`settle` does each: some thousand at once that expired."""
        for record in records:
            self.settle(record, queue_id, transaction)

    def discard(self, queue_id: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Settle all that a queue has in these ranges of records (first, last), with some bytes for each range.

        Only for records below :attr:`written_below`. Never called on a log without files, where that is 0.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps its messages nowhere; queue {queue_id}: {ranges}")

    def hold_sweeps(self) -> None:  # noqa: B027 - a log that keeps nothing readable has nothing to do
        """Keep discarded records readable until :meth:`release_sweeps`; calls may be nested."""

    def release_sweeps(self) -> None:  # noqa: B027 - as above
        """Undo one :meth:`hold_sweeps`."""

    @abstractmethod
    def begin(self) -> int:
        """Open a transaction and return its id, never 0."""

    def promise(self, transaction: int, records: Sequence[tuple[Message, int]], settlements: int) -> None:  # noqa: B027
        """Set room aside for these messages, each with its number of targets, for so many settlements and the commit.

        Raises as :meth:`append` does; then nothing is set aside. Appends and the commit of what was promised raise
        nothing for want of room, nor when a write has failed meanwhile: then the batch fails.
        """

    @abstractmethod
    def commit(self, transaction: int, outcome: tuple[str, int] | None = None) -> None:
        """Let all records of a transaction take effect together; ``outcome`` = (query id, batch id) it completes."""

    @abstractmethod
    def abort(self, transaction: int) -> None:
        """Drop all records of a transaction."""

    @abstractmethod
    def has_room(self, size: int, now: int) -> bool:
        """Return whether a message of ``size`` bytes (header and body) can be appended at ``now`` (milliseconds)."""

    @abstractmethod
    def retry(self) -> bool:
        """Try again to get disk space, whatever the time; return whether there is some."""

    @abstractmethod
    def take_batch(self) -> Batch | None:
        """Seal the open window. ``None`` if there is nothing to write.

        Then everything so far is durable or moot, but for settlements on a full disk: see ``deferring``.
        """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Disk thread: write and sync. Batches in the order they were taken. Raises :class:`LogFailedError`."""

    @abstractmethod
    def complete(self, batch: Batch) -> None:
        """Account for a written batch."""

    @abstractmethod
    def forget_queue(self, queue_id: int) -> None:
        """Settle everything of a deleted queue, with one small record."""

    def name_queue(self, name: QueueName) -> None:
        """Remember the declaration of a durable queue, in case the catalogue is lost.

        It is durable before the queue's first message. A log that keeps nothing on disk has nothing to remember.
        """
        del name

    def name_queues(self, names: Iterable[QueueName]) -> None:
        """Remember these and no others, at once: all durable queues there are after the start."""
        del names

    @abstractmethod
    def maintenance(self, *, checkpoint: bool = False) -> MaintenanceTask | None:
        """Return the next step of upkeep, if any; one at a time.

        ``checkpoint`` requests one that is not due by bytes, once: it is made in its turn, and only if anything changed
        since the last one or it releases disk space.
        """

    @abstractmethod
    def finish(self, task: MaintenanceTask) -> None:
        """Apply the result of a task."""

    @abstractmethod
    def statistics(self) -> LogStatistics:
        """Return the figures of this moment."""

    @abstractmethod
    def close(self) -> None:
        """Write the open window, leave a checkpoint for a fast start, and mark the shutdown clean."""


def sequences_as_next(sequences: dict[int, int]) -> dict[int, int]:
    """Turn highest sequences into next ones."""
    return {queue_id: sequence + 1 for queue_id, sequence in sequences.items()}
