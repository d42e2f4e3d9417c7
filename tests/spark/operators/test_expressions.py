"""Levels, groups and buckets as Spark works them out, beside the core's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from annulet.core.base.settings import GROUP_SHARED, QueueSettings
from annulet.core.message.message import Message, Origin
from annulet.core.policies.message_groups import GroupTable
from annulet.spark.operators import assign_groups
from tests.spark.operators.differential import COLUMNS, SentView, table_of, traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_groups_and_buckets_are_the_cores(spark: SparkSession) -> None:
    messages = traffic(5, 60)
    operator = assign_groups("key", buckets=7, default="none", columns=COLUMNS)
    rows = spark.createDataFrame(table_of(messages)).transform(operator).collect()
    settings = {"group_mode": GROUP_SHARED, "group_key": "key", "default_group": "none"}
    names = GroupTable(QueueSettings(**settings))  # type: ignore[arg-type]
    buckets = GroupTable(QueueSettings(**settings, group_buckets=7))  # type: ignore[arg-type]
    for row in rows:
        sent = messages[row.number - 1]
        message = Message(b"", b"", Origin("", "", "", SentView(sent)))
        assert row.group == names.name_of(message)
        assert buckets.name_of(message) == ("none" if row.bucket is None else f"bucket {row.bucket}")
    assert any(row.bucket is None for row in rows)
