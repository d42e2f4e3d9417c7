"""``python -m benchmarks.deep.bounds``: what other lengths of the front, and of what is late, would be worth.

The design lets the front follow credit and rate (W2, W3, W5) and leaves open how much of what came last is kept
(PENDING's cap, to be decided by A3). Here both are constants. Brokers with one of them changed stand side by side, and
each round asks all of them in turn: publishing at depth, draining with a cold page cache, and what a consumer waits for
when nobody has been there for a while. Rates are told over those of the broker as it is.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.deep.client import Client
from benchmarks.deep.joins import taken
from benchmarks.deep.outcome import MIB, shown
from benchmarks.deep.run import Run, is_pure, load_generator
from benchmarks.deep.site import Site

QUEUE: Final = "deep-"
WINDOW: Final = 250
PART: Final = 20_000
"""Messages that are published and drained in a round: a tenth of a second."""

SHALLOWEST: Final = 2
"""Times the budget: the depth at which what came last is half of all, so that keeping it is worth most."""

AS_IT_IS: Final = ""
FRONT: Final = """
from annulet.broker import pager
from annulet.core.paging.front_limits import FrontBounds
from annulet.residency.bodies.budget import BodyBudget
pager.FLOOR_BYTES = 1 << 62  # every queue is told what its front may have
BodyBudget.front_of = lambda self, queue, sizes=(): FrontBounds({messages}, {size})
"""
LATE: Final = """
from annulet.broker import pager
pager.DEEP_SHARES = {shares}
"""
FRONTS: Final = {
    "1024": AS_IT_IS,
    "16": FRONT.format(messages=16, size=MIB),
    "256": FRONT.format(messages=256, size=MIB),
    "4096": FRONT.format(messages=4096, size=4 * MIB),
}
"""Messages of a front at most, the first one as it is. The design's are between 16 and 4096."""

LATES: Final = {
    "up to 4 shares on disk": AS_IT_IS,
    "never": LATE.format(shares=-1),
    "always": LATE.format(shares=1 << 40),
}
"""When what came last stays in memory while the budget has room: PENDING with a cap of 0 and of the budget."""

Figures = dict[str, list[float]]


def rounds_of(variants: dict[str, str], run: Run, rounds: int, measure: Callable[[Run, Site], Figures]) -> Figures:
    """Return what each round found, by variant and figure: ``variant/figure``."""
    found: Figures = {}
    with contextlib.ExitStack() as stack:
        sites = {
            name: stack.enter_context(
                Site("--body-budget", str(run.budget), pure=run.pure, folder=run.folder, prelude=prelude)
            )
            for name, prelude in variants.items()
        }
        for site in sites.values():
            run.fill(site, QUEUE, run.count)
        for number in range(rounds):
            order = list(sites) if number % 2 else list(reversed(sites))
            for name in order:
                for figure, values in measure(run, sites[name]).items():
                    found.setdefault(f"{name}/{figure}", []).extend(values)
    return found


def fronts(run: Run, site: Site) -> Figures:
    """Publish, wait as who comes to a queue that was left alone, drain; the depth stays what it was."""
    published = run.fill(site, QUEUE, PART)
    site.drop_cache()
    client = Client(site.port)
    began = time.monotonic()
    client.consume(f"{QUEUE}0", WINDOW)
    taken(client, 1)
    first = (time.monotonic() - began) * 1000
    client.leave()  # what it was sent comes back
    time.sleep(1)  # what was read ahead for it is forgotten
    site.drop_cache()
    drained = run.drain(site, QUEUE, PART, "--prefetch", str(WINDOW))
    return {"publish rate": [published], "drain rate": [drained], "first message, ms": [first]}


def lates(run: Run, site: Site) -> Figures:
    """Publish and drain at depth; the depth stays what it was."""
    published = run.fill(site, QUEUE, PART)
    site.drop_cache()
    return {"publish rate": [published], "drain rate": [run.drain(site, QUEUE, PART, "--prefetch", str(WINDOW))]}


def lates_to_the_end(run: Run, site: Site) -> Figures:
    """Drain all there is, what came last included, and fill it again."""
    site.drop_cache()
    ready = site.queue_metric(f"{QUEUE}0", "messages_pending")
    drained = run.drain(site, QUEUE, ready, "--prefetch", str(WINDOW))
    return {"publish rate": [run.fill(site, QUEUE, run.count)], "drain rate": [drained]}


def show(console: Console, title: str, variants: dict[str, str], found: Figures) -> None:
    """Print the median of each figure, and over that of the broker as it is."""
    table = Table(title=title, title_justify="left")
    base = next(iter(variants))
    figures = list(dict.fromkeys(key.split("/")[1] for key in found))
    for column in ("", *figures):
        table.add_column(column, justify="right" if column else "left")
    for name in variants:
        cells = []
        for figure in figures:
            value = statistics.median(found[f"{name}/{figure}"])
            cells.append(f"{shown(value)} ({value / statistics.median(found[f'{base}/{figure}']):.2f})")
        table.add_row(name, *cells)
    console.print(table)


@click.command()
@click.option("--count", type=click.IntRange(PART), default=500_000, show_default=True, help="Messages of the backlog.")
@click.option("--body-budget", type=click.IntRange(1), default=32, show_default=True, help="Of each broker, in MiB.")
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True, help="Of all brokers.")
@click.option("--pure/--compiled", default=None, help="Which build.  [default: compiled if there]")
@click.option("--data", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Folder for their data.")
def main(count: int, body_budget: int, rounds: int, *, pure: bool | None, data: Path | None) -> None:
    """Compare the lengths of the front, then of what is late at two depths."""
    if count < (rounds + 1) * PART:  # what rounds publish has numbers that were there before: no drain may come to it
        raise click.UsageError(f"--count {count} is too few for {rounds} rounds; it takes {(rounds + 1) * PART}")
    console = Console(width=None if sys.stdout.isatty() else 150)
    pure = is_pure(pure)
    with load_generator() as program:
        run = Run(count, body_budget * MIB, pure, program, data, console)
        show(console, f"messages at the front, {count:,} waiting", FRONTS, rounds_of(FRONTS, run, rounds, fronts))
        show(console, f"what came last stays, {count:,} waiting", LATES, rounds_of(LATES, run, rounds, lates))
        run.count = SHALLOWEST * body_budget * MIB // 1700  # what a message with its entry takes in memory
        title = f"what came last stays, {run.count:,} waiting, drained to the end"
        show(console, title, LATES, rounds_of(LATES, run, max(1, rounds // 3), lates_to_the_end))


if __name__ == "__main__":
    main()
