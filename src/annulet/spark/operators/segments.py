"""The state of a shard as a log of segments: a few state calls for each batch, for any number of keys.

Each batch writes one segment, an Arrow blob of new items, and one blob of removals, pairs of segment and row. A segment
that is less than half live is rewritten with the new items; so are segments of similar size once there are many, and
removals in the same way. The bytes written are therefore proportional to the input (spark-notes §5), and the blobs are
few after any number of batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from annulet.spark.operators.book import Item

FORMAT: Final = 1
"""Version of head and blobs."""

SEGMENT_ITEMS_MAX: Final = 50_000
"""Items of one segment, some megabytes: the unit of reading and writing."""

TIER_SEGMENTS_MAX: Final = 8
"""Blobs of one kind and similar size (within a factor of 8) before they become one: bounds the reads of a restart."""

REMOVALS_SPARE: Final = 1_000
"""Removals kept beyond twice those that still say something, before they are written again."""


class ShardState(Protocol):
    """Where a shard is kept: three small states of Spark's, or a double of them."""

    def read_head(self) -> str | None:
        """Return the head, ``None`` for a new shard."""

    def write_head(self, head: str) -> None:
        """Replace the head."""

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        """Return all blobs of a kind with their numbers, in any order."""

    def write_blob(self, kind: str, number: int, blob: bytes) -> None:
        """Put a blob."""

    def drop_blob(self, kind: str, number: int) -> None:
        """Remove a blob."""


SEGMENT: Final = "segment"
REMOVAL: Final = "removal"


