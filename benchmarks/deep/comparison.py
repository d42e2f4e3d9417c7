"""``python -m benchmarks.deep.comparison``: the same backlog in RabbitMQ and in Annulet, one after the other.

Filled, stopped, started, killed, started, drained. RabbitMQ's classic queues run as they come and, a second time, lazy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.backlog import MemorySampler
from benchmarks.brokers import Annulet, BrokerError, RabbitMQ, Running
from benchmarks.deep.client import ClientError, first_delivery
from benchmarks.deep.outcome import MIB, shown
from benchmarks.deep.run import is_pure, load_generator
from benchmarks.scenarios import GeneratorError, run_generator

SHALLOW: Final = 10_000
BODY_BYTES: Final = 1024
SECONDS_PER_MESSAGE: Final = 0.002
RESTART_SECONDS_PER_MESSAGE: Final = 0.0002
"""Patience with a start or stop: RabbitMQ with ten million does not answer within 90 s of its start."""
QUEUE: Final = "backlog-0"
REFERENCE: Final = "RabbitMQ"


@dataclasses.dataclass
class Figures:
    """What one broker did. Rates in messages a second, sizes in MiB, times in seconds."""

    idle_memory: float = 0.0
    highest_memory: float = 0.0
    publish_rate: float = 0.0
    drain_rate: float = 0.0
    publish_ratio: float = 0.0  # over the rate of a short queue
    drain_ratio: float = 0.0
    clean_start: float = 0.0
    clean_first: float = 0.0  # from subscribing to the first message, after that start
    killed_start: float = 0.0
    killed_first: float = 0.0
    missing: float = 0.0  # messages that were not there any more at the end


TITLES: Final = {
    "idle_memory": ("resident set, idle, MiB", False),
    "highest_memory": ("resident set, highest, MiB", False),
    "publish_rate": ("publish at depth, msg/s", True),
    "publish_ratio": ("over that into a short queue", True),
    "drain_rate": ("drain, msg/s", True),
    "drain_ratio": ("over that of a short queue", True),
    "clean_start": ("start after a clean stop, s", False),
    "clean_first": ("then first message after, s", False),
    "killed_start": ("start after kill -9, s", False),
    "killed_first": ("then first message after, s", False),
    "missing": ("messages missing", False),
}
"""Text of each figure, and whether more is better."""


class Contestant:
    """A broker with the arguments its queue is declared with."""

    def __init__(self, name: str, broker: Annulet | RabbitMQ, *arguments: str) -> None:
        self.name = name
        self.broker = broker
        self.arguments = arguments


def contestants(*, pure: bool, lazy: bool = True) -> list[Contestant]:
    """Return who takes part, the reference first; ``lazy``: RabbitMQ's lazy queues too."""
    build = "pure" if pure else "compiled"
    return [
        Contestant(REFERENCE, RabbitMQ()),
        *([Contestant("RabbitMQ lazy", RabbitMQ(), "--arg", "x-queue-mode=lazy")] if lazy else []),
        Contestant(f"Annulet {build}", Annulet(f"Annulet {build}", pure=pure)),
    ]


class Loads:
    """Runs the load generator against a broker."""

    def __init__(self, program: Path, arguments: tuple[str, ...]) -> None:
        self._program = program
        self._arguments = arguments

    def fill(self, running: Running, queue: str, count: int) -> float:
        """Publish with confirms; return the rate."""
        confirmed = ["--consumers", "0", "--persistent", "--durable", "--confirm", "1000", "--count", str(count)]
        return self._run(running, queue, count, [*confirmed, *self._arguments])["send_rate"]

    def drain(self, running: Running, queue: str, count: int) -> tuple[float, int]:
        """Take and acknowledge; return the rate and how many came."""
        consume = ["--producers", "0", "--no-declare", "--prefetch", "1000", "--expect", str(count)]
        figures = self._run(running, queue, count, consume)
        return figures["recv_rate"], int(figures["received"])

    def _run(self, running: Running, queue: str, count: int, arguments: list[str]) -> dict[str, float]:
        command = [str(self._program), "--port", str(running.port), "--pid", str(running.process_id)]
        command += ["--size", str(BODY_BYTES), "--queue", queue, "--time", str(max(60, count)), "--idle", "60"]
        return run_generator([*command, *arguments], queue, 120 + count * SECONDS_PER_MESSAGE)


