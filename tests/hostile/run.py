"""The harness as a command, for hours: ``python -m tests.hostile.run --inputs 50000`` or ``--honest-minutes 60``.

Prints a line a minute and exits with 1 when a message was lost or doubled, a neighbour waited too long, the broker
logged a traceback or kept memory.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.assault import Assault
from tests.hostile.delays import Delays
from tests.hostile.honest import ROUND_SECONDS, HonestClients, run_for
from tests.hostile.neighbour import Neighbour, neighbours
from tests.hostile.sessions import recorded_sessions
from tests.hostile.site import NO_PROGRESS, Progress, Site, site_in

BATCH = 500
"""Inputs between two looks at the broker."""

WARM_UP_INPUTS = 1500
"""Inputs before the first size is taken, at least: by then every part was used and the heap has its working size."""

WARM_UP_INPUTS_MOST = 30_000
"""Inputs after which the first size is taken even if the loss ledger is not full, which is a fault, or no index of the
log was made, which is none: segments may die before. 6,000 filled the ledger, and after 16,000 there was an index."""

WARM_UP_SECONDS = 120.0
"""As :data:`WARM_UP_INPUTS`, for honest clients."""

WARM_UP_SECONDS_MOST = 1800.0
"""As :data:`WARM_UP_INPUTS_MOST`, for honest clients."""

GROWTH_MAX = 0.15
"""Share of its first size that the broker may have grown by at the end."""

STALL_SECONDS_MAX = 1.0
"""Longest that a neighbour may wait for an answer, without what a slow machine adds to it."""

SETTLE_SECONDS = 12.0
"""After the last input: time-outs of silent peers run out, and the late collection has its turn."""


@dataclass
class Report:
    """What one run saw. Sizes in bytes."""

    first: int = 0
    last: int = 0
    descriptors_first: int = 0
    descriptors_last: int = 0
    progress_first: Progress = NO_PROGRESS
    progress_last: Progress = NO_PROGRESS
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    stalls: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Return the growth as a share of the first size."""
        return self.last / self.first - 1

    def lines(self) -> list[str]:
        """Return the report as text."""
        first, last = self.first / 2**20, self.last / 2**20
        waits = ", ".join(
            f"{name} {seconds:.2f} s ({self.stalls[name]:.2f} s the broker's)" for name, seconds in self.longest.items()
        )
        return [
            f"{self.inputs} inputs: {dict(self.outcomes)}",
            f"resident {first:.0f} MiB at first, {last:.0f} MiB at the end ({self.growth:+.1%})",
            f"descriptors {self.descriptors_first} at first, {self.descriptors_last} at the end",
            f"{self.progress_first} at first, {self.progress_last} at the end",
            f"longest waits of the neighbours: {waits}", *self.faults,
        ]  # fmt: skip


def assail(
    site: Site,
    seed: int,
    count: int,
    *,
    seconds: float = 0.0,
    warm_up: int = WARM_UP_INPUTS,
    fill: bool = True,
    pause: float = 0.0,
    say: bool = False,
) -> Report:
    """Send ``warm_up`` and then ``count`` inputs beside neighbours; return what was seen. Nothing is asserted.

    ``fill``: the warm-up goes on until the loss ledger is full and the log has made an index: a table that still fills,
    and what a thread takes once, would be taken for growth.
    ``seconds``: after the warm-up, go on until so much time has passed, also beyond ``count``.
    """
    report = Report()
    sessions = recorded_sessions(site)
    with ExitStack() as stack:
        delays = stack.enter_context(Delays(site.process.pid, site.folder))
        running: list[Neighbour] = [stack.enter_context(one) for one in neighbours(site, delays)]

        def send(inputs: int) -> None:
            report.outcomes += Assault(sessions, site.ports, site.tls, seed + report.inputs, inputs, pause=pause).run()
            report.inputs += inputs
            site.delete_hostile_queues()
            if say:
                _say(site, f"{report.inputs} inputs")

        while report.inputs < warm_up:
            send(min(BATCH, warm_up - report.inputs))
        while fill and not site.progress().settled and report.inputs < WARM_UP_INPUTS_MOST:
            send(BATCH)
        _measure_first(site, report, fill=fill)
        last, end = report.inputs + count, time.monotonic() + seconds
        while report.inputs < last:
            send(min(BATCH, last - report.inputs))
        while time.monotonic() < end:
            send(BATCH)
    for neighbour in running:
        report.longest[neighbour.name], report.stalls[neighbour.name] = neighbour.longest, neighbour.stall
        _note(report, neighbour.check)
    time.sleep(SETTLE_SECONDS)
    site.delete_hostile_queues()
    _measure_last(site, report)
    _check_log(site, report)
    return report


