"""The Spark schema of a read, and the allowed forms of a user's ``.schema(...)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from annulet.bulk.protocol.schema import select_columns
from annulet.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPES: Final = {
    "position": "bigint",
    "sequence": "bigint",
    "body": "binary",
    "priority": "int",
    "durable": "boolean",
    "timestamp": "timestamp",
    "enqueued_at": "timestamp",
    "expires_at": "timestamp",
    "delivery_count": "bigint",
    "redelivered": "boolean",
    "properties": "map<string,string>",
}
"""Spark's types of the columns; those not named are ``string``."""


def read_schema(names: Sequence[str]) -> str:
    """Return the DDL of a read of these columns."""
    return ", ".join(f"{name} {TYPES.get(name, 'string')}" for name in names)


def columns_of(schema: StructType) -> list[str]:
    """Return the columns of a schema, checked against ours. Raises :class:`OptionError` or ``InvalidRequestError``."""
    columns = select_columns(schema.names)
    for field in schema.fields:
        wanted = TYPES.get(field.name, "string")
        if field.dataType.simpleString() != wanted:
            raise OptionError(
                f"schema: column {field.name!r} has type {wanted}, not {field.dataType.simpleString()}; cast it "
                "in a select"
            )
    return columns
