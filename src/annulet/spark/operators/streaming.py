"""Rules over a stream: shards of queues in Python workers, remembered as segments in Spark's state (spark-notes §5)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from annulet.spark.operators.book import Changes
from annulet.spark.operators.columns import CHANGE, REASON, REPLACED_BY, Columns, needed
from annulet.spark.operators.expressions import (
    ACCEPTED,
    EXPIRES,
    IDENTIFIER,
    KEY,
    LEVEL,
    QUEUE,
    SEQUENCE,
    SIZE,
    named,
    prepare,
    with_order,
)
from annulet.spark.operators.packing import packed, packed_type, texts, unpacked
from annulet.spark.operators.rules import WALL, OperatorError, Rules
from annulet.spark.operators.segments import REMOVAL, SEGMENT, Head
from annulet.spark.operators.shard import Rows, Shard, close_shard, open_shard
from annulet.spark.parcels import Sealed, sealed_function
from annulet.spark.state_store import why_unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

SHARD: Final = "shard"
"""Beside the columns on their way, whose names are of another kind."""
LOOKED_AT: Final = (SEQUENCE, QUEUE, KEY, IDENTIFIER, LEVEL, SIZE, ACCEPTED, EXPIRES)
DECIMAL_DIGITS: Final = 38
"""Digits of Spark's largest decimal type."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of rows in transit: the users', those of them in removals, and those used by rules.

    In transit they are called ``c0``, ``c1`` ... in the order of :attr:`names`: Spark makes named tuples of rows, which
    allow no names that begin with an underscore or are no identifiers.
    """

    payload: tuple[str, ...]
    retained: tuple[str, ...]  # in alphabetical order, whatever that of the columns: restarts find them in the state
    looked_at: tuple[str, ...]
    purposes: str = ""
    """A description of the users' columns that rules use."""

    @property
    def names(self) -> dict[str, str]:
        """The columns by their names in transit."""
        return {f"c{place}": name for place, name in enumerate((*self.looked_at, *self.payload))}


def apply_to_stream(dataframe: DataFrame, rules: Rules, columns: Columns, shards: int) -> DataFrame:
    """Return the changes: ``change``, ``reason``, ``replaced_by``, and the stream's own columns.

    Raises ``ImportError`` without protobuf, in which workers of stateful operators talk to Spark.
    """
    try:
        import_module("google.protobuf")
    except ImportError as error:
        raise ImportError("operators on streams need protobuf; install it with pip install 'annulet[spark]'") from error
    unfit = why_unfit(dataframe.sparkSession)
    if unfit:
        raise OperatorError(unfit)
    rows, layout = _travelling(dataframe, rules, columns, shards)
    kinds = {field.name: field.dataType for field in dataframe.schema.fields}
    output = ", ".join(
        [f"{CHANGE} string", f"{REASON} string", f"{REPLACED_BY} bigint"]
        + [f"`{name.replace('`', '``')}` {packed_type(kinds[name])}" for name in layout.payload]
    )
    changes = rows.groupBy(SHARD).transformWithStateInPandas(
        RuleProcessor(rules, shards, layout), output, "append", "processingTime" if rules.clock == WALL else "none"
    )
    own = [unpacked(name, kinds[name]).alias(name) for name in layout.payload]
    return with_order(changes.select(CHANGE, REASON, REPLACED_BY, *own), rules, columns)


