"""Short words for tests of the message log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from annulet.core.message.message import ContentView, Message, Origin
from annulet.store.log.log import MessageLog
from annulet.store.log.reading import RecordReader
from annulet.store.log.space import LogSpace
from annulet.store.segments.index_filling import GIVES_PRIORITY, HAS_DUPLICATE_ID, SETS_TIME
from annulet.store.segments.interface import Log, RecoveredMessage, RecoveredRows
from annulet.store.segments.segment_index import index_number
from tests.store.simulated_files import SimulatedFile, SimulatedFiles

DIRECTORY = Path("/simulated")
SEGMENT = 16 << 10


class View(ContentView):
    def __init__(self) -> None:
        super().__init__("amqp-0-9-1")


ORIGIN = Origin("exchange", "key", "guest@127.0.0.1:1", View())


def message(body: bytes, **facts: int) -> Message:
    return Message(b"header", body, ORIGIN, durable=True, **facts)


def asks_for(view: str, header: bytes) -> int:
    """What the protocols' views find out: here by the view and the header of :func:`message`."""
    if header == b"identified":
        return HAS_DUPLICATE_ID
    if header == b"important":
        return GIVES_PRIORITY
    return 0 if view == ORIGIN.view.name and header == b"header" else SETS_TIME


def opened(files: SimulatedFiles) -> MessageLog:
    return MessageLog.open(DIRECTORY, files=files, segment_bytes=SEGMENT, asks_for=asks_for)


def space_of(log: MessageLog) -> LogSpace:
    """Return what owns the open files of a log; with :func:`reader_of` all that tests know of the parts of a log."""
    return log._space


def reader_of(log: MessageLog) -> RecordReader:
    """Return what reads the records of a log."""
    return log._reader


def flush(log: Log) -> None:
    batch = log.take_batch()
    if batch is not None:
        log.write(batch)
        log.complete(batch)


def upkeep(log: Log, *, checkpoint: bool = False) -> list[str]:
    """Run upkeep until nothing is left to do; return the kinds of tasks."""
    kinds: list[str] = []
    most = 500 + 4 * log.statistics().segments  # an index, a compaction, a removal of each, and checkpoints
    while (task := log.maintenance(checkpoint=checkpoint and "CheckpointTask" not in kinds)) is not None:
        task.run()
        log.finish(task)
        kinds.append(type(task).__name__)
        assert len(kinds) < most, f"upkeep does not end: {kinds[-5:]}"
        if task.error is not None:
            break
    return kinds


def live(log: Log) -> dict[bytes, list[tuple[int, int]]]:
    """Return body -> remaining targets; a body that comes twice is a failure."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for recovered in log.recovered():
        assert recovered.body not in found, "one message recovered twice"
        found[recovered.body] = recovered.targets
    return found


Found = tuple[int, int, int, int, tuple[str, str, str, str]]
"""Record, queue id, sequence, body bytes, origin: what a queue's row is made of."""


def every_queue(queue_id: int) -> bool:
    """May have rows."""
    return queue_id > 0


def restorable(log: Log, may_have_rows: Callable[[int], bool] = every_queue) -> list[Found]:
    """Return what a start finds, by record; each queue's must come in that order."""
    found: list[Found] = []
    for item in log.restorable(may_have_rows):
        if isinstance(item, RecoveredRows):
            columns = zip(item.records, item.sequences, item.sizes, item.origin_numbers, strict=True)
            found += [
                (record, item.queue_id, sequence, size, item.origins[number])
                for record, sequence, size, number in columns
            ]
        else:
            found += one_by_one([item])
    by_record = sorted(found)
    for queue_id in {item[1] for item in found}:
        assert [item for item in found if item[1] == queue_id] == [item for item in by_record if item[1] == queue_id]
    return by_record


def one_by_one(messages: Iterable[RecoveredMessage]) -> list[Found]:
    """Return the same of messages that were read."""
    return [
        (
            item.record,
            queue_id,
            sequence,
            len(item.body),
            (item.exchange, item.routing_key, item.publisher, item.view),
        )
        for item in messages
        for queue_id, sequence in item.targets
    ]


def without_indexes(files: SimulatedFiles) -> SimulatedFiles:
    """Return a copy of the disk as a version without indexes left it."""
    copy = files.copied()
    for name in list(copy.names_now):
        if index_number(name) is not None:
            copy.remove(DIRECTORY / name)
    copy.names_durable = dict(copy.names_now)
    return copy


def counting(
    read: Callable[[SimulatedFile, int, int], bytes], sizes: list[int]
) -> Callable[[SimulatedFile, int, int], bytes]:
    """Return a read that notes how many bytes it found."""

    def counted(file: SimulatedFile, offset: int, length: int) -> bytes:
        data = read(file, offset, length)
        sizes.append(len(data))
        return data

    return counted
