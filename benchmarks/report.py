"""Medians over the rounds, ratios to RabbitMQ, and the table."""

from __future__ import annotations

import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.scenarios import SCENARIOS, Figures, Scenario

REFERENCE = "RabbitMQ"
Results = dict[str, dict[str, list[Figures]]]
"""Figures of each round, by scenario and broker."""

Summary = dict[str, dict[str, dict[str, float | None]]]
"""Medians of all rounds, by scenario and broker."""

FULL_CORE = 0.85
"""A load generator that uses more of its core than this may be what limits the rate."""


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
        "generator": median("own_cpu_us_per_msg"),
        "written": median("written_per_byte"),
    }


def ratio(numerator: float, denominator: float) -> float | None:
    """Return how many times ``denominator`` fits into ``numerator``; None when that says nothing."""
    return numerator / denominator if numerator > 0 and denominator > 0 else None


def compare(results: Results) -> Summary:
    """Return medians by scenario and broker, with ``rate_ratio`` and ``cpu_ratio``: times better than RabbitMQ."""
    summary: Summary = {}
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


def generator_limits(row: dict[str, float | None]) -> bool:
    """Whether the load generator was busy all the time, so that the broker may be faster than the rate says."""
    return (row["rate"] or 0.0) * (row["generator"] or 0.0) / 1e6 > FULL_CORE


def cell(value: float | None, form: str = ",.0f") -> str:
    """Format one figure; a figure that does not apply is a dash."""
    return "–" if value is None or value <= 0 else format(value, form)


def show(results: Results, console: Console) -> None:
    """Print one table: a section per scenario, a row per broker."""
    table = Table(title="Medians; load generator on the same machine", title_justify="left")
    table.add_column("load")
    table.add_column("broker")
    latencies, memory = ("p50 µs", "p99 µs", "p99.9 µs"), ("RAM B/msg", "disk B/B")
    for heading in ("msg/s", "×", "CPU µs/msg", "÷", *latencies, *memory, "foreign cores"):
        table.add_column(heading, justify="right")
    summary = compare(results)
    for scenario in SCENARIOS:
        for position, (broker, row) in enumerate(summary.get(scenario.name, {}).items()):
            title = title_of(scenario) if position == 0 else ""
            table.add_row(title, broker, *cells(scenario, row))
        table.add_section()
    console.print(table)
    console.print(
        "× rate over RabbitMQ's, ÷ RabbitMQ's CPU over this one's, disk bytes written a byte of bodies; foreign cores: "
        "used by other processes meanwhile; > the load generator's core was full"
    )


def title_of(scenario: Scenario) -> str:
    """Return a load's title; that of a slow disk says so."""
    return f"slow disk: {scenario.title}" if scenario.slow else scenario.title


def cells(scenario: Scenario, row: dict[str, float | None]) -> list[str]:
    """Return a row's figures; latencies where the load is paced, memory where messages stay in the queue."""
    stays = scenario.name == "backlog"
    latencies = [cell(row[key]) if scenario.paced else "–" for key in ("p50", "p99", "p999")]
    return [
        (">" if generator_limits(row) else "") + cell(row["rate"]),
        cell(row["rate_ratio"], ".2f"),
        cell(row["cpu"], ".1f"),
        cell(row["cpu_ratio"], ".1f"),
        *latencies,
        cell(row["memory"]) if stays else "–",
        cell(row["written"], ".2f") if stays else "–",
        format(row["foreign"] or 0.0, ".2f"),
    ]