@dataclass(slots=True)
class Head:
    """The small part of a shard's state, as JSON."""

    rules: str
    shards: int
    columns: str = ""
    """Names, types and purposes of the columns used by rules, which are the extra values of items."""
    name: str = ""
    """Of the shard among all shards of all queries."""
    token: str = ""
    """Renewed by each batch that changes the shard, so that a worker can check whether its memory is current."""
    next_segment: int = 0
    next_removal: int = 0
    timer: int = 0
    """Earliest timer, milliseconds since 1970; 0 = none."""
    format: int = FORMAT

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read it from JSON."""
        return cls(**json.loads(text))


class SegmentLog:
    """The segments of one shard, with the items in them, and which are live."""

    def __init__(self) -> None:
        self._items: dict[int, list[Item]] = {}
        self._live: dict[int, int] = {}
        self._removals: dict[int, list[tuple[int, int]]] = {}  # the pairs of each removal blob

    def __len__(self) -> int:
        return len(self._items)

    @property
    def live(self) -> int:
        """Items that are remembered."""
        return sum(self._live.values())

    def load(self, state: ShardState) -> list[Item]:
        """Read everything; returns the live items in ascending order of sequence."""
        for number, blob in state.read_blobs(SEGMENT):
            items = decode_items(blob)
            for index, item in enumerate(items):
                item.segment, item.index = number, index
            self._items[number] = items
            self._live[number] = len(items)
        for number, blob in state.read_blobs(REMOVAL):
            pairs = decode_pairs(blob)
            self._removals[number] = pairs
            for segment, index in pairs:
                items = self._items.get(segment, [])
                if items and items[index].live:
                    items[index].live = False
                    self._live[segment] -= 1
        live = [item for items in self._items.values() for item in items if item.live]
        live.sort(key=lambda item: item.sequence)
        return live

    def commit(self, fresh: Sequence[Item], dropped: Sequence[Item], head: Head, state: ShardState) -> None:
        """Write new items and removals, and clean up in proportion to them."""
        pairs: list[tuple[int, int]] = []
        for item in dropped:
            self._live[item.segment] -= 1
            pairs.append((item.segment, item.index))
        added = [item for item in fresh if item.live]
        moved: list[Item] = []
        for number in self._worn(len(added)):
            moved.extend(item for item in self._items.pop(number) if item.live)
            del self._live[number]
            state.drop_blob(SEGMENT, number)
        items = moved + added
        for start in range(0, len(items), SEGMENT_ITEMS_MAX):
            self._write_segment(items[start : start + SEGMENT_ITEMS_MAX], head, state)
        self._write_removals([pair for pair in pairs if pair[0] in self._items], head, state)

    def _worn(self, added: int) -> list[int]:
        """Return the segments to write again: those mostly dead, and those of a size of which there are many."""
        worn = [number for number, live in self._live.items() if 2 * live < len(self._items[number])]
        chosen = set(worn)
        small = {number: live for number, live in self._live.items() if live < SEGMENT_ITEMS_MAX // 2}
        return worn + crowded({number: live for number, live in small.items() if number not in chosen}, added)

    def _write_segment(self, items: list[Item], head: Head, state: ShardState) -> None:
        number = head.next_segment
        head.next_segment += 1
        for index, item in enumerate(items):
            item.segment, item.index = number, index
        self._items[number] = items
        self._live[number] = len(items)
        state.write_blob(SEGMENT, number, encode_items(items))

    def _write_removals(self, pairs: list[tuple[int, int]], head: Head, state: ShardState) -> None:
        known = sum(len(blob) for blob in self._removals.values()) + len(pairs)
        valid = sum(len(items) - self._live[number] for number, items in self._items.items())
        if known > 2 * valid + REMOVALS_SPARE:
            for number in self._removals:
                state.drop_blob(REMOVAL, number)
            self._removals.clear()
            pairs = [(item.segment, item.index) for items in self._items.values() for item in items if not item.live]
        elif pairs:
            small = {number: len(blob) for number, blob in self._removals.items() if len(blob) < SEGMENT_ITEMS_MAX // 2}
            for number in crowded(small, len(pairs)):
                pairs += [pair for pair in self._removals.pop(number) if pair[0] in self._items]
                state.drop_blob(REMOVAL, number)
        if pairs:
            state.write_blob(REMOVAL, head.next_removal, encode_pairs(pairs))
            self._removals[head.next_removal] = pairs
            head.next_removal += 1


def crowded(sizes: dict[int, int], added: int) -> list[int]:
    """Return the blobs whose size, by number, is that of many others, were there one more of size ``added``."""
    tiers: dict[int, list[int]] = {}
    for number, size in sizes.items():
        tiers.setdefault(size.bit_length() // 3, []).append(number)
    return [
        number
        for tier, numbers in tiers.items()
        if len(numbers) + (added.bit_length() // 3 == tier) > TIER_SEGMENTS_MAX
        for number in numbers
    ]


def encode_items(items: Sequence[Item]) -> bytes:
    """Return a segment's blob. The extra values are texts or octets, of one type in each place."""
    columns: dict[str, pa.Array] = {
        "kind": pa.array([item.kind for item in items], pa.int8()),
        "queue": pa.array([item.queue for item in items], pa.string()),
        "sequence": pa.array([item.sequence for item in items], pa.int64()),
        "key": pa.array([item.key for item in items], pa.string()),
        "level": pa.array([item.level for item in items], pa.int32()),
        "size": pa.array([item.size for item in items], pa.int64()),
        "expires": pa.array([item.expires for item in items], pa.int64()),
    }
    width = max((len(item.extra) for item in items), default=0)
    for place in range(width):
        columns[f"extra{place}"] = pa.array([item.extra[place] if item.extra else None for item in items])
    return encode_columns(columns)


def decode_items(blob: bytes) -> list[Item]:
    """Read a segment's blob."""
    table = decode_columns(blob)
    values = {name: table.column(name).to_pylist() for name in table.column_names}
    extras = [values[name] for name in table.column_names if name.startswith("extra")]
    rows: Any = zip(*extras, strict=True) if extras else [()] * table.num_rows
    return [
        Item(kind, queue, sequence, key, level, size, expires, extra)
        for kind, queue, sequence, key, level, size, expires, extra in zip(
            values["kind"], values["queue"], values["sequence"], values["key"], values["level"], values["size"],
            values["expires"], rows, strict=True,
        )
    ]  # fmt: skip


def encode_pairs(pairs: Sequence[tuple[int, int]]) -> bytes:
    """Return a blob of removals."""
    return encode_columns({
        "segment": pa.array([segment for segment, _ in pairs], pa.int64()),
        "index": pa.array([index for _, index in pairs], pa.int32()),
    })  # fmt: skip


def decode_pairs(blob: bytes) -> list[tuple[int, int]]:
    """Read a blob of removals."""
    table = decode_columns(blob)
    return list(zip(table.column("segment").to_pylist(), table.column("index").to_pylist(), strict=True))


def encode_columns(columns: dict[str, pa.Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return columns of equal length as a blob: an Arrow stream of one batch, compressed with zstd."""
    batch = pa.RecordBatch.from_pydict(columns, metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_columns(blob: bytes) -> pa.Table:
    """Read what :func:`encode_columns` returned."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()
