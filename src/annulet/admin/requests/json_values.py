"""Values of messages, arguments and client properties as JSON, and rates beside counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from annulet.broker.operation.plain_values import DEPTH_MAX, json_object, json_value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEPTH_MAX", "json_object", "json_value", "with_rates"]


def with_rates(values: Mapping[str, int], rates: Mapping[str, float]) -> dict[str, Any]:
    """Return counters, each followed by its ``NAME_details`` with the change a second."""
    detailed: dict[str, Any] = {}
    for name, value in values.items():
        detailed[name] = value
        detailed[f"{name}_details"] = {"rate": round(rates.get(name, 0.0), 3)}
    return detailed
