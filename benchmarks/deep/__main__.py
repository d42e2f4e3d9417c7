"""``python -m benchmarks.deep``: the acceptance checks A1 to A23 and V1 that need a broker process, with a report.

A miss is a result and not an error: the exit code is 1 only with ``--strict``, and then for every miss but of times and
ratios in a suite that the machine's host disturbed each time; ``make soak`` asks for that. What has no full size (A6,
A18, A19, A24; of A20 the random events) is tested in ``tests/residency/acceptance``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from benchmarks.deep import depth, kinds, looking, many_queues, neighbours, report, restarts, unacknowledged
from benchmarks.deep.accounts import judged
from benchmarks.deep.outcome import MIB, STALL_MOST, Outcome, Relation
from benchmarks.deep.run import FAILURES, Run, is_pure, load_generator
from benchmarks.deep.sampling import Stalls
from benchmarks.deep.stolen import PAUSED_SHARE, TELLING_SHARE, PauseWatch, StolenTime

SUITES: dict[str, Callable[[Run], None]] = {
    "depth": depth.run_depth,
    "restarts": restarts.run_restarts,
    "unacknowledged": unacknowledged.run_unacknowledged,
    "browser": looking.run_browser,
    "isolation": neighbours.run_isolation,
    "groups": neighbours.run_groups,
    "priority": kinds.run_priority,
    "purge": kinds.run_purge,
    "large": kinds.run_large,
    "spill": kinds.run_spill,
    "many": many_queues.run_many_queues,
    "selectors": looking.run_selectors,
}

TRIES: Final = 3
"""Of a suite that misses nothing but times and ratios, while the host takes processors away. The last one counts; what
it misses in the same way is told and fails nothing."""

IN_SMALL = "tests/residency/acceptance"
ELSEWHERE = {
    "A6": ("every match of a consumer with credit is delivered, none twice", f"random histories in {IN_SMALL}"),
    "A18": ("the first messages stay in memory and are served without a read", f"exact, in {IN_SMALL}"),
    "A19": ("linked caches", f"one stretch of late messages instead of two caches; its account is exact in {IN_SMALL}"),
    "A24": ("what went while it was being read is not delivered", f"exact, in {IN_SMALL}"),
}
"""What has no full size, each with the reason."""


def run_suite(name: str, suite: Callable[[Run], None], run: Run) -> None:
    """Run one suite; what fails outside of its checks is an outcome too, and the next suite runs all the same.

    What was disturbed by the machine's host is run again, as a whole, and both are in the report. What is missed the
    last time, and was disturbed again, is excused: three tries said nothing of the broker. What a single look at the
    event loop decided is run again once, and excused by nothing. How long the loop was held counts for A22, in each
    try, but where the host took processors away, which is kept apart.
    """
    stalls, held = run.stalls, run.held
    tries = 0
    doubted = False
    while True:
        tries += 1
        before, samples, stolen = len(run.outcomes), len(run.samples), StolenTime(run.watch)
        run.stalls, run.held = Stalls(), Stalls()
        try:
            suite(run)
        except FAILURES as error:
            run.outcomes.append(Outcome(name, "the checks of this suite", failure=f"{type(error).__name__}: {error}"))
            run.console.print(f"  {name}: {run.outcomes[-1].failure}", markup=False)
        missed = [outcome for outcome in run.outcomes[before:] if outcome.verdict == "MISS"]
        last = tries == TRIES or not missed or not all(_undecided(outcome, doubted=doubted) for outcome in missed)
        disturbed = stolen.share() >= TELLING_SHARE or stolen.paused() >= PAUSED_SHARE
        if disturbed or (not last and any(outcome.disturbed for outcome in missed)):
            run.disturbed.add(run.stalls)
        else:
            stalls.add(run.stalls)
            held.add(run.held)
        if last:
            break
        doubted = doubted or any(outcome.by_one_look for outcome in missed)
        for outcome in run.outcomes[before:]:
            outcome.repeated = True
        del run.samples[samples:]
        run.console.print(f"deep: {name} again: {_why_again(missed)}", markup=False)
    for outcome in missed:
        outcome.excused = tries == TRIES
    run.stalls, run.held = stalls, held


def _undecided(outcome: Outcome, *, doubted: bool) -> bool:
    """Whether what a check missed is to be measured again; ``doubted``: it was, as one look decided."""
    return outcome.disturbed or (outcome.by_one_look and not doubted)


def _why_again(missed: list[Outcome]) -> str:
    """Say why what was missed says nothing yet."""
    disturbed = [outcome for outcome in missed if outcome.disturbed]
    stolen = max([outcome.stolen for outcome in disturbed], default=0.0)
    paused = max([outcome.paused for outcome in disturbed], default=0.0)
    said = [f"the host took away up to {stolen:.1%} of the processors"] if stolen >= TELLING_SHARE else []
    if paused >= PAUSED_SHARE:
        said.append(f"the host took one away for long before {paused:.2%} of looks")
    if any(outcome.by_one_look for outcome in missed):
        said.append("one look at the loop decides")
    return "; ".join(said)


def loop_held(run: Run) -> Outcome:
    """Judge the stalls of all suites together, A22. Those of suites that were disturbed are told beside it."""
    outcome = Outcome("A22", "event loop held over everything above")
    if run.stalls.counts:
        outcome.relations += [
            Relation("99.9 % of looks at most", run.stalls.within(0.999), "ms", most=STALL_MOST),
            Relation("longest at most", run.stalls.within(1), "ms"),
            Relation("without waits for a processor 99.9 % at least", run.held.within(0.999), "ms"),
        ]
    else:
        outcome.not_applicable = "there was no part in which the host took no processors away"
    if run.disturbed.counts:
        outcome.relations.append(
            Relation("and 99.9 % in parts in which the host took some away", run.disturbed.within(0.999), "ms")
        )
    return outcome


def finish(run: Run, folder: Path) -> None:
    """Judge what is of all suites together and write the report."""
    run.outcomes.append(loop_held(run))
    run.outcomes.append(judged(run.accounts))
    for check, (title, reason) in ELSEWHERE.items():
        run.outcomes.append(Outcome(check, title, not_applicable=reason))
    report.write(run, folder)


def summary(outcomes: list[Outcome]) -> str:
    """Return how many kept their bounds, and which did not. It is what the report of ``make soak`` says of this."""
    kept = sum(outcome.verdict == "pass" for outcome in outcomes)
    missed = [outcome.check for outcome in outcomes if outcome.verdict == "MISS"]
    said = f"deep: {kept} kept, {len(missed)} missed: {' '.join(missed) or 'none'}"
    excused = [outcome.check for outcome in outcomes if outcome.verdict == "disturbed"]
    return f"{said}; {len(excused)} disturbed each time: {' '.join(excused)}" if excused else said


@click.command()
@click.option("--count", type=click.IntRange(20_000), default=10_000_000, show_default=True, help="Messages.")
@click.option("--body-budget", type=click.IntRange(1), default=256, show_default=True, help="Of the broker, in MiB.")
@click.option("--only", type=click.Choice(list(SUITES)), multiple=True, help="Just these.")
@click.option("--pure/--compiled", default=None, help="Which build.  [default: compiled if there]")
@click.option(
    "--data", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Folder for the brokers' data."
)
@click.option("--report", "report_folder", type=click.Path(file_okay=False, path_type=Path), default="deep-report")
@click.option(
    "--strict/--no-strict",
    help="Exit with 1 when a check misses its bounds, but for times and ratios that were disturbed each time.",
)
def main(
    count: int,
    body_budget: int,
    only: tuple[str, ...],
    *,
    pure: bool | None,
    data: Path | None,
    report_folder: Path,
    strict: bool,
) -> None:
    """Run the checks one suite after another, each on a broker of its own."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    pure = is_pure(pure)
    with load_generator() as program:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        run = Run(count, body_budget * MIB, pure, program, data, console)
        try:
            with PauseWatch() as run.watch:
                for name, suite in SUITES.items():
                    if not only or name in only:
                        console.print(f"deep: {name}")
                        run_suite(name, suite, run)
        finally:  # an interrupted run reports what it found
            finish(run, report_folder)
    console.print(f"deep: {report_folder / 'report.md'}")
    console.print(summary(run.outcomes))
    if strict and any(outcome.verdict == "MISS" for outcome in run.outcomes):
        sys.exit(1)


if __name__ == "__main__":
    main()
