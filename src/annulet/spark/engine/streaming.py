"""The engine over DataFrames: commands are sent to the shard of their queue, effects return as rows."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from annulet.spark.engine.commands import Command
from annulet.spark.engine.effects import Effect
from annulet.spark.engine.errors import EngineError
from annulet.spark.engine.journal import KINDS
from annulet.spark.engine.portable import PIECE_COLUMNS, Piece, put_pieces
from annulet.spark.engine.shard import Shard, close_shard, open_shard
from annulet.spark.operators.rules import SHARDS_MAX
from annulet.spark.operators.streaming import SparkShardState, shards_schema
from annulet.spark.parcels import Sealed, sealed_function
from annulet.spark.state_store import why_unfit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

SHARD: Final = "shard"
TRAVELLING: Final = ("queue", "sequence", "document", "body")

REQUIRED: Final = {"queue": ("string",), "sequence": ("bigint", "int", "smallint", "tinyint"), "command": ("string",)}
TIMES: Final = ("at", "expires_at", "deliver_at", "accepted_at")
"""Columns of commands and effects that are timestamps in a DataFrame and milliseconds since 1970 in the engine."""

EFFECT_TYPES: Final = {
    "sequence": "bigint",
    "number": "int",
    "tag": "bigint",
    "message": "bigint",
    "messages": "bigint",
    "priority": "int",
    "delivery_count": "bigint",
    "redelivered": "boolean",
    "size": "bigint",
    "replaced_by": "bigint",
    "body": "binary",
    **dict.fromkeys(TIMES, "bigint"),
}
"""Spark's types of the columns of an effect as they leave a worker; those not named are ``string``."""

FRAME_ROWS: Final = 10_000
"""Effects handed to Spark at once, as it hands rows over itself (spark-notes §1)."""

EFFECT_COLUMNS: Final = Effect.__struct_fields__
TRAVELLING_SCHEMA: Final = ", ".join(f"{name} {EFFECT_TYPES.get(name, 'string')}" for name in EFFECT_COLUMNS)


def effects_of(commands: DataFrame, shards: int, initial: GroupedData | None) -> DataFrame:
    """Return the effects of commands; see :func:`annulet.spark.engine.engine`."""
    _check(commands, shards)
    rows = _travelling(commands, shards)
    if commands.isStreaming:
        try:
            import_module("google.protobuf")
        except ImportError as error:
            raise ImportError("the engine on streams needs protobuf; pip install 'annulet[spark]'") from error
        unfit = why_unfit(commands.sparkSession)
        if unfit:
            raise EngineError(unfit)
        effects = rows.groupBy(SHARD).transformWithStateInPandas(
            EngineProcessor(shards), TRAVELLING_SCHEMA, "append", "none", initialState=initial
        )
    elif initial is not None:
        raise EngineError("initial is given, but the commands are a batch, which has no state; leave it out")
    else:
        effects = rows.groupBy(SHARD).applyInPandas(sealed_function(_take_batch), TRAVELLING_SCHEMA)
    return effects.withColumns({name: F.timestamp_millis(F.col(name)) for name in TIMES if name in EFFECT_COLUMNS})


def _check(commands: DataFrame, shards: int) -> None:
    if not 1 <= shards <= SHARDS_MAX:
        raise EngineError(f"shards={shards}; allowed are 1 to {SHARDS_MAX}, a small multiple of the cores is best")
    types = {field.name: field.dataType.simpleString() for field in commands.schema.fields}
    for name, allowed in REQUIRED.items():
        if types.get(name) not in allowed:
            found = f"is {types[name]}" if name in types else "is missing"
            raise EngineError(f"column {name!r} {found}; commands need it as {allowed[0]}; add or cast it in a select")
    if types.get("body", "binary") not in ("binary", "string"):
        raise EngineError(f"column 'body' is {types['body']}; cast it to binary or string in a select")
    for name in TIMES:
        if types.get(name, "timestamp") not in ("timestamp", "bigint"):
            raise EngineError(
                f"column {name!r} is {types[name]}; give a timestamp, or milliseconds since 1970 as bigint"
            )


