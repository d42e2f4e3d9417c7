"""How long a start takes with a deep backlog: after a clean stop and after ``kill -9``.

``python -m benchmarks.restart`` fills a durable queue with a million persistent messages of 1 KiB, kills the broker
with the last confirm, starts it, stops it in good order, and starts it again. Each start is timed twice: until the
broker greets, and until a client has its first message.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pika
from rich.console import Console

from benchmarks.backlog import BODY_BYTES, SHALLOW, run
from benchmarks.brokers import ROOT, Annulet, BrokerError, Running, answers, free_port, wait_until
from benchmarks.scenarios import AMQP091, build_generator

QUEUE: Final = "deep-0"
"""The load generator numbers its queues."""

STOP_SECONDS_MAX: Final = 120.0


class Start:
    """What one start took, in seconds, and what it found."""

    def __init__(self, ready: float, first_delivery: float, waiting: int) -> None:
        self.ready = ready
        self.first_delivery = first_delivery
        self.waiting = waiting


def first_message(port: int) -> int:
    """Get one message of the queue and put it back; return how many there are."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    method, _, _ = channel.basic_get(QUEUE)
    if method is None:
        raise BrokerError(f"nothing in {QUEUE} after the start")
    waiting = int(method.message_count) + 1
    connection.close()
    return waiting


@contextlib.contextmanager
def started(folder: Path, *, pure: bool, killed: bool) -> Iterator[tuple[Running, float]]:
    """Start Annulet with the data in ``folder``; yield it and when it was started. End it by a signal."""
    port, log = free_port(), folder / "log"
    command = [str(ROOT / ".venv" / "bin" / "annulet"), "serve", "--data", str(folder / "data")]
    command += ["--amqp", f"127.0.0.1:{port}", "--http", "off", "--bulk", "off", "--stomp", "off"]
    environment = {**os.environ, "ANNULET_PURE": "1" if pure else "0"}
    with log.open("ab") as output:
        at = time.monotonic()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_until(lambda: answers(port), process, log)
            yield Running(port, process.pid), at
        finally:
            process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
            process.wait(STOP_SECONDS_MAX)


def timed_start(folder: Path, *, pure: bool) -> Start:
    """Start it, take the times, and end it in good order."""
    with started(folder, pure=pure, killed=False) as (broker, at):
        ready = time.monotonic() - at
        waiting = first_message(broker.port)
        return Start(ready, time.monotonic() - at, waiting)


@click.command()
@click.option("--count", type=click.IntRange(SHALLOW), default=1_000_000, show_default=True, help="Messages.")
@click.option("--pure/--compiled", default=False, help="Which build.")
def main(count: int, *, pure: bool) -> None:
    """Fill a queue, and start the broker after a kill and after a clean stop."""
    console = Console()
    reason = Annulet("Annulet", pure=pure).missing()
    if reason:
        raise click.ClickException(reason)
    with tempfile.TemporaryDirectory(prefix="annulet-restart-") as scratch:
        folder = Path(scratch)
        program = build_generator(AMQP091, folder)
        with started(folder, pure=pure, killed=True) as (broker, _):
            arguments = ["--queue", "deep-", "--count", str(count), "--consumers", "0", "--persistent", "--durable"]
            filled = run(program, broker, *arguments, "--confirm", "1000", "--time", str(count), count=count)
        after_kill = timed_start(folder, pure=pure)
        after_stop = timed_start(folder, pure=pure)
    console.print(f"{count:,} messages of {BODY_BYTES} bytes, published at {filled['send_rate']:,.0f}/s")
    for name, start in (("kill -9", after_kill), ("clean stop", after_stop)):
        console.print(
            f"after {name}: ready in {start.ready:.1f} s, first delivery after {start.first_delivery:.1f} s, "
            f"{start.waiting:,} messages"
        )
        if start.waiting != count:
            raise click.ClickException(f"after {name}: {start.waiting} of {count} messages are there")


if __name__ == "__main__":
    main()
