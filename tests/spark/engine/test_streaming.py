"""The engine over DataFrames: a stream with restarts, and a batch, beside the core with the same commands."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.streaming.tws_tester import TwsTester

from annulet.spark.engine import engine, journal, shard, streaming
from annulet.spark.engine.effects import Effect
from annulet.spark.engine.journal import KINDS
from annulet.spark.engine.portable import FrozenState, Piece, pieces_of
from annulet.spark.engine.streaming import EFFECT_COLUMNS, TIMES, EngineProcessor
from tests.core.model_suite.compositions import compositions
from tests.spark.engine.doubles import MemoryState
from tests.spark.engine.histories import Given, history
from tests.spark.engine.test_shard import batch, uncut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = 6
SHARDS = 3
PATIENCE_SECONDS = 300


class Input:
    """A directory of files of commands, each a batch of a stream. Fields are columns, as JSON says them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files = 0
        directory.mkdir()

    def add(self, commands: Sequence[Given]) -> None:
        table = pa.table({
            "queue": pa.array([queue for queue, _, _, _ in commands], pa.string()),
            "sequence": pa.array([sequence for _, sequence, _, _ in commands], pa.int64()),
            "document": pa.array([document for _, _, document, _ in commands], pa.string()),
            "body": pa.array([body for _, _, _, body in commands], pa.binary()),
        })  # fmt: skip
        path = self.directory / f"{self._files}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + self._files, 1_700_000_000 + self._files))  # files are taken by age
        self._files += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        schema = spark.read.parquet(str(self.directory)).schema
        return columns_of(spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.directory)))

    def batch(self, spark: SparkSession) -> DataFrame:
        return columns_of(spark.read.parquet(str(self.directory)))


FIELDS = (
    "command string, at bigint, session string, consumer string, tag bigint, multiple boolean, credit bigint, "
    "credit_bytes bigint, credit_mode string, automatic boolean, message_id string, priority int, "
    "`group` string, expires_at bigint, deliver_at bigint, duplicate_id string, connection string"
)


def columns_of(commands: DataFrame) -> DataFrame:
    """Commands with a column for each field; one of them a timestamp, as most sources have it."""
    return commands.selectExpr(
        "queue", "sequence", "body", f"from_json(document, '{FIELDS}') as fields",
        "get_json_object(document, '$.properties') as properties",
        "get_json_object(document, '$.arguments') as arguments",
    ).selectExpr(
        "queue", "sequence", "body", "properties", "arguments", "fields.*"
    ).withColumn("at", F.timestamp_millis("at"))  # fmt: skip


def run(effects: DataFrame, directory: Path, checkpoint: str = "checkpoint") -> None:
    """Write the effects of what is there into files, and end."""
    query = (
        effects.writeStream.format("parquet")
        .option("path", str(directory / f"effects-of-{checkpoint}"))
        .option("checkpointLocation", str(directory / checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(PATIENCE_SECONDS)
    finally:
        query.stop()


def told(effects: DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """Effects by queue, in order, times in milliseconds."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    millis = [f"unix_millis(`{name}`) as `{name}`" if name in TIMES else f"`{name}`" for name in EFFECT_COLUMNS]
    for row in sorted(effects.selectExpr(*millis).collect(), key=lambda row: (row.sequence, row.number)):
        values = (bytes(value) if isinstance(value, bytearray) else value for value in row)
        found.setdefault(row.queue, []).append(tuple(values))
    return found


def told_by_files(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The same of files of effects, without a session: those that the sink's log knows, not those of lost attempts."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    entries = [json.loads(line) for log in (directory / "_spark_metadata").glob("[0-9]*")
               for line in log.read_text().splitlines()[1:]]  # fmt: skip
    paths = {unquote(urlsplit(entry["path"]).path) for entry in entries if entry["action"] == "add"}
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    for row in sorted(rows, key=lambda row: (row["sequence"], row["number"])):
        times = {name: row[name] and round(row[name].timestamp() * 1000) for name in TIMES if name in row}
        found.setdefault(row["queue"], []).append(tuple({**row, **times}[name] for name in EFFECT_COLUMNS))
    return found


def expected(commands: list[Given]) -> dict[str, list[tuple[Any, ...]]]:
    def row(effect: Effect) -> tuple[Any, ...]:
        return tuple(getattr(effect, name) for name in EFFECT_COLUMNS)

    return {queue: [row(effect) for effect in effects] for queue, effects in uncut(commands).items()}


@pytest.mark.spark
def test_a_stream_and_a_batch_have_the_effects_of_the_core_across_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = compositions()
    commands = history(SEED, {f"q{place}": chosen[place * 40 % len(chosen)] for place in range(5)}, 400)
    source = Input(tmp_path / "in")
    source.add(commands[:150])
    source.add(commands[150:160])
    run(engine(source.stream(spark), shards=SHARDS), tmp_path)
    source.add(commands[160:])
    # another environment, another Python worker, which has only Spark's state to go by
    monkeypatch.setitem(spark.sparkContext.environment, "ANNULET_TEST_RUN", "engine")
    run(engine(source.stream(spark), shards=SHARDS), tmp_path)
    wanted = expected(commands)
    assert told(spark.read.parquet(str(tmp_path / "effects-of-checkpoint"))) == wanted
    assert told(engine(source.batch(spark), shards=2)) == wanted
    everywhere = spark.sql("select explode(array('', null)) as queue, 1 as sequence, 'advance' as command")
    assert streaming._travelling(everywhere, 3).count() == 6


# ------------------------------------------------------------------ the processor alone, without a session


def as_spark_hands_over(rows: Sequence[Given]) -> pd.DataFrame:
    return pd.DataFrame(
        [(0, queue, str(sequence), document, body) for queue, sequence, document, body in rows],
        columns=["shard", "queue", "sequence", "document", "body"],
    )


def shown(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)]


def rows_of(effects: dict[str, list[Effect]]) -> list[tuple[Any, ...]]:
    told = [effect for queue in sorted(effects) for effect in effects[queue]]
    return [tuple(getattr(effect, name) for name in EFFECT_COLUMNS) for effect in told]


def test_workers_that_remember_nothing_go_on_from_the_state_or_an_initial_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "IMAGE_MINIMUM", 4_000)
    monkeypatch.setattr(streaming, "FRAME_ROWS", 7)
    chosen = compositions()
    commands = history(3, {"a": chosen[40], "b": chosen[90]}, 200)
    former = MemoryState()
    effects = batch(former, commands[:80], shards=1)
    state = FrozenState(
        str(former.head), [(kind, number, blob) for kind in KINDS for number, blob in former.blobs[kind].items()]
    )
    pieces = pd.DataFrame(pieces_of(state, portable=False), columns=Piece._fields)
    tester = TwsTester(EngineProcessor(2), initialStatePandas=[(0, pieces)])
    found = rows_of({"": effects})
    for start in range(80, 200, 40):
        shard.REMEMBERED.forget()
        found += shown(tester.testInPandas(0, as_spark_hands_over(commands[start : start + 40])))
    queue, sequence, number = (EFFECT_COLUMNS.index(name) for name in ("queue", "sequence", "number"))
    assert sorted(found, key=lambda row: (row[queue], row[sequence], row[number])) == rows_of(uncut(commands))
