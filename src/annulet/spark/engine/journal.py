"""The state of a shard of queues between batches: an image of each queue, and the commands since.

Each batch writes one blob of its commands, whatever the queues they are for. When the commands of a queue since its
image weigh more than the image, the queue gets a new one, and its commands are needed no more. So

- a batch writes as many bytes as its input, and images add at most about as many again;
- a worker without state reads each queue's image and replays at most as many bytes of commands as the image has;
- blobs are few: mostly obsolete ones, and many of similar size, are merged.

A handful of state calls for a batch (spark-notes §5): head read and written, one blob, and now and then an image.

Spark gives a shard to any free worker of an executor. One that has it in memory from some batches ago need not read it
all again: the commands of the latest batches stay complete, with the changes of each to the account of blobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from annulet import __version__
from annulet.spark.engine.errors import EngineStateError
from annulet.spark.engine.image import Image, pack_rows, unpack_rows
from annulet.spark.operators.segments import ShardState, crowded, decode_columns, encode_columns

FORMAT: Final = 8
"""Version of head, blobs and images.

Images hold the core's own fields: 2 since queues have draining consumers. They name
its modules: 3 since the modules are in rooms, 4 since the interfaces of orders and the counters are in ``core/model``,
5 since a queue names its deep lanes and its readers' lists have classes of their own, 6 since origins keep their form
in the log, 7 since fair keys know when messages expire in slices, 8 since queues with due times register for ticks.
The version of the package must match as well.
"""

JOURNAL: Final = "journal"
IMAGE: Final = "image"
KINDS: Final = (JOURNAL, IMAGE)

IMAGE_MINIMUM: Final = 16 * 1024
"""Bytes of commands of a queue before its first image: that of an empty queue has 5 KiB."""

IMAGE_PART_BYTES: Final = 1024 * 1024
"""Bytes of an image in one blob, before compression."""

JOURNAL_ROWS_MAX: Final = 50_000
"""Commands of one blob."""

BATCHES_FOLLOWED: Final = 8
"""Latest batches of a shard whose commands stay whole: a worker of an executor with 8 cores is met again after as many,
on average. One that remembers less reads the whole shard."""

BOOKS: Final = "books"

ROW_BYTES: Final = 64
"""The weight of a command beside its document and body."""


class StateReader(Protocol):
    """Where blobs are read from."""

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        """Return all blobs of a kind with their numbers, in any order."""


class EngineState(ShardState, Protocol):
    """Where a shard is kept: as the operators' shards, and single blobs can be read."""

    def read_blob(self, kind: str, number: int) -> bytes:
        """Return one blob."""


class Given(NamedTuple):
    """A command in its original form. ``floor``: the lower bound of the shard's time at its arrival."""

    queue: str
    sequence: int
    floor: int
    document: str
    body: bytes

    @property
    def weight(self) -> int:
        """Its approximate bytes in the journal."""
        return len(self.document) + len(self.body) + ROW_BYTES


COMMAND_COLUMNS: Final = ("queue", "sequence", "floor", "document", "body")
"""The fields of :class:`Given`, as columns of a blob."""


class Step(msgspec.Struct, array_like=True):
    """A batch that changed a shard: the head's token and time after it, and the blobs of its commands."""

    token: str
    time: int
    blobs: list[int]


class Books(msgspec.Struct, omit_defaults=True):
    """The changes of a batch to the account of blobs beside its own commands."""

    images: dict[str, tuple[int, list[int]]] = {}
    """Of queues: bytes and blobs."""
    dropped: list[int] = []
    moved: dict[int, dict[str, int]] = {}
    """Blobs of former commands, how many of each queue."""


class Head(msgspec.Struct):
    """The small part of a shard's state, as JSON."""

    shards: int
    name: str = ""
    """Of the shard among all shards of all queries."""
    token: str = ""
    """Renewed by each batch that changes the shard, so that a worker can check whether its memory is current."""
    time: int = 0
    """The time of the last ``advance`` of all queues, milliseconds since 1970."""
    next_blob: int = 0
    steps: list[Step] = []
    """The latest batches, the last one as the head is now."""
    format: int = FORMAT
    version: str = __version__

    def text(self) -> str:
        """Return it as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read it from JSON. Raises :class:`EngineStateError` for state that this version does not read."""
        head = msgspec.json.decode(text, type=cls)
        if head.format != FORMAT or head.version != __version__:
            raise EngineStateError(
                f"the checkpoint has state of version {head.version} (format {head.format}), this is {__version__} "
                f"(format {FORMAT}); with version {head.version} take its portable state, and start a new checkpoint "
                "with that (docs/spark-engine.md, Upgrade)"
            )
        return head


