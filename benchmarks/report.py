"""Medians over the rounds, ratios to RabbitMQ, and the table."""

from __future__ import annotations

import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.scenarios import SCENARIOS, Scenario

REFERENCE = "RabbitMQ"
Figures = dict[str, Any]
Results = dict[str, dict[str, list[Figures]]]
"""Figures of each round, by scenario and broker."""


def summarise(rounds: list[Figures]) -> dict[str, float]:
    """Return the median of each figure that is reported. Rates are messages per second, times microseconds."""

    def median(*path: str) -> float:
        values = []
        for figures in rounds:
            value: Any = figures
            for key in path:
                value = value[key]
            values.append(float(value))
        return statistics.median(values)

    received = all(figures["received"] for figures in rounds)
    return {
        "rate": median("recv_rate" if received else "send_rate"),
        "cpu": median("broker_us_per_msg"),
        "p50": median("lat_us", "p50"),
        "p99": median("lat_us", "p99"),
        "p999": median("lat_us", "p999"),
        "memory": median("memory_per_message"),
        "foreign": median("foreign_cores"),
    }


def ratio(numerator: float, denominator: float) -> float | None:
    """Return how many times ``denominator`` fits into ``numerator``; None when that says nothing."""
    return numerator / denominator if numerator > 0 and denominator > 0 else None


def compare(results: Results) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return medians by scenario and broker, with ``rate_ratio`` and ``cpu_ratio``: times better than RabbitMQ."""
    summary: dict[str, dict[str, dict[str, float | None]]] = {}
    for scenario, by_broker in results.items():
        medians = {broker: summarise(rounds) for broker, rounds in by_broker.items() if rounds}
        reference = medians.get(REFERENCE)
        summary[scenario] = {}
        for broker, figures in medians.items():
            row: dict[str, float | None] = {**figures, "rate_ratio": None, "cpu_ratio": None}
            if reference is not None:
                row["rate_ratio"] = ratio(figures["rate"], reference["rate"])
                row["cpu_ratio"] = ratio(reference["cpu"], figures["cpu"])
            summary[scenario][broker] = row
    return summary


def cell(value: float | None, form: str = ",.0f") -> str:
    """Format one figure; a figure that does not apply is a dash."""
    return "–" if value is None or value <= 0 else format(value, form)


def show(results: Results, console: Console) -> None:
    """Print one table: a section per scenario, a row per broker."""
    table = Table(title="Medians; load generator on the same machine", title_justify="left")
    table.add_column("load")
    table.add_column("broker")
    for heading in ("msg/s", "×", "CPU µs/msg", "÷", "p50 µs", "p99 µs", "p99.9 µs", "RAM B/msg", "foreign cores"):
        table.add_column(heading, justify="right")
    summary = compare(results)
    for scenario in SCENARIOS:
        for position, (broker, row) in enumerate(summary.get(scenario.name, {}).items()):
            title = scenario.title if position == 0 else ""
            table.add_row(title, broker, *cells(scenario, row))
        table.add_section()
    console.print(table)
    console.print(
        "× rate over RabbitMQ's, ÷ RabbitMQ's CPU over this one's; foreign cores: used by other processes meanwhile"
    )


def cells(scenario: Scenario, row: dict[str, float | None]) -> list[str]:
    """Return a row's figures; latencies where the load is paced, memory where messages stay in the queue."""
    paced, stays = "--rate" in scenario.arguments, scenario.name == "backlog"
    latencies = [cell(row[key]) if paced else "–" for key in ("p50", "p99", "p999")]
    return [
        cell(row["rate"]),
        cell(row["rate_ratio"], ".2f"),
        cell(row["cpu"], ".1f"),
        cell(row["cpu_ratio"], ".1f"),
        *latencies,
        cell(row["memory"]) if stays else "–",
        format(row["foreign"] or 0.0, ".2f"),
    ]
