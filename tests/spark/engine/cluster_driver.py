"""A driver with executors of its own: runs the engine over files of commands. Started by ``test_streaming.py``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from annulet.spark.engine import engine
from annulet.spark.session import local_session
from tests.spark.engine.test_streaming import Input, run

EXECUTORS = 2


def main(commands: str, directory: str) -> None:
    """Run the query over all files, one a batch, and print how many executors had a part in it."""
    spark = local_session(
        "cluster",
        settings={
            "spark.master": f"local-cluster[{EXECUTORS},1,1024]",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.executorEnv.ANNULET_PURE": os.environ.get("ANNULET_PURE", ""),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.warehouse.dir": str(Path(directory) / "warehouse"),
        },
    )
    spark.sparkContext.setLogLevel("ERROR")

    def daemons(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in frames:
            yield pd.DataFrame({"daemon": [os.getppid()]})  # each executor has one, its workers are its children

    found = spark.range(0, 64, 1, 16).mapInPandas(daemons, "daemon long").distinct().count()
    source = Input.__new__(Input)
    source.directory = Path(commands)
    run(engine(source.stream(spark), shards=4), Path(directory))
    print("executors", found)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
