"""One rule or several of one queue, as a function from DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from annulet.core.base.settings import LEAST_RECENT_KEY
from annulet.spark.operators.columns import CHANGE, REASON, REPLACED_BY, Columns, check, order_columns
from annulet.spark.operators.rules import OperatorError, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Operator:
    """Rules of one queue; ``dataframe.transform(operator)`` applies them, to a batch or to a stream.

    Batch: the remaining rows after all rows passed through the queue without consumers. Stream: the changes of these
    (``docs/spark-operators.md``). Raises :class:`OperatorError` when columns do not fit.
    """

    rules: Rules
    columns: Columns
    shards: int

    def __call__(self, dataframe: DataFrame) -> DataFrame:
        """Apply the rules."""
        check_composition(self.rules)
        streaming = dataframe.isStreaming
        new = order_columns(self.rules)
        if streaming and self.rules.stateful:
            new = (CHANGE, REASON, REPLACED_BY, *new)
        check(dataframe.schema, self.rules, self.columns, new)
        if streaming and self.rules.stateful:
            from annulet.spark.operators.streaming import apply_to_stream  # noqa: PLC0415 - pyspark is optional

            return apply_to_stream(dataframe, self.rules, self.columns, self.shards)
        from annulet.spark.operators.batch import apply_to_batch  # noqa: PLC0415

        return apply_to_batch(dataframe, self.rules, self.columns, self.shards)


def merge(operators: Sequence[Operator], columns: Columns | None, shards: int | None) -> Operator:
    """Put the rules of several operators together; ``None``: columns and shards are those of the operators.

    Raises :class:`OperatorError` where they contradict each other.
    """
    if not operators:
        raise OperatorError("combine(): no rule is given; give at least one, such as ring(1000)")
    usual = Rules()
    given: dict[str, Any] = {}
    for operator in operators:
        if not isinstance(operator, Operator):
            raise OperatorError(f"combine(): {operator!r} is no rule; give what ring(...), keep_last(...) return")
        for field in fields(Rules):
            value = getattr(operator.rules, field.name)
            if value == getattr(usual, field.name):
                continue
            if given.setdefault(field.name, value) != value:
                raise OperatorError(
                    f"combine(): {field.name} is {given[field.name]!r} in one rule and {value!r} in another; a queue "
                    "has one of each"
                )
    rules = Rules(**given)
    check_composition(rules)
    if columns is None:
        columns = operators[0].columns
        if any(operator.columns != columns for operator in operators):
            raise OperatorError("combine(): rules of one queue need the same columns; give columns= to combine only")
    if shards is None:
        shards = operators[0].shards
        if any(operator.shards != shards for operator in operators):
            raise OperatorError("combine(): rules of one queue need the same shards; give shards= to combine only")
    return Operator(rules, columns, shards)


def check_composition(rules: Rules) -> None:
    """Raise :class:`OperatorError` for settings that a queue refuses as well."""
    if rules.sort_key and rules.prioritised:
        raise OperatorError("sort_by and prioritise are both an order; a queue has one: choose")
    if rules.priorities >= 0 and rules.max_priority >= 0:
        raise OperatorError("levels and max_priority both number the levels; a queue has one of them: choose")
    if rules.evict == LEAST_RECENT_KEY and not rules.key:
        raise OperatorError("evict='least-recent-key': there are no keys without keep_last; add it, or evict 'oldest'")
