"""How much a micro-batch may hold: the options, and what the trigger makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from annulet.bulk import protocol

if TYPE_CHECKING:
    from annulet.spark.options import ReadOptions


def batch_limits(options: ReadOptions, limit: ReadLimit) -> tuple[int, int]:
    """Return the messages and body bytes of the next batch; -1 is no limit.

    What the trigger says of one of them wins over the option; everything at once lifts both.
    """
    if isinstance(limit, ReadAllAvailable):
        return protocol.ANY, protocol.ANY
    messages_max, bytes_max = options.messages_max, options.bytes_max
    if isinstance(limit, ReadMaxRows):
        messages_max = limit.max_rows
    elif isinstance(limit, ReadMaxBytes):
        bytes_max = limit.max_bytes
    return messages_max, bytes_max
