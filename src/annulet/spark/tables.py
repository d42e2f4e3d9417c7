"""Tables of Spark's catalog: ``CREATE TABLE orders USING annulet OPTIONS (url '...', queue 'orders')``.

Spark 4.3 gives a Python source the options of a table once, when it is created, and none when it is read or written. A
source only gets the table's schema then. So the options are stored as metadata of its columns.

The metadata of a column is kept in a selection from it. An ``INSERT`` from one such table into another may therefore
have the options of the table that was read. Then the rows have positions of that queue, which an ``INSERT`` of other
rows never has: :func:`refuse_read_rows` refuses them.

``saveAsTable`` gives a new table its own columns, so that it would have no options. Spark plans its write like one of
``save``, with the same arguments: the difference is in the local properties of the tasks, see :func:`creation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql import types

from annulet.spark.options import READ_OPTIONS, WRITE_OPTIONS, OptionError
from annulet.spark.query_ids import QUERY_PROPERTY
from annulet.spark.schema import TYPES

if TYPE_CHECKING:
    import pyarrow as pa

METADATA: Final = "annulet"
"""Name of the options in the metadata of a column."""

PROVIDER: Final = "provider"
"""Option that Spark adds when a table is created, and only then."""

OF_SPARK: Final = frozenset(
    (PROVIDER, "owner", "location", "path", "external", "comment", "collation", "is_managed_location")
)
COPIES: Final = "option."
"""Prefix under which Spark gives each option a second time."""

POSITION: Final = "position"

EXECUTION_PROPERTY: Final = "spark.sql.execution.id"
ROOT_PROPERTY: Final = "spark.sql.execution.root.id"
"""Local properties of every task of a query: the execution it belongs to, and the outermost one around that."""

CALL_PROPERTY: Final = "callSite.long"
"""Local property of a task of a streaming query: the call that started it, unless that was one of Spark Connect."""

TO_TABLE: Final = "DataStreamWriter.toTable("

_TYPES: Final[dict[str, types.DataType]] = {
    "bigint": types.LongType(),
    "binary": types.BinaryType(),
    "int": types.IntegerType(),
    "boolean": types.BooleanType(),
    "timestamp": types.TimestampType(),
    "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    "string": types.StringType(),
}

INSERT_REMEDY: Final = (
    "Spark passes no options of this table: create it without columns of its own (CREATE TABLE t USING annulet OPTIONS "
    "(url '...', queue '...')), or give them with the statement (INSERT INTO t WITH (url = '...', address = '...'))"
)

CREATION_REMEDY: Final = (
    "nothing was published: saveAsTable, writeTo(...).create() and CREATE TABLE ... AS SELECT make a table that has no "
    "options, so it could not be read; publish with .save(), or create the table first (CREATE TABLE t USING annulet "
    "OPTIONS (url '...', queue '...')) and insert into it (INSERT INTO t ...)"
)

TO_TABLE_REMEDY: Final = (
    "nothing was published: a stream does not get the options of the table that toTable names, or makes; start it with "
    ".start(), and if toTable made the table, drop it (DROP TABLE t)"
)


def created(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the user's options of a table being created; ``None`` if there is none."""
    given = {name.lower(): value for name, value in options.items()}
    if PROVIDER not in given:
        return None
    return {name: value for name, value in given.items() if name not in OF_SPARK and not name.startswith(COPIES)}


def for_reading(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table but for those of writes."""
    others = {name.lower() for name in WRITE_OPTIONS} - {name.lower() for name in READ_OPTIONS}
    return {name: value for name, value in options.items() if name not in others}


def for_writing(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table but for those of reads. Without a destination it is the queue."""
    others = {name.lower() for name in READ_OPTIONS} - {name.lower() for name in WRITE_OPTIONS}
    chosen = {name: value for name, value in options.items() if name not in others}
    if "queue" in options and chosen.keys().isdisjoint(("address", "exchange", "routingkey")):
        chosen["address"] = options["queue"]
    return chosen


def schema_with(columns: Sequence[str], options: Mapping[str, str]) -> types.StructType:
    """Return the schema of a table with these columns, which carries its options."""
    metadata = {METADATA: dict(options)}
    return types.StructType([
        types.StructField(name, _TYPES[TYPES.get(name, "string")], True, metadata) for name in columns
    ])  # fmt: skip


def carried(schema: types.StructType) -> dict[str, str] | None:
    """Return the options that every column of a schema carries; ``None`` when they differ, or there are none."""
    found = [(field.metadata or {}).get(METADATA) for field in schema.fields]
    return dict(found[0]) if found and found[0] and all(options == found[0] for options in found) else None


def creation() -> OptionError | None:
    """Return why the batch write of this task must not be done: it is part of a command that creates a table.

    Spark 4.3 runs such a write in an execution of its own, inside of the command's. No other write is inside of one
    (run with ``save``, ``insertInto``, ``INSERT``, ``EXECUTE IMMEDIATE`` and SQL scripts), but for all that happens in
    ``foreachBatch``: there a ``saveAsTable`` cannot be told from a ``save``.
    """
    context = TaskContext.get()
    if context is None:
        return None
    inner, outer = context.getLocalProperty(EXECUTION_PROPERTY), context.getLocalProperty(ROOT_PROPERTY)
    if inner == outer or context.getLocalProperty(QUERY_PROPERTY) is not None:
        return None
    return OptionError(CREATION_REMEDY)


def streamed_to_table(context: TaskContext) -> OptionError | None:
    """Return why the streaming write of a task must not be done: ``toTable`` started it.

    Spark Connect starts all streams with the same call, so there it is not found out.
    """
    call = context.getLocalProperty(CALL_PROPERTY) or ""
    return OptionError(TO_TABLE_REMEDY) if TO_TABLE in call.partition("\n")[0] else None


def refuse_read_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches whose rows were not read from a queue. Raises :class:`OptionError` for one that has a position."""
    for batch in batches:
        place = batch.schema.get_field_index(POSITION)
        if place < 0 or batch.column(place).null_count < batch.num_rows:
            raise OptionError(
                "rows that were read from a queue cannot be inserted without options, as Spark does not say into which "
                "table: leave out the columns position and queue, or give the options with the statement (INSERT INTO "
                "t WITH (url = '...', address = '...'))"
            )
        yield batch
