"""A driver to be killed: commands from a queue, their effects into another. Started by ``test_engine_deaths.py``."""

from __future__ import annotations

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it

from annulet.spark.engine import engine
from annulet.spark.engine.streaming import EFFECT_COLUMNS, TIMES
from annulet.spark.session import local_session
from tests.spark.engine.test_streaming import columns_of

BATCH_COMMANDS = 150
SHARDS = 3


def main(url: str, checkpoint: str) -> None:
    """Run the query, and start it again after a failure, as a supervisor would."""
    # Four attempts a task, as a cluster has: a killed Python worker costs an attempt, not the query.
    spark = local_session("engine", settings={"spark.master": "local[2,4]"})
    spark.sparkContext.setLogLevel("ERROR")
    while True:
        messages = (
            spark.readStream.format("annulet")
            .options(url=url, queue="in", lease="engine", maxMessagesPerTrigger=BATCH_COMMANDS, partitions=2)
            .load()
        )
        commands = messages.selectExpr(
            "position as sequence", "get_json_object(properties['document'], '$.queue') as queue",
            "properties['document'] as document", "body",
        )  # fmt: skip
        effects = engine(columns_of(commands), shards=SHARDS)
        times = {name: F.unix_millis(name) for name in EFFECT_COLUMNS if name in TIMES}
        rows = effects.withColumns(times).select(F.to_json(F.struct(*EFFECT_COLUMNS)).cast("binary").alias("body"))
        query = (
            rows.writeStream.format("annulet").options(url=url, address="out", checkpointLocation=checkpoint).start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            sys.stderr.write(f"query failed: {error}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
