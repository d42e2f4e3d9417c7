"""The queue engine as a Spark job: a DataFrame of commands in, deliveries, outcomes and ledger entries out.

The same core as the broker's, partitioned by queue, without a broker. See docs/spark-engine.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.spark.engine.errors import EngineError
from annulet.spark.operators.rules import SHARDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData

__all__ = ("EngineError", "engine")


def engine(commands: DataFrame, *, shards: int = SHARDS, initial: GroupedData | None = None) -> DataFrame:
    """Return the effects of commands: deliveries, outcomes, losses and forwards (docs/spark-engine.md).

    Args:
        commands: A batch or a stream with the columns of :class:`~annulet.spark.engine.commands.Command`, of which
            ``queue`` (string), ``sequence`` (bigint) and ``command`` (string) are required; ``body`` is binary or
            string, times are timestamps or bigint milliseconds since 1970, ``properties`` and ``arguments`` are maps,
            structs or JSON texts. Other columns are left out.
        shards: Parts the queues are split into, 1 to 1024, default 8. Fixed for a checkpoint.
        initial: The result of :func:`~annulet.spark.engine.rescaling.initial_state` for another checkpoint; streams
            only.

    Raises:
        EngineError: A column is missing or of a wrong type, ``shards`` out of range, or a batch has an initial state.
        ImportError: Without protobuf, in which workers of stateful operators talk to Spark.
    """
    from annulet.spark.engine.streaming import effects_of  # noqa: PLC0415 - pyspark is optional

    return effects_of(commands, shards, initial)
