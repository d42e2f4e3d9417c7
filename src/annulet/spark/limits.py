"""Limits of a micro-batch: the options, and their combination with the trigger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from annulet.bulk.protocol import protocol

if TYPE_CHECKING:
    from annulet.spark.options import ReadOptions


def batch_limits(options: ReadOptions, limit: ReadLimit) -> tuple[int, int]:
    """Return the messages and body bytes of the next batch; -1 is no limit.

    A value of the trigger overrides the option; a trigger for everything at once removes both limits.
    """
    if isinstance(limit, ReadAllAvailable):
        return protocol.ANY, protocol.ANY
    messages_max, bytes_max = options.messages_max, options.bytes_max
    if isinstance(limit, ReadMaxRows):
        messages_max = limit.max_rows
    elif isinstance(limit, ReadMaxBytes):
        bytes_max = limit.max_bytes
    return messages_max, bytes_max
