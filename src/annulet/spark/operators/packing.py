"""How rows travel to Python workers and back without loss: pandas has no missing integers, and its own times.

Text and octets travel as they are, numbers and times as text, nested values as JSON; Spark itself converts, here and
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's name for it
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from annulet.spark.operators.columns import ATOMS
from annulet.spark.operators.expressions import named
from annulet.spark.operators.rules import OperatorError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JSON_OPTIONS: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX", "ignoreNullFields": "false"}
"""Times with the offset of their zone, down to seconds: offsets before the time of railways had some."""


def packed(name: str, kind: DataType) -> Column:
    """Return a column as it travels. Raises :class:`OperatorError` for a type that cannot."""
    column = named(name)
    simple = kind.simpleString().partition("(")[0]
    if simple in ("string", "binary"):
        return column
    if simple == "timestamp":
        return F.unix_micros(column).cast("string")
    if simple in ATOMS:
        return column.cast("string")
    if isinstance(kind, (ArrayType, MapType, StructType)) and _is_json(kind):
        return F.to_json(column, JSON_OPTIONS)
    raise OperatorError(
        f"column {name!r} has type {kind.simpleString()}, which the operator cannot carry; cast it to a string, or "
        "leave it out with .drop(...)"
    )


def packed_type(kind: DataType) -> str:
    """Return the type in which a column travels."""
    return "binary" if kind.simpleString() == "binary" else "string"


def unpacked(name: str, kind: DataType) -> Column:
    """Return a column as it was."""
    column = named(name)
    simple = kind.simpleString().partition("(")[0]
    if simple in ("string", "binary"):
        return column
    if simple == "timestamp":
        return F.timestamp_micros(column.cast("bigint"))
    if simple in ATOMS:
        return column.cast(kind)
    return F.from_json(column, _schema(kind), JSON_OPTIONS)


def as_text(column: Column, kind: str) -> Column:
    """Return an atom as text that is equal exactly where the value is."""
    if kind == "binary":
        return F.hex(column)
    if kind == "timestamp":
        return F.unix_micros(column).cast("string")
    return column.cast("string")


def texts(dataframe: DataFrame, names: dict[str, str]) -> DataFrame:
    """Return the DataFrame with atoms as text; ``names``: column to its type."""
    return dataframe.withColumns({name: as_text(named(name), kind) for name, kind in names.items()})


def _is_json(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_json(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_json(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_json(kind.valueType)
    return kind.simpleString().partition("(")[0] in ATOMS


def _schema(kind: DataType) -> Any:
    return kind.simpleString() if isinstance(kind, MapType) else kind
