"""A deep backlog: rates at depth against rates of a short queue, and memory, of one broker in one run.

``python -m benchmarks.backlog`` publishes a million persistent messages of 1 KiB that nobody takes, then takes them.
The same broker did both with 20,000 messages five times before: their medians are a short queue's rates. Ratios are
printed, which a busy machine changes less than rates.
``--argument x-priorities=10`` declares the queues so: what is not plain keeps its messages and pages their bodies.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
import pika
from rich.console import Console

from benchmarks.brokers import Annulet, Running
from benchmarks.scenarios import AMQP091, GeneratorError, build_generator, run_generator

SHALLOW: Final = 20_000
SHALLOW_ROUNDS: Final = 5
"""A round is a third of a second: single ones differ by half."""

BODY_BYTES: Final = 1024
SAMPLE_SECONDS: Final = 0.1
PAGE_BYTES: Final = 4096
SECONDS_PER_MESSAGE: Final = 0.001
"""Before a run counts as hanging: many times what the slowest build needs."""


class MemorySampler(threading.Thread):
    """Looks at a process's resident set ten times a second."""

    def __init__(self, process_id: int) -> None:
        super().__init__(daemon=True)
        self.highest = 0  # bytes
        self._path = Path(f"/proc/{process_id}/statm")
        self._ended = threading.Event()

    def run(self) -> None:
        """Sample until :meth:`end`."""
        while not self._ended.wait(SAMPLE_SECONDS):
            self.highest = max(self.highest, self.resident())

    def resident(self) -> int:
        """Return the resident set now, in bytes."""
        return int(self._path.read_text().split()[1]) * PAGE_BYTES

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self.join()


def run(program: Path, broker: Running, *arguments: str, count: int) -> dict[str, Any]:
    """Run the load generator once and return its figures."""
    command = [str(program), "--port", str(broker.port), "--pid", str(broker.process_id), "--size", str(BODY_BYTES)]
    return run_generator([*command, *arguments], " ".join(arguments), 120 + count * SECONDS_PER_MESSAGE)


def declare(broker: Running, queue: str, arguments: dict[str, Any]) -> None:
    """Declare the durable queue that the load generator will use."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    connection.channel().queue_declare(f"{queue}0", durable=True, arguments=arguments)
    connection.close()


def read_arguments(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return queue arguments by name; what looks like a number is one."""
    pairs = [text.partition("=") for text in texts]
    return {name: int(value) if value.lstrip("-").isdigit() else value for name, _, value in pairs}


def fill_and_drain(program: Path, broker: Running, queue: str, count: int) -> tuple[float, float]:
    """Return the rates at which ``count`` messages went into a queue and came out, in messages a second."""
    publish = [
        "--consumers",
        "0",
        "--no-declare",
        "--persistent",
        "--durable",
        "--confirm",
        "1000",
        "--time",
        str(count),
    ]
    consume = ["--producers", "0", "--no-declare", "--expect", str(count), "--prefetch", "1000", "--time", str(count)]
    filled = run(program, broker, "--queue", queue, "--count", str(count), "--time", str(count), *publish, count=count)
    drained = run(program, broker, "--queue", queue, *consume, count=count)
    if drained["received"] != count:
        raise GeneratorError(f"{queue}: {drained['received']} of {count} messages came out")
    return filled["send_rate"], drained["recv_rate"]


@click.command()
@click.option("--count", type=click.IntRange(SHALLOW), default=1_000_000, show_default=True, help="Messages.")
@click.option("--pure/--compiled", default=False, help="Which build.")
@click.option("--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument of the queues.")
def main(count: int, arguments: tuple[str, ...], *, pure: bool) -> None:
    """Fill a queue and drain it; print the rates beside those of a short queue, and the memory it took."""
    console = Console()
    annulet = Annulet("Annulet", pure=pure)
    reason = annulet.missing()
    if reason:
        raise click.ClickException(reason)
    with tempfile.TemporaryDirectory(prefix="annulet-load-") as scratch:
        program = build_generator(AMQP091, Path(scratch))
        with annulet.running() as broker:
            sampler = MemorySampler(broker.process_id)
            idle = sampler.resident()
            for queue in ("warm-", "shallow-", "deep-"):
                declare(broker, queue, read_arguments(arguments))
            fill_and_drain(program, broker, "warm-", SHALLOW)
            rounds = [fill_and_drain(program, broker, "shallow-", SHALLOW) for _ in range(SHALLOW_ROUNDS)]
            shallow = [median(rates) for rates in zip(*rounds, strict=True)]
            sampler.start()
            try:
                deep = fill_and_drain(program, broker, "deep-", count)
            finally:
                sampler.end()
    console.print(f"{count:,} messages of {BODY_BYTES} bytes beside {SHALLOW:,}")
    for name, short, long in zip(("publish", "drain"), shallow, deep, strict=True):
        console.print(f"{name}: {long:,.0f}/s at depth, {short:,.0f}/s in a short queue, ratio {long / short:.2f}")
    console.print(f"resident set: {idle / 2**20:.0f} MiB idle, {sampler.highest / 2**20:.0f} MiB at most")


if __name__ == "__main__":
    main()
