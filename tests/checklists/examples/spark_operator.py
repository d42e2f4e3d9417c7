"""A new operator leaves the same messages in a batch and in the book of a stream."""

from __future__ import annotations

import importlib
from typing import Any

from annulet.spark.operators.book import ENTRY, Book, Changes, Item
from annulet.spark.session import local_session

spark_package: Any = importlib.import_module("annulet.spark")
SIZES = (0, 2, 4, 1, 3)
OCTETS = 2
LEFT = [number for number, size in enumerate(SIZES) if size <= OCTETS]


def left_in_a_batch(operator: Any) -> list[int]:
    session = local_session("checklist", cores=1)
    try:
        rows = session.range(len(SIZES)).selectExpr(
            "id AS position", "'readings' AS queue", f"repeat('x', array{SIZES}[int(id)]) AS body"
        )
        return sorted(row.position for row in rows.transform(operator).collect())
    finally:
        session.stop()


def left_in_a_stream(operator: Any) -> list[int]:
    book = Book(operator.rules)
    changes = Changes()
    for number, size in enumerate(SIZES):
        book.arrive(Item(ENTRY, "readings", number, size=size), None, 0, changes)
    return [item.sequence for item in changes.left]


def refused(make: Any, *given: Any) -> bool:
    try:
        make(*given)
    except spark_package.OperatorError:
        return True
    return False


fit = spark_package.fit(OCTETS)
assert refused(spark_package.fit, -1)
assert refused(spark_package.combine, fit, spark_package.overflow("ring", max_bytes=OCTETS - 1))
assert left_in_a_stream(fit) == LEFT
assert left_in_a_batch(fit) == LEFT
