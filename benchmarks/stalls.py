"""How long one client's doing keeps all others waiting: a purge, a deletion, a consumer's death, all of many messages.

``python -m benchmarks.stalls`` asks the broker a small question over and over on a connection of its own, and prints
the longest answers while something large goes on: what the event loop's longest turns look like from outside.
"""

from __future__ import annotations

import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import pika
from rich.console import Console

from benchmarks.backlog import MemorySampler, run
from benchmarks.brokers import Annulet, Running
from benchmarks.scenarios import AMQP091, build_generator

QUIET_SECONDS: Final = 1.0
"""Nothing more comes to a consumer when nothing came for so long."""

RECEIVE_BYTES: Final = 1 << 20


class Prober(threading.Thread):
    """Asks for an idle queue's figures without a pause, and keeps how long each answer took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self._port = port
        self._ended = threading.Event()

    def run(self) -> None:
        """Ask until :meth:`end`."""
        with connected(self._port) as connection:
            channel = connection.channel()
            channel.queue_declare("idle", auto_delete=True)
            while not self._ended.is_set():
                began = time.perf_counter()
                channel.queue_declare("idle", passive=True)
                self.seconds.append(time.perf_counter() - began)
                time.sleep(0.001)

    def end(self) -> None:
        """Stop asking."""
        self._ended.set()
        self.join()


def connected(port: int) -> pika.BlockingConnection:
    """Connect to the broker."""
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))


def waiting(port: int, queue: str) -> int:
    """Return how many messages are ready in a queue."""
    with connected(port) as connection:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


def probed(broker: Running, action: Callable[[], None], until: Callable[[], bool]) -> tuple[list[float], float, float]:
    """Return the answers' seconds while ``action`` and what it began went on, its own seconds, and the whole time."""
    prober = Prober(broker.port)
    prober.start()
    time.sleep(0.5)
    quiet = len(prober.seconds)
    began = time.perf_counter()
    action()
    own = time.perf_counter() - began
    while not until():
        time.sleep(0.02)
    whole = time.perf_counter() - began
    time.sleep(1.0)  # what is left to do when all looks done
    prober.end()
    return prober.seconds[quiet:], own, whole


def hold_all(port: int, queue: str, count: int) -> socket.socket:
    """Take all messages of a queue on a connection that acknowledges none; return its socket."""
    connection = connected(port)
    channel = connection.channel()
    tag = ["last"]
    seen = [0, time.monotonic()]

    def note(*_: object) -> None:
        seen[0] += 1
        seen[1] = time.monotonic()

    channel.basic_consume(queue, note, consumer_tag=tag[0])
    while seen[0] < count and time.monotonic() - seen[1] < 10 * QUIET_SECONDS:
        connection.process_data_events(QUIET_SECONDS)
    if seen[0] < count:
        raise click.ClickException(f"a consumer got {seen[0]} of {count} messages")
    held: socket.socket = connection._impl._transport._sock
    return held


def report(console: Console, what: str, figures: tuple[list[float], float, float]) -> None:
    """Print one line."""
    seconds, own, whole = figures
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.999))]
    console.print(
        f"{what}: answered after {own * 1000:.0f} ms, done after {whole * 1000:.0f} ms; others waited "
        f"{statistics.median(ordered) * 1000:.1f} ms (median), {high * 1000:.1f} ms (99.9 %), "
        f"{ordered[-1] * 1000:.1f} ms (longest)"
    )


@click.command()
@click.option("--count", type=click.IntRange(1000), default=1_000_000, show_default=True, help="Messages.")
@click.option("--held", type=click.IntRange(1000), default=100_000, show_default=True, help="Unacknowledged messages.")
@click.option("--pure/--compiled", default=False, help="Which build.")
def main(count: int, held: int, *, pure: bool) -> None:
    """Purge, delete and return many messages; print how long others waited meanwhile."""
    console = Console(width=200)
    annulet = Annulet("Annulet", pure=pure)
    reason = annulet.missing()
    if reason:
        raise click.ClickException(reason)
    with tempfile.TemporaryDirectory(prefix="annulet-load-") as scratch, annulet.running() as broker:
        program = build_generator(AMQP091, Path(scratch))
        port = broker.port

        def fill(queue: str, number: int) -> None:
            arguments = ["--consumers", "0", "--persistent", "--durable", "--confirm", "1000", "--time", str(number)]
            run(program, broker, "--queue", queue, "--count", str(number), *arguments, count=number)

        fill("held-", held)
        sampler = MemorySampler(broker.process_id)
        before = sampler.resident()
        dead = hold_all(port, "held-0", held)
        report(
            console,
            f"a consumer dies with {held:,} unacknowledged",
            probed(broker, lambda: dead.shutdown(socket.SHUT_RDWR), lambda: waiting(port, "held-0") == held),
        )
        console.print(f"resident set: {(sampler.resident() - before) / 2**20:.0f} MiB more than before it came")
        fill("purged-", count)
        with connected(port) as connection:
            channel = connection.channel()
            purge = probed(broker, lambda: channel.queue_purge("purged-0") and None, lambda: True)
        report(console, f"a purge of {count:,}", purge)
        fill("deleted-", count)
        with connected(port) as connection:
            channel = connection.channel()
            deletion = probed(broker, lambda: channel.queue_delete("deleted-0") and None, lambda: True)
        report(console, f"a deletion of {count:,}", deletion)


if __name__ == "__main__":
    main()