class Stored(NamedTuple):
    """The state of one queue: the packed rows of its image, if there is one, and the commands since."""

    image: list[bytes]
    commands: list[Given]

    def unpacked(self) -> Image | None:
        """Return the image."""
        return unpack_rows(self.image) if self.image else None


class Journal:
    """Keeps account of a shard's blobs; the blobs themselves stay in the state."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, int]] = {}  # commands that are still needed, by blob and queue
        self._written: dict[int, int] = {}  # commands in a blob
        self._images: dict[str, list[int]] = {}
        self._image_bytes: dict[str, int] = {}
        self._since: dict[str, int] = {}  # bytes of commands since the image
        self._books = Books()  # of the batch under way

    def load(self, state: StateReader) -> dict[str, Stored]:
        """Read everything, by queue; commands in ascending order of sequence."""
        found: dict[str, Stored] = {}
        latest: dict[str, int] = {}
        parts: dict[str, dict[int, list[bytes]]] = {}
        for number, blob in state.read_blobs(IMAGE):
            queue, covered, part, rows = decode_image(blob)
            latest[queue] = covered
            parts.setdefault(queue, {})[part] = rows
            self._images.setdefault(queue, []).append(number)
        for queue, by_part in parts.items():
            image = [row for part in sorted(by_part) for row in by_part[part]]
            found[queue] = Stored(image, [])
            self._image_bytes[queue] = sum(map(len, image))
        for number, blob in state.read_blobs(JOURNAL):
            commands = decode_commands(blob)
            self._written[number] = len(commands)
            needed = self._rows[number] = {}
            for given in commands:
                if given.sequence > latest.get(given.queue, given.sequence - 1):
                    needed[given.queue] = needed.get(given.queue, 0) + 1
                    self._since[given.queue] = self._since.get(given.queue, 0) + given.weight
                    found.setdefault(given.queue, Stored([], [])).commands.append(given)
        for stored in found.values():
            stored.commands.sort(key=lambda given: given.sequence)
        return found

    def due(self, commands: Sequence[Given]) -> list[str]:
        """Note the commands of a batch; return the queues that should get an image now."""
        for given in commands:
            self._since[given.queue] = self._since.get(given.queue, 0) + given.weight
        return [
            queue
            for queue in dict.fromkeys(given.queue for given in commands)
            if self._since[queue] > max(IMAGE_MINIMUM, self._image_bytes.get(queue, 0))
        ]

    def put_image(self, queue: str, covered: int, image: Image, head: Head, state: EngineState) -> None:
        """Write a queue's image; its commands up to sequence ``covered`` are needed no more."""
        for number in self._images.pop(queue, []):
            state.drop_blob(IMAGE, number)
        size = part_size = 0
        parts: list[list[bytes]] = [[]]
        for row in pack_rows(image):
            if part_size > IMAGE_PART_BYTES:
                parts.append([])
                part_size = 0
            parts[-1].append(row)
            part_size += len(row)
            size += len(row)
        numbers = []
        for part, rows in enumerate(parts):
            state.write_blob(IMAGE, head.next_blob, encode_image(queue, covered, part, rows))
            numbers.append(head.next_blob)
            head.next_blob += 1
        self._books.images[queue] = size, numbers
        self._imaged(queue, size, numbers)

    def append(self, commands: Sequence[Given], head: Head, state: EngineState) -> list[int]:
        """Write the commands of a batch, after its images, and tidy up in proportion. Returns the blobs they are in."""
        books, self._books = self._books, Books()
        kept = {number for step in head.steps for number in step.blobs}
        moved: list[Given] = []
        for number in self._worn(len(commands), kept):
            needed = self._rows[number]
            if needed:
                moved += [given for given in decode_commands(state.read_blob(JOURNAL, number)) if given.queue in needed]
            books.dropped.append(number)
            self._dropped(number)
            state.drop_blob(JOURNAL, number)
        if moved:
            books.moved[head.next_blob] = Counter(given.queue for given in moved)
            self._stored(head.next_blob, books.moved[head.next_blob], len(moved))
            state.write_blob(JOURNAL, head.next_blob, encode_commands(moved))
            head.next_blob += 1
        blobs: list[int] = []
        for start in range(0, len(commands), JOURNAL_ROWS_MAX):
            rows = commands[start : start + JOURNAL_ROWS_MAX]
            self._stored(head.next_blob, _uncovered(rows, books), len(rows))
            state.write_blob(JOURNAL, head.next_blob, encode_commands(rows, books))
            blobs.append(head.next_blob)
            head.next_blob += 1
        return blobs

    def follow(self, numbers: Sequence[int], state: EngineState) -> list[Given]:
        """Account for a batch that another worker wrote in these blobs; return its commands."""
        found = [(number, state.read_blob(JOURNAL, number)) for number in numbers]
        commands = [(number, decode_commands(blob)) for number, blob in found]
        self.due([given for _, rows in commands for given in rows])
        books = decode_books(found[0][1]) if found else Books()
        for queue, (size, parts) in books.images.items():
            self._imaged(queue, size, parts)
        for number in books.dropped:
            self._dropped(number)
        for number, needed in books.moved.items():
            self._stored(number, needed, sum(needed.values()))
        for number, rows in commands:
            self._stored(number, _uncovered(rows, books), len(rows))
        return [given for _, rows in commands for given in rows]

    def _imaged(self, queue: str, size: int, numbers: list[int]) -> None:
        self._images[queue] = numbers
        self._image_bytes[queue] = size
        self._since[queue] = 0
        for needed in self._rows.values():
            needed.pop(queue, None)

    def _stored(self, number: int, needed: Mapping[str, int], rows: int) -> None:
        self._rows[number] = dict(needed)
        self._written[number] = rows

    def _dropped(self, number: int) -> None:
        del self._rows[number], self._written[number]

    def _worn(self, added: int, kept: Collection[int]) -> list[int]:
        """Return the blobs to write again: those mostly needed no more, and those of a size of which there are many."""
        live = {number: sum(needed.values()) for number, needed in self._rows.items() if number not in kept}
        worn = [number for number, rows in live.items() if 2 * rows < self._written[number]]
        small = {number: rows for number, rows in live.items() if rows < JOURNAL_ROWS_MAX // 2}
        return worn + crowded({number: rows for number, rows in small.items() if number not in set(worn)}, added)


def _uncovered(commands: Sequence[Given], books: Books) -> Counter[str]:
    return Counter(given.queue for given in commands if given.queue not in books.images)


def encode_commands(commands: Sequence[Given], books: Books | None = None) -> bytes:
    """Return a blob of commands, with the other changes of their batch."""
    metadata = None if books is None else {BOOKS: msgspec.json.encode(books).decode()}
    return encode_columns({
        "queue": pa.array([given.queue for given in commands], pa.string()),
        "sequence": pa.array([given.sequence for given in commands], pa.int64()),
        "floor": pa.array([given.floor for given in commands], pa.int64()),
        "document": pa.array([given.document for given in commands], pa.string()),
        "body": pa.array([given.body for given in commands], pa.binary()),
    }, metadata)  # fmt: skip


def decode_books(blob: bytes) -> Books:
    """Read the other changes of the batch of a blob of commands."""
    with pa.ipc.open_stream(blob) as reader:
        return msgspec.json.decode((reader.schema.metadata or {}).get(BOOKS.encode(), b"{}"), type=Books)


def decode_commands(blob: bytes) -> list[Given]:
    """Read a blob of commands."""
    table = decode_columns(blob)
    columns = (table.column(name).to_pylist() for name in COMMAND_COLUMNS)
    return [Given(*values) for values in zip(*columns, strict=True)]


def encode_image(queue: str, covered: int, part: int, rows: Sequence[bytes]) -> bytes:
    """Return a part of an image as a blob: whose, up to which command, which part, in every row."""
    count = len(rows)
    return encode_columns({
        "queue": pa.array([queue] * count, pa.string()),
        "covered": pa.array([covered] * count, pa.int64()),
        "part": pa.array([part] * count, pa.int32()),
        "row": pa.array(rows, pa.binary()),
    })  # fmt: skip


def decode_image(blob: bytes) -> tuple[str, int, int, list[bytes]]:
    """Read a part of an image: queue, the latest command it covers, number of the part, rows."""
    table = decode_columns(blob)
    queue, covered, part = (table.column(name)[0].as_py() for name in ("queue", "covered", "part"))
    return queue, covered, part, table.column("row").to_pylist()
