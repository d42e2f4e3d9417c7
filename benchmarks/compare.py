"""``make bench``: RabbitMQ, NATS and Annulet, pure and compiled, in turn under the same loads.

Rounds are interleaved (every broker once, then again), so that a busy spell of the machine does not hit one alone.
Each broker starts with an empty data folder in every round. A run with all loads and brokers renews
docs/performance.md, and every run leaves its figures in bench-report/. Options: ``make bench BENCH="--rounds 5"``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.brokers import ROOT, Broker, BrokerError, all_brokers
from benchmarks.disk import slow_disk, sync_milliseconds, why_no_slow_disk
from benchmarks.page import PAGE, draw, renew
from benchmarks.report import Results, compare, show
from benchmarks.scenarios import AMQP091, SCENARIOS, GeneratorError, Scenario, generator, run_scenario

Programs = dict[str, list[str]]
"""The words that start each load generator."""


def present(names: tuple[str, ...], console: Console) -> list[Broker]:
    """Return the brokers that can run here; say of each other one why not and what to do."""
    chosen = []
    for broker in all_brokers():
        if names and broker.name not in names:
            continue
        reason = broker.missing()
        if reason:
            console.print(f"bench: {broker.name} is left out: {reason}", markup=False)
        else:
            chosen.append(broker)
    return chosen


def programs_for(scenarios: list[Scenario], brokers: list[Broker], scratch: Path, console: Console) -> Programs:
    """Build the generators these loads need. One of another protocol that cannot be built is left out, with a word.

    Raises ClickException when that of AMQP 0-9-1 cannot.
    """
    programs: Programs = {}
    for name in dict.fromkeys(one.generator_for(broker) for one in scenarios for broker in brokers):
        try:
            if name:
                programs[name] = generator(name, scratch)
        except GeneratorError as error:
            if name == AMQP091:
                raise click.ClickException(str(error)) from error
            console.print(f"bench: the loads of {name} are left out: {error}", markup=False)
    return programs


def measure(
    programs: Programs,
    broker: Broker,
    scenarios: list[Scenario],
    scale: float,
    wrapper: Sequence[str],
    results: Results,
    console: Console,
) -> list[str]:
    """Run the scenarios on one broker, add the figures to ``results``, return what went wrong."""
    scenarios = [one for one in scenarios if one.generator_for(broker) in programs]
    if not scenarios:
        return []
    failures = []
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(broker.running(wrapper))
        except BrokerError as error:
            return [f"{broker.name}: {error}"]
        for scenario in scenarios:
            try:
                figures = run_scenario(programs[scenario.generator_for(broker)], scenario, broker, running, scale)
            except GeneratorError as error:
                failures.append(f"{broker.name}: {error}")
                continue
            results[scenario.name].setdefault(broker.name, []).append(figures)
            rate = figures["recv_rate"] or figures["send_rate"]
            console.print(f"  {scenario.title}: {rate:,.0f}/s, {figures['broker_us_per_msg']:.1f} µs/message")
    return failures


def measure_all(
    scenarios: list[Scenario], brokers: list[Broker], scale: float, delay: float, document: dict[str, Any],
    report: Path, console: Console,
) -> Results:  # fmt: skip
    """Run all rounds and return the figures; ``document`` and the report have those of each round when it ends."""
    results: Results = {one.name: {} for one in scenarios}
    ordinary = [one for one in scenarios if not one.slow]
    slow = [one for one in scenarios if one.slow]
    if slow and (reason := why_no_slow_disk()):
        console.print(f"bench: the loads of a slow disk are left out: {reason}", markup=False)
        slow = []
    with tempfile.TemporaryDirectory(prefix="annulet-bench-") as scratch:
        programs = programs_for(scenarios, brokers, Path(scratch), console)
        for number in range(1, document["rounds"] + 1):
            for one in brokers:
                console.print(f"bench: round {number} of {document['rounds']}: {one.name}")
                document["failures"] += measure(programs, one, ordinary, scale, (), results, console)
                document["failures"] += measure(programs, one, slow, scale, slow_disk(delay), results, console)
            document |= {"summary": compare(results), "results": results}
            report.mkdir(parents=True, exist_ok=True)
            (report / "figures.json").write_text(json.dumps(document, indent=1) + "\n")
    return results


@click.command()
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs of everything.")
@click.option("--only", type=click.Choice([one.name for one in SCENARIOS]), multiple=True, help="Just these loads.")
@click.option("--broker", type=click.Choice([one.name for one in all_brokers()]), multiple=True, help="Just these.")
@click.option(
    "--scale", type=click.FloatRange(0.001, 100.0), default=1.0, show_default=True, help="Times the messages."
)
@click.option("--delay", type=click.FloatRange(0.0, 1000.0), default=6.0, show_default=True,
              help="Milliseconds that a sync of the slow disk takes beyond what it takes here.")  # fmt: skip
@click.option("--report", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "bench-report",
              help="Folder for the figures as JSON and the plot; bench-report by default.")  # fmt: skip
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path),
              help="Renew this page between its marks; docs/performance.md when nothing is left out.")  # fmt: skip
def main(
    rounds: int, only: tuple[str, ...], broker: tuple[str, ...], scale: float, delay: float, report: Path,
    page: Path | None,
) -> None:  # fmt: skip
    """Compare the brokers and print rates, CPU per message, latencies, memory and ratios."""
    console = Console(width=None if sys.stdout.isatty() else 165)
    scenarios = [one for one in SCENARIOS if not only or one.name in only]
    brokers = present(broker, console)
    if not brokers:
        raise click.ClickException("no broker to measure; the lines above say what to do")
    document: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "sync_ms": sync_milliseconds(),
        "delay_ms": delay,
        "rounds": rounds,
        "scale": scale,
        "failures": [],
    }
    results = measure_all(scenarios, brokers, scale, delay, document, report, console)
    show(results, console)
    failures = document["failures"]
    plot = draw(document["summary"], report / "rates.svg")
    console.print(f"bench: {report / 'figures.json'}; {plot}", markup=False)
    if page is None and not failures and all(results.values()) and len(brokers) == len(all_brokers()):
        page = PAGE
    if page is not None:
        renew(page, document)
        console.print(f"bench: {page} is renewed", markup=False)
    for failure in failures:
        console.print(f"bench: FAILED {failure}", markup=False)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