def replay(dataframe: DataFrame, rules: Rules, columns: Columns, shards: int) -> DataFrame:
    """Return the rows of a batch DataFrame that are left when they arrive one by one."""
    kinds = {field.name: field.dataType for field in dataframe.schema.fields}
    rows, layout = _travelling(dataframe, rules, columns, shards)
    output = ", ".join(f"`{name.replace('`', '``')}` {packed_type(kinds[name])}" for name in layout.payload)
    now = time.time_ns() // 1_000_000

    def leave(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.rename(columns=layout.names)
        changes = Shard(rules).take(_rows(frame, layout), now)
        left = sorted(item.row for item in changes.left if item.live)
        return frame.iloc[left][list(layout.payload)]

    left = rows.groupBy(SHARD).applyInPandas(sealed_function(leave), output)
    return left.select(*(unpacked(name, kinds[name]).alias(name) for name in layout.payload))


class RuleProcessor(Sealed, StatefulProcessor):
    """Runs in Python workers: one call for each shard and batch."""

    def __init__(self, rules: Rules, shards: int, layout: Layout) -> None:
        self._rules = rules
        self._shards = shards
        self._layout = layout

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states: ``head``, ``segment`` and ``removal``; and ``shards``, which is only declared.

        Spark compares the types of states with the checkpoint's before it runs anything. The number of shards is in
        that type, since a new shard could not detect that there were others.
        """
        handle.getValueState("shards", shards_schema(self._shards))
        self._handle = handle
        self._state = SparkShardState(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Let the rows of a batch arrive."""
        del key
        frames = [frame.rename(columns=self._layout.names) for frame in rows]
        frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        shard, head = open_shard(self._rules, self._shards, self._state, self._layout.purposes)
        changes = shard.take(_rows(frame, self._layout), timerValues.getCurrentProcessingTimeInMs())
        self._close(shard, head, changes)
        yield from self._shown(frame, changes)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Remove what expires."""
        del key
        shard, head = open_shard(self._rules, self._shards, self._state, self._layout.purposes)
        changes = Changes()
        if expiredTimerInfo.getExpiryTimeInMs() >= head.timer:
            head.timer = 0
        shard.expire(timerValues.getCurrentProcessingTimeInMs(), changes)
        self._close(shard, head, changes)
        yield from self._shown(None, changes)

    def close(self) -> None:
        """Nothing is open."""

    def _close(self, shard: Shard, head: Head, changes: Changes) -> None:
        if self._rules.clock == WALL:
            expiry = shard.next_expiry
            if expiry and (head.timer == 0 or expiry < head.timer):
                self._handle.registerTimer(expiry)
                head.timer = expiry
        close_shard(shard, head, changes, self._state)

    def _shown(self, frame: pd.DataFrame | None, changes: Changes) -> Iterator[pd.DataFrame]:
        """Return remaining rows, complete, and removed rows, with their retained columns."""
        added = sorted(item.row for item in changes.left if item.live and item.row >= 0)
        if frame is not None and added:
            shown = frame.iloc[added][list(self._layout.payload)].reset_index(drop=True)
            for place, (name, value) in enumerate(((CHANGE, "added"), (REASON, None), (REPLACED_BY, None))):
                shown.insert(place, name, pd.Series([value] * len(shown), dtype=object))
            yield shown
        if changes.removed:
            yield self._removed(changes)

    def _removed(self, changes: Changes) -> pd.DataFrame:
        removed = changes.removed
        values: dict[str, Any] = {
            CHANGE: ["removed"] * len(removed),
            REASON: [reason for _, reason, _ in removed],
            REPLACED_BY: [newcomer or None for _, _, newcomer in removed],
        }
        places = {name: place for place, name in enumerate(self._layout.retained)}
        for name in self._layout.payload:
            place = places.get(name)
            values[name] = [None if place is None else item.extra[place] for item, _, _ in removed]
        return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in values.items()})


class SparkShardState:
    """A shard's state in Spark: ``head``, and a map of blobs for each kind."""

    def __init__(self, handle: StatefulProcessorHandle, kinds: Sequence[str] = (SEGMENT, REMOVAL)) -> None:
        self._head = handle.getValueState("head", "document string")
        self._blobs = {kind: handle.getMapState(kind, "number bigint", "blob binary") for kind in kinds}

    def read_head(self) -> str | None:
        """Return the head, ``None`` for a new shard."""
        found = self._head.get()
        return None if found is None else str(found[0])

    def write_head(self, head: str) -> None:
        """Replace the head."""
        self._head.update((head,))

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        """Return all blobs of a kind with their numbers."""
        for key, value in self._blobs[kind].iterator():
            yield int(key[0]), bytes(value[0])

    def read_blob(self, kind: str, number: int) -> bytes:
        """Return one blob."""
        found = self._blobs[kind].getValue((number,))
        assert found is not None
        return bytes(found[0])

    def write_blob(self, kind: str, number: int, blob: bytes) -> None:
        """Put a blob."""
        self._blobs[kind].updateValue((number,), (blob,))

    def drop_blob(self, kind: str, number: int) -> None:
        """Remove a blob."""
        self._blobs[kind].removeKey((number,))


def shards_schema(shards: int) -> str:
    """Return a type that is unique for the number of shards, and that shows the number in the error."""
    high, low = divmod(shards - 1, DECIMAL_DIGITS)
    return f"made_with_{shards}_shards decimal({high + 1}, 0), rest decimal({low + 1}, 0)"


def _travelling(dataframe: DataFrame, rules: Rules, columns: Columns, shards: int) -> tuple[DataFrame, Layout]:
    """Return the rows in transit form: the shard, the columns used by rules, and the packed columns."""
    prepared = prepare(dataframe, rules, columns)
    kinds = {field.name: field.dataType for field in prepared.schema.fields}
    used = needed(rules, columns)
    layout = Layout(
        tuple(dataframe.columns),
        tuple(sorted(name for name in used if name != columns.body)),
        tuple(name for name in LOOKED_AT if name in kinds),
        ", ".join(f"{name} {kinds[name].simpleString()}: {used[name][0]}" for name in sorted(used)),
    )
    atoms = {name: kinds[name].simpleString() for name in (QUEUE, KEY, IDENTIFIER) if name in kinds}
    rows = texts(prepared, atoms)
    split = [QUEUE, KEY] if rules.by_key else [QUEUE]
    shard = F.pmod(F.xxhash64(*split), F.lit(shards)).cast("int").alias(SHARD)
    values = [*(named(name) for name in layout.looked_at), *(packed(name, kinds[name]) for name in layout.payload)]
    travelling = (value.alias(name) for name, value in zip(layout.names, values, strict=True))
    return rows.select(shard, *travelling), layout


def _rows(frame: pd.DataFrame, layout: Layout) -> Rows:
    def values(name: str) -> Any:
        return frame[name].tolist() if name in layout.looked_at else ()

    return Rows(
        values(SEQUENCE), values(QUEUE), values(KEY), values(IDENTIFIER), values(LEVEL), values(SIZE), values(ACCEPTED),
        values(EXPIRES), list(zip(*(frame[name].tolist() for name in layout.retained), strict=True)),
    )  # fmt: skip
