"""A driver process to be killed: moves one queue to another until it is ended. Started by ``test_exactly_once.py``."""

from __future__ import annotations

import sys

from pyspark.errors import StreamingQueryException

from annulet.spark.session import local_session


def main(url: str, checkpoint: str, *, persistent: bool) -> None:
    """Run the query; start it again after a failure when ``persistent``, as a supervisor would."""
    # Four attempts a task, as a cluster has: a killed Python worker costs an attempt, not the query.
    spark = local_session("pipe", settings={"spark.master": "local[2,4]"})
    spark.sparkContext.setLogLevel("ERROR")
    while True:
        stream = (
            spark.readStream.format("annulet")
            .options(url=url, queue="in", lease="pipe", maxMessagesPerTrigger=150, partitions=2)
            .load()
        )
        query = (
            stream.select("body", "message_id")
            .writeStream.format("annulet")
            .options(url=url, address="out", checkpointLocation=checkpoint)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            sys.stderr.write(f"query failed: {error}\n")
            if not persistent:
                sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], persistent=sys.argv[3] == "persistent")
