"""What every suite of checks is given: options, a way to start sampled brokers, and where outcomes go."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks.brokers import Annulet, BrokerError
from benchmarks.deep.client import ClientError
from benchmarks.deep.outcome import MIB, STALL_MOST, Outcome, Relation
from benchmarks.deep.sampling import HELD_PREFIX, Sample, Sampler, Stalls
from benchmarks.deep.site import Site
from benchmarks.deep.stolen import PauseWatch, StolenTime
from benchmarks.scenarios import AMQP091, GeneratorError, build_generator, run_generator

BODY_BYTES = 1024
SECONDS_PER_MESSAGE = 0.001
"""Before a run of a generator counts as hanging: many times what the slowest build needs."""

BYSTANDER_SECONDS = 2.0
ROUNDS = 7
"""Of two loads whose rates are compared: a round takes a second at most, and single ones differ twofold."""

FAILURES = (ClientError, GeneratorError, BrokerError, OSError, subprocess.TimeoutExpired)
"""What a broker that does not do what it should ends in, for its clients."""


@dataclasses.dataclass
class Run:
    """One run of the harness. ``count`` messages, ``budget`` bytes of bodies in memory."""

    count: int
    budget: int
    pure: bool
    program: Path  # the load generator of AMQP 0-9-1
    folder: Path | None
    console: Console
    began: float = dataclasses.field(default_factory=time.monotonic)
    outcomes: list[Outcome] = dataclasses.field(default_factory=list)
    samples: list[Sample] = dataclasses.field(default_factory=list)
    stalls: Stalls = dataclasses.field(default_factory=Stalls)
    held: Stalls = dataclasses.field(default_factory=Stalls)  # without waits for a processor
    watch: PauseWatch | None = None
    disturbed: Stalls = dataclasses.field(default_factory=Stalls)  # of suites while processors were taken away
    accounts: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)  # the largest, by suite and name

    @contextlib.contextmanager
    def site(self, suite: str, *, budget: int = 0) -> Iterator[tuple[Site, Sampler]]:
        """Start a broker for a suite; its samples and stalls are kept."""
        with Site("--body-budget", str(budget or self.budget), pure=self.pure, folder=self.folder) as site:
            sampler = Sampler(site, suite, self.began)
            sampler.start()
            try:
                yield site, sampler
                with contextlib.suppress(OSError):  # it was killed last
                    metrics = site.metrics()
                    self.stalls.add(Stalls.of(metrics))
                    self.held.add(Stalls.of(metrics, HELD_PREFIX))
                    sampler.note_accounts(metrics)
            finally:
                sampler.end()
                self.samples += sampler.samples
                told = self.accounts.setdefault(suite, {})
                for name, value in sampler.accounts.items():
                    told[name] = max(told.get(name, 0.0), value)

    @contextlib.contextmanager
    def check(self, check: str, title: str) -> Iterator[Outcome]:
        """Measure one check; what goes wrong is its failure and not the end of the run."""
        outcome = Outcome(check, title)
        began, stolen = time.monotonic(), StolenTime(self.watch)
        try:
            yield outcome
        except FAILURES as error:
            outcome.failure = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        outcome.stolen, outcome.paused = stolen.share(), stolen.paused()
        self.outcomes.append(outcome)
        seconds = time.monotonic() - began
        self.console.print(f"  {check} {outcome.verdict} ({seconds:.1f} s): {outcome.text()}", markup=False)

    def generate(self, site: Site, queue: str, count: int, *arguments: str) -> dict[str, Any]:
        """Run the load generator on a queue (it adds ``0`` to the name) and return its figures."""
        command = [str(self.program), "--port", str(site.port), "--pid", str(site.process_id)]
        command += ["--size", str(BODY_BYTES), "--queue", queue, "--time", str(max(60, count)), "--idle", "60"]
        return run_generator(
            [*command, *arguments], f"{queue} {' '.join(arguments)}", 120 + count * SECONDS_PER_MESSAGE
        )

    def fill(self, site: Site, queue: str, count: int, *arguments: str) -> float:
        """Publish and return the rate."""
        confirmed = ["--consumers", "0", "--persistent", "--durable", "--confirm", "1000"]
        return float(self.generate(site, queue, count, *confirmed, "--count", str(count), *arguments)["send_rate"])

    def drain(self, site: Site, queue: str, count: int, *arguments: str) -> float:
        """Consume so many and return the rate. Raises GeneratorError when fewer come."""
        consume = ["--producers", "0", "--no-declare", "--prefetch", "1000", "--expect", str(count)]
        drained = self.generate(site, queue, count, *consume, *arguments)
        if drained["received"] < count:
            raise GeneratorError(f"{queue}: {drained['received']:.0f} of {count} messages came out")
        return float(drained["recv_rate"])

    def bystander(self, site: Site) -> float:
        """Return the rate of a queue that others use meanwhile: transient, taken at once."""
        command = [str(self.program), "--port", str(site.port), "--size", str(BODY_BYTES), "--queue", "bystander-"]
        command += ["--count", "99999999", "--time", str(BYSTANDER_SECONDS), "--prefetch", "500", "--delete"]
        return float(run_generator(command, "bystander", 120)["recv_rate"])


def is_pure(pure: bool | None) -> bool:
    """Return which build an option asks for: where it says nothing, the compiled one if it is there."""
    return bool(Annulet("", pure=False).missing()) if pure is None else pure


@contextlib.contextmanager
def load_generator() -> Iterator[Path]:
    """Build the load generator of AMQP 0-9-1 in a folder of its own. Raises ClickException."""
    with tempfile.TemporaryDirectory(prefix="annulet-load-") as scratch:
        try:
            program = build_generator(AMQP091, Path(scratch))
        except GeneratorError as error:
            raise click.ClickException(str(error)) from error
        yield program


def medians(measured: Callable[[], float], reference: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Return two rates, the medians of several rounds, each of both, one right after the other.

    What the log's upkeep or another program does meanwhile meets one round of either, and both over the whole time.
    """
    rates: list[float] = []
    bases: list[float] = []
    for number in range(rounds):  # the first one changes: what one leaves behind, the other's beginning meets
        turns = [(measured, rates), (reference, bases)]
        for load, noted in turns if number % 2 else reversed(turns):
            noted.append(load())
    return statistics.median(rates), statistics.median(bases)


