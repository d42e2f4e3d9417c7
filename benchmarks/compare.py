"""``make bench``: RabbitMQ and Annulet, pure and compiled, in turn under the same loads.

Rounds are interleaved (every broker once, then again), so that a busy spell of the machine does not hit one alone.
Each broker starts with an empty data folder in every round. Options: ``make bench BENCH="--rounds 5 --json FILE"``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from benchmarks.brokers import Broker, BrokerError, all_brokers
from benchmarks.report import Results, compare, show
from benchmarks.scenarios import AMQP091, SCENARIOS, GeneratorError, Scenario, build_generator, run_scenario


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


def programs_for(scenarios: list[Scenario], scratch: Path, console: Console) -> dict[str, Path]:
    """Build the generators these loads need. One of another protocol that cannot be built is left out, with a word.

    Raises ClickException when that of AMQP 0-9-1 cannot.
    """
    programs: dict[str, Path] = {}
    for name in dict.fromkeys(one.generator for one in scenarios):
        try:
            programs[name] = build_generator(name, scratch)
        except GeneratorError as error:
            if name == AMQP091:
                raise click.ClickException(str(error)) from error
            console.print(f"bench: the loads of {name} are left out: {error}", markup=False)
    return programs


def measure(
    programs: dict[str, Path],
    broker: Broker,
    scenarios: list[Scenario],
    scale: float,
    results: Results,
    console: Console,
) -> list[str]:
    """Run the scenarios on one broker, add the figures to ``results``, return what went wrong."""
    failures = []
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(broker.running())
        except BrokerError as error:
            return [f"{broker.name}: {error}"]
        for scenario in scenarios:
            program = programs.get(scenario.generator)
            if program is None:
                continue
            try:
                figures = run_scenario(program, scenario, running, scale)
            except GeneratorError as error:
                failures.append(f"{broker.name}: {error}")
                continue
            results[scenario.name].setdefault(broker.name, []).append(figures)
            rate = figures["recv_rate"] or figures["send_rate"]
            console.print(f"  {scenario.title}: {rate:,.0f}/s, {figures['broker_us_per_msg']:.1f} µs/message")
    return failures


@click.command()
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs of everything.")
@click.option("--only", type=click.Choice([one.name for one in SCENARIOS]), multiple=True, help="Just these loads.")
@click.option("--broker", type=click.Choice([one.name for one in all_brokers()]), multiple=True, help="Just these.")
@click.option(
    "--scale", type=click.FloatRange(0.001, 100.0), default=1.0, show_default=True, help="Times the messages."
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="All figures as JSON.")
def main(rounds: int, only: tuple[str, ...], broker: tuple[str, ...], scale: float, json_file: Path | None) -> None:
    """Compare the brokers and print rates, CPU per message, latencies, memory and ratios."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    scenarios = [one for one in SCENARIOS if not only or one.name in only]
    results: Results = {one.name: {} for one in scenarios}
    failures: list[str] = []
    brokers = present(broker, console)
    if not brokers:
        raise click.ClickException("no broker to measure; the lines above say what to do")
    with tempfile.TemporaryDirectory(prefix="annulet-bench-") as scratch:
        programs = programs_for(scenarios, Path(scratch), console)
        for number in range(1, rounds + 1):
            for one in brokers:
                console.print(f"bench: round {number} of {rounds}: {one.name}")
                failures += measure(programs, one, scenarios, scale, results, console)
    show(results, console)
    if json_file is not None:
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
        document = {"machine": machine, "rounds": rounds, "scale": scale, "summary": compare(results)}
        json_file.write_text(json.dumps({**document, "results": results, "failures": failures}, indent=1) + "\n")
    for failure in failures:
        console.print(f"bench: FAILED {failure}", markup=False)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
