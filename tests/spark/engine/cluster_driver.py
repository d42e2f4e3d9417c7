"""A driver with executors of its own: runs the engine over files of commands. Started by ``test_cluster.py``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark

from annulet.spark.engine import engine
from annulet.spark.session import local_session
from tests.spark.engine.test_streaming import Input, run

EXECUTORS = 2


def main(master: str, commands: str, directory: str) -> None:
    """Run the query over all files, one a batch, and print how many executors there are at the end."""
    home = Path(directory) / "home"  # workers write below SPARK_HOME, where an environment is not theirs to change
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    spark = local_session(
        "cluster",
        settings={
            "spark.master": master,
            "spark.cores.max": str(EXECUTORS),
            "spark.executor.cores": "1",
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            "spark.executorEnv.ANNULET_PURE": os.environ.get("ANNULET_PURE", ""),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.warehouse.dir": str(Path(directory) / "warehouse"),
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    source = Input.__new__(Input)
    source.directory = Path(commands)
    run(engine(source.stream(spark), shards=4), Path(directory))
    context = spark.sparkContext._jsc
    assert context is not None
    print("executors", context.sc().getExecutorMemoryStatus().size() - 1)  # the driver is in it, too
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