@contextlib.contextmanager
def sampled(running: Running, figures: Figures) -> Iterator[None]:
    """Note the highest resident set."""
    sampler = MemorySampler(running.process_id)
    sampler.start()
    try:
        yield
    finally:
        sampler.end()
        figures.highest_memory = max(figures.highest_memory, sampler.highest / MIB)


def measure(contestant: Contestant, loads: Loads, count: int, folder: Path) -> Figures:
    """Take one broker through everything. Raises BrokerError, ClientError and GeneratorError."""
    figures, broker = Figures(), contestant.broker
    with broker.serving(folder, count * RESTART_SECONDS_PER_MESSAGE) as running:
        figures.idle_memory = MemorySampler(running.process_id).resident() / MIB
        loads.fill(running, "warm-", SHALLOW)
        loads.drain(running, "warm-", SHALLOW)
        published = loads.fill(running, "shallow-", SHALLOW)
        drained, _ = loads.drain(running, "shallow-", SHALLOW)
        with sampled(running, figures):
            figures.publish_rate = loads.fill(running, "backlog-", count)
        figures.publish_ratio = figures.publish_rate / published
    began = time.monotonic()
    with broker.serving(folder, count * RESTART_SECONDS_PER_MESSAGE) as running:
        figures.clean_start = time.monotonic() - began
        figures.clean_first = first_delivery(running.port, QUEUE)
        os.kill(running.process_id, signal.SIGKILL)
    began = time.monotonic()
    with broker.serving(folder, count * RESTART_SECONDS_PER_MESSAGE) as running:
        figures.killed_start = time.monotonic() - began
        figures.killed_first = first_delivery(running.port, QUEUE)
        with sampled(running, figures):
            figures.drain_rate, received = loads.drain(running, "backlog-", count)
        figures.drain_ratio = figures.drain_rate / drained
        figures.missing = count - received
    return figures


def ratio(figure: str, value: float, reference: float) -> str:
    """Return how many times better than the reference; a dash where that says nothing."""
    if value <= 0 or reference <= 0:
        return "–"
    return f"{value / reference if TITLES[figure][1] else reference / value:.2f}"


def show(results: dict[str, Figures], count: int, console: Console) -> None:
    """Print a row for each figure, and beside those of others how many times better than the reference's they are."""
    table = Table(title=f"Backlog of {count:,} messages of {BODY_BYTES} bytes", title_justify="left")
    table.add_column("figure")
    for name in results:
        table.add_column(name, justify="right")
        if name != REFERENCE and REFERENCE in results:
            table.add_column("×", justify="right")
    for field, (title, _) in TITLES.items():
        cells = []
        for name, figures in results.items():
            value = getattr(figures, field)
            cells.append(shown(value))
            if name != REFERENCE and REFERENCE in results:
                cells.append(ratio(field, value, getattr(results[REFERENCE], field)))
        table.add_row(title, *cells)
    console.print(table)
    console.print("×: how many times better than RabbitMQ; more of a rate, less of memory and time")


@click.command()
@click.option("--count", type=click.IntRange(SHALLOW), default=300_000, show_default=True, help="Messages.")
@click.option("--pure/--compiled", default=None, help="Which build of Annulet.  [default: compiled if there]")
@click.option("--lazy/--no-lazy", default=True, show_default=True, help="RabbitMQ's lazy queues as well.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="All figures as JSON.")
def main(count: int, *, pure: bool | None, lazy: bool, json_file: Path | None) -> None:
    """Run all that can run here and print the table."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    pure = is_pure(pure)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # no broker is left behind
    results: dict[str, Figures] = {}
    failures: list[str] = []
    with load_generator() as program:
        for contestant in contestants(pure=pure, lazy=lazy):
            reason = contestant.broker.missing()
            if reason:
                console.print(f"backlog: {contestant.name} is left out: {reason}", markup=False)
                continue
            console.print(f"backlog: {contestant.name}")
            with tempfile.TemporaryDirectory(prefix="annulet-backlog-", ignore_cleanup_errors=True) as folder:
                try:
                    results[contestant.name] = measure(
                        contestant, Loads(program, contestant.arguments), count, Path(folder)
                    )
                except (BrokerError, ClientError, GeneratorError, OSError) as error:
                    failures.append(f"{contestant.name}: {error}")
    show(results, count, console)
    if json_file is not None:
        document = {name: dataclasses.asdict(figures) for name, figures in results.items()}
        json_file.write_text(json.dumps({"count": count, "results": document, "failures": failures}, indent=1) + "\n")
    for failure in failures:
        console.print(f"backlog: FAILED {failure}", markup=False)
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
