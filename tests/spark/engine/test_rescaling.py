"""State goes from one checkpoint to another by Spark's state reader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.engine import engine
from annulet.spark.engine.rescaling import checkpoint_state, initial_state
from tests.core.model.compositions import compositions
from tests.spark.engine.histories import given, history
from tests.spark.engine.test_streaming import Input, expected, run, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.soak  # four queries; what it consists of is tested without a session in test_portable
@pytest.mark.spark
def test_a_query_goes_on_with_other_shards_and_in_another_version(spark: SparkSession, tmp_path: Path) -> None:
    chosen = compositions()
    commands = history(9, {f"q{place}": chosen[place * 53 % len(chosen)] for place in range(5)}, 400)
    first, second, third = Input(tmp_path / "first"), Input(tmp_path / "second"), Input(tmp_path / "third")
    first.add(commands[:200])
    second.add(commands[200:])
    run(engine(first.stream(spark), shards=2), tmp_path, "two")
    state = checkpoint_state(spark, str(tmp_path / "two"))
    run(engine(second.stream(spark), shards=3, initial=initial_state(state, 3)), tmp_path, "three")
    effects = spark.read.parquet(str(tmp_path / "effects-of-two"), str(tmp_path / "effects-of-three"))
    assert told(effects) == expected(commands)

    checkpoint_state(spark, str(tmp_path / "two"), portable=True).write.parquet(str(tmp_path / "portable"))
    portable = spark.read.parquet(str(tmp_path / "portable"))
    third.add([given(f"q{place}", 1_000, command="purge") for place in range(5)])
    run(engine(third.stream(spark), shards=1, initial=initial_state(portable, 1)), tmp_path, "one")
    purged = spark.read.parquet(str(tmp_path / "effects-of-one")).where("effect = 'outcome'").collect()
    assert {row.queue for row in purged} == {f"q{place}" for place in range(5)}
    assert sum(row.messages for row in purged) > 0