def live_honestly(
    site: Site, seconds: float, *, warm_up: float = WARM_UP_SECONDS, pause: float = ROUND_SECONDS, say: bool = False
) -> Report:
    """Let honest clients come and go; return what was seen. The warm-up goes on until the loss ledger is full."""
    report = Report()

    def look(clients: HonestClients) -> None:
        if say:
            _say(site, ", ".join(f"{kind} {number}" for kind, number in clients.rounds.items()))

    longest = time.monotonic() + WARM_UP_SECONDS_MOST
    report.faults += run_for(site, warm_up, look, pause=pause).failures
    while not report.faults and not site.progress().full and time.monotonic() < longest:
        report.faults += run_for(site, warm_up, look, pause=pause).failures
    _measure_first(site, report, fill=True)
    if not report.faults:
        report.faults += run_for(site, seconds, look, pause=pause).failures
    time.sleep(SETTLE_SECONDS)
    _measure_last(site, report)
    _check_log(site, report)
    return report


def _say(site: Site, done: str) -> None:
    print(
        f"{time.strftime('%H:%M:%S')} {done}, resident {site.resident() / 2**20:.0f} MiB, {site.progress()}", flush=True
    )


def _measure_first(site: Site, report: Report, *, fill: bool) -> None:
    report.progress_first = site.progress()
    if fill and not report.progress_first.full:
        report.faults.append(f"the first size was taken before the loss ledger was full: {report.progress_first}")
    report.first, report.descriptors_first = site.resident(), site.descriptors()


def _measure_last(site: Site, report: Report) -> None:
    report.progress_last = site.progress()
    report.last, report.descriptors_last = site.resident(), site.descriptors()


def _note(report: Report, check: object) -> None:
    try:
        assert callable(check)
        check()
    except AssertionError as fault:
        report.faults.append(str(fault))


def _check_log(site: Site, report: Report) -> None:
    log = site.log()
    for word in ("Traceback", "internal-error", "defect"):
        if word in log:
            report.faults.append(f"the log has {log.count(word)} × {word}; the first: {log[log.index(word) :][:1500]}")


def main() -> int:
    """Run what the options say and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=0, help="hostile inputs, beside neighbours")
    parser.add_argument("--hostile-minutes", type=float, default=0, help="the same until so many minutes have passed")
    parser.add_argument("--honest-minutes", type=float, default=0, help="minutes of honest clients that come and go")
    parser.add_argument("--pause", type=float, default=0, help="seconds between inputs of a thread, rounds of a client")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    options = parser.parse_args()
    gc.disable()  # of this process: its own pauses would be taken for the broker's
    print(f"seed {options.seed}", flush=True)
    failed = False
    for wanted, run in (
        (
            options.inputs or options.hostile_minutes,
            lambda site: assail(
                site, options.seed, options.inputs, seconds=options.hostile_minutes * 60, pause=options.pause, say=True
            ),
        ),
        (
            options.honest_minutes,
            lambda site: live_honestly(
                site, options.honest_minutes * 60, pause=options.pause or ROUND_SECONDS, say=True
            ),
        ),
    ):
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder, site_in(Path(folder)) as site:
            report = run(site)
        if report.growth > GROWTH_MAX:
            report.faults.append(f"the broker has grown by {report.growth:.1%}, at most {GROWTH_MAX:.0%} are allowed")
        report.faults += [
            f"{name} waited {seconds:.2f} s, at most {STALL_SECONDS_MAX} s are allowed"
            for name, seconds in report.stalls.items() if seconds > STALL_SECONDS_MAX
        ]  # fmt: skip
        print("\n".join(report.lines()), flush=True)
        failed = failed or bool(report.faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