def compared(measured: Callable[[], float], reference: Callable[[], float], rounds: int = ROUNDS) -> float:
    """Return one rate over another, of their :func:`medians`."""
    rate, base = medians(measured, reference, rounds)
    return rate / base


def memory_relation(sampler: Sampler, idle: int, budget: int, since: float = 0.0) -> Relation:
    """Return A1's: the resident set over the idle one, at every sample, at most the budget and 120 MiB."""
    grown = (sampler.highest_since(since) - idle) / MIB
    return Relation("resident set over the idle broker's", grown, "MiB", most=budget / MIB + 120)


def stall_relations(site: Site, before: Stalls) -> list[Relation]:
    """Return how long the event loop was held since ``before``: 99.9 % of looks, and the class of the longest."""
    stalls = Stalls.of(site.metrics()).since(before)
    slowest, single = stalls.within(0.999), stalls.over(STALL_MOST / 1000) == 1
    return [
        Relation("event loop held, 99.9th percentile below", slowest, "ms", most=STALL_MOST, rare=True, single=single),
        Relation("longest below", stalls.within(1), "ms"),
    ]


def wait_for(condition: Callable[[], bool], seconds: float, *, pause: float = 0.0) -> float:
    """Return the seconds until something was so, asked ``pause`` seconds after each answer. Raises ClientError when
    time is up.
    """
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise ClientError(f"not so after {seconds:.0f} s")
        time.sleep(pause)
    return time.monotonic() - began
