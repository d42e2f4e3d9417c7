"""State goes from one checkpoint to another by Spark's state reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.engine import engine
from annulet.spark.engine.effects import OUTCOME
from annulet.spark.engine.portable import Piece, put_pieces
from annulet.spark.engine.rescaling import checkpoint_state, initial_state
from tests.core.model_suite.compositions import compositions
from tests.spark.engine.doubles import MemoryState
from tests.spark.engine.histories import given, history
from tests.spark.engine.test_shard import batch
from tests.spark.engine.test_streaming import Input, expected, run, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.soak  # two queries and two reads of state; test_portable does the same without a session
@pytest.mark.spark
def test_a_query_goes_on_with_other_shards_and_in_another_version(spark: SparkSession, tmp_path: Path) -> None:
    chosen = compositions()
    commands = history(9, {f"q{place}": chosen[place * 53 % len(chosen)] for place in range(5)}, 400)
    purges = [given(f"q{place}", 1_000, command="purge") for place in range(5)]
    first, second = Input(tmp_path / "first"), Input(tmp_path / "second")
    first.add(commands[:200])
    second.add(commands[200:])
    run(engine(first.stream(spark), shards=2), tmp_path, "two")
    state = checkpoint_state(spark, str(tmp_path / "two"))
    run(engine(second.stream(spark), shards=3, initial=initial_state(state, 3)), tmp_path, "three")
    effects = spark.read.parquet(str(tmp_path / "effects-of-two"), str(tmp_path / "effects-of-three"))
    assert told(effects) == expected(commands)

    portable = checkpoint_state(spark, str(tmp_path / "two"), portable=True).collect()
    target = MemoryState()
    put_pieces([Piece(row.queue, row.kind, bytes(row.blob)) for row in portable], 1, target)
    purged = [effect for effect in batch(target, purges, shards=1) if effect.effect == OUTCOME]
    assert {effect.queue for effect in purged} == {f"q{place}" for place in range(5)}
    assert sum(effect.messages or 0 for effect in purged) > 0