def _travelling(commands: DataFrame, shards: int) -> DataFrame:
    """Return commands as they travel: the shard, queue, sequence as text, the command as JSON, body.

    ``advance`` without a queue is for all, and goes to every shard.
    """
    types = {field.name: field.dataType.simpleString() for field in commands.schema.fields}

    def value(name: str) -> Column:
        column = F.col(name)
        if name in TIMES and types[name] == "timestamp":
            column = F.unix_millis(column)
        return column.alias(name)

    names = [name for name in Command.__struct_fields__ if name in types]
    body = F.col("body").cast("binary") if "body" in types else F.lit(None).cast("binary")
    everywhere = (F.coalesce("queue", F.lit("")) == "") & (F.col("command") == "advance")
    own = F.array(shard_of("queue", shards))
    everyone = F.sequence(F.lit(0), F.lit(shards - 1))
    return commands.select(
        F.explode(F.when(everywhere, everyone).otherwise(own)).alias(SHARD),
        F.col("queue"),
        F.col("sequence").cast("string").alias("sequence"),
        F.to_json(F.struct(*(value(name) for name in names))).alias("document"),
        body.alias("body"),
    )


def shard_of(queue: str, shards: int) -> Column:
    """Return the shard of the queue that a column names."""
    return F.pmod(F.xxhash64(queue), F.lit(shards)).cast("int")


def _given(frames: Iterator[pd.DataFrame]) -> Iterator[tuple[str | None, int | None, str, bytes | None]]:
    for frame in frames:
        columns = (frame[name].tolist() for name in TRAVELLING)
        for queue, sequence, document, body in zip(*columns, strict=True):
            yield (
                queue if isinstance(queue, str) else None,
                int(sequence) if isinstance(sequence, str) else None,
                document,
                bytes(body) if isinstance(body, (bytes, bytearray)) else None,
            )


def frame_of(effects: list[Effect]) -> pd.DataFrame:
    """Return effects as a frame in the order of :data:`EFFECT_COLUMNS`."""
    return pd.DataFrame(
        {name: pd.Series([getattr(effect, name) for effect in effects], dtype=object) for name in EFFECT_COLUMNS}
    )


def _take_batch(frame: pd.DataFrame) -> pd.DataFrame:
    return frame_of(Shard().take(_given(iter([frame]))))


class EngineProcessor(Sealed, StatefulProcessor):
    """Runs in Python workers: one call for each shard and batch."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the states ``head``, ``journal`` and ``image``; and ``shards``, which is only declared.

        Spark compares the types of states with the checkpoint's before it runs anything, and the number of shards is in
        the type of the last: a new shard could not detect that there were others.
        """
        handle.getValueState("shards", shards_schema(self._shards))
        self._state = SparkShardState(handle, KINDS)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Carry out the commands of a batch."""
        del key, timerValues
        shard, head = open_shard(self._shards, self._state)
        effects = shard.take(_given(rows))
        close_shard(shard, head, self._state)
        for start in range(0, len(effects), FRAME_ROWS):
            yield frame_of(effects[start : start + FRAME_ROWS])

    def handleInitialState(  # noqa: N802 - Spark's name
        self,
        key: Any,
        initialState: pd.DataFrame,  # noqa: N803
        timerValues: TimerValues,  # noqa: N803
    ) -> None:
        """Take over state of other queries; in several calls if it is much."""
        del key, timerValues
        columns = (initialState[name].tolist() for name in PIECE_COLUMNS)
        pieces = [Piece(queue, kind, bytes(blob)) for queue, kind, blob in zip(*columns, strict=True)]
        put_pieces(pieces, self._shards, self._state)

    def close(self) -> None:
        """Nothing is open."""
