"""What is run again because the machine's host took processors away meanwhile, and what is not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from benchmarks.deep import __main__ as program
from benchmarks.deep import run as run_module
from benchmarks.deep import stolen
from benchmarks.deep.client import ClientError
from benchmarks.deep.outcome import MIB, Outcome, Relation, exactly
from benchmarks.deep.run import Run
from benchmarks.deep.sampling import Sample, Stalls
from benchmarks.deep.stolen import (
    PAUSE_TICKS,
    PAUSED_SHARE,
    TELLING_SHARE,
    PauseWatch,
    StolenTime,
    stolen_seconds,
    stolen_ticks,
)

LATE, SLOW = Relation("after", 4.0, "s", most=3), Relation("rate over the other", 0.6, least=0.7, ratio=True)
STALL = Relation("event loop held", 50.0, "ms", most=20, rare=True)
LARGE, LOST = Relation("resident set", 400.0, "MiB", most=376), exactly("lost", 1, 0)


def test_the_system_tells_what_was_stolen(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 40 50 60 70 250 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    assert stolen_seconds(stat) == 250 / os.sysconf("SC_CLK_TCK")
    assert stolen_ticks(stat) == [8]
    stat.write_text("cpu  10 20 30 40\n")
    assert stolen_seconds(stat) == 0, "an old system has no such column"
    assert stolen_seconds(tmp_path / "none") == 0
    assert stolen_ticks(stat) == stolen_ticks(tmp_path / "none") == []


def test_the_share_is_of_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    told, clock = iter([100.0, 101.0]), iter([50.0, 60.0])
    monkeypatch.setattr(stolen, "stolen_seconds", lambda: next(told))
    monkeypatch.setattr(stolen.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(stolen.os, "cpu_count", lambda: 4)
    assert StolenTime().share() == pytest.approx(1 / 40)


def test_a_look_met_a_pause_where_one_processor_lost_enough_before_it() -> None:
    told = iter([[0, 50], [1, 51], [1, 51 + PAUSE_TICKS], [9, 60], [9, 60]])
    watch = PauseWatch(lambda: next(told))
    watch.look()
    stolen_since = StolenTime(watch)
    assert (watch.looks, watch.met, stolen_since.paused()) == (1, 0, 0.0)
    for _ in range(3):
        watch.look()
    assert (watch.looks, watch.met) == (4, 2)
    assert stolen_since.paused() == pytest.approx(2 / 3), "of the looks since"
    assert StolenTime().paused() == 0.0, "nobody watches"


def test_looks_that_are_told_nothing_are_no_looks_and_end_nothing() -> None:
    told = iter([[0, 0], [], [PAUSE_TICKS, 0], [PAUSE_TICKS, PAUSE_TICKS], [PAUSE_TICKS]])
    watch = PauseWatch(lambda: next(told))
    for _ in range(4):
        watch.look()
    assert (watch.looks, watch.met) == (1, 1)


def test_who_watches_looks_at_this_machine_until_it_ends() -> None:
    with PauseWatch() as watch:
        until = time.monotonic() + 60
        while watch.looks < 2 and time.monotonic() < until:
            time.sleep(0.01)
    looks = watch.looks
    assert not watch.is_alive()
    assert looks >= 2
    assert watch.met <= looks


@pytest.mark.parametrize(
    ("relations", "paused", "disturbed"),
    [
        ([STALL], PAUSED_SHARE, True),
        ([STALL], PAUSED_SHARE / 2, False),
        ([STALL, LATE], 0.5, False),
        ([SLOW], 0.5, False),
        ([STALL, LOST], 0.5, False),
    ],
)
def test_pauses_excuse_the_slowest_looks_only(relations: list[Relation], paused: float, disturbed: bool) -> None:
    outcome = Outcome("A8", "browse", relations, paused=paused)
    assert outcome.disturbed is disturbed
    assert ("pauses of the host met 50.00% of looks" in outcome.text()) is (paused == 0.5)


@pytest.mark.parametrize(
    ("relations", "failure", "share", "disturbed"),
    [
        ([LATE], "", TELLING_SHARE, True),
        ([SLOW, LATE], "", 0.04, True),
        ([LATE], "", TELLING_SHARE - 0.0001, False),
        ([LATE, LOST], "", 0.04, False),
        ([LARGE], "", 0.04, False),
        ([LATE], "silent", 0.04, False),
        ([Relation("after", 2.0, "s", most=3)], "", 0.04, False),
    ],
)
def test_only_a_missed_time_is_excused(relations: list[Relation], failure: str, share: float, disturbed: bool) -> None:
    outcome = Outcome("A9", "restart", relations, failure=failure, stolen=share)
    assert outcome.disturbed is disturbed
    assert ("the host took away 4.0% of the processors" in outcome.text()) is (share == 0.04)


Suite = Callable[[Run], None]
"""What a run is given."""


def suite(*tries: tuple[float, list[Relation]]) -> Suite:
    """A suite that finds something else each time; of each try the share that was stolen, and what it found."""
    left = iter(tries)

    def check(run: Run) -> None:
        share, relations = next(left)
        with run.check("A9", "restart") as outcome:
            outcome.relations += relations
        outcome.stolen = share
        run.samples.append(Sample(share, "restarts", MIB))
        run.stalls.counts[0.01] = run.stalls.counts.get(0.01, 0) + 1

    return check


def told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suite: Suite,
    *options: str,
    code: int = 0,
    whole: float = 0.0,
    paused: float = 0.0,
) -> tuple[str, Run]:
    """Run the program on one suite; return what it says, and the run that it wrote a report of.

    ``code``: what it is to exit with. ``whole``: the share that was stolen during the suite as a whole; ``paused``:
    the share of looks that met a pause.
    """
    runs: list[Run] = []
    monkeypatch.setattr(program, "SUITES", {"restarts": suite})
    monkeypatch.setattr(run_module, "build_generator", lambda name, folder: folder / "load")
    monkeypatch.setattr(program.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(program.report, "write", lambda run, folder: runs.append(run))
    monkeypatch.setattr(program, "StolenTime", lambda _: SimpleNamespace(share=lambda: whole, paused=lambda: paused))
    result = CliRunner().invoke(program.main, ["--pure", "--report", str(tmp_path / "report"), *options])
    assert result.exit_code == code, result.output
    return result.output, runs[0]


def test_a_disturbed_suite_is_run_again_and_both_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, run = told(tmp_path, monkeypatch, suite((0.031, [LATE]), (0.0, [exactly("lost", 0, 0)])))
    assert "deep: restarts again: the host took away up to 3.1% of the processors" in said
    assert said.splitlines()[-1].endswith("2 kept, 0 missed: none"), "A22 is the other one"
    assert [outcome.verdict for outcome in run.outcomes[:2]] == ["repeated", "pass"]
    assert [sample.seconds for sample in run.samples] == [0.0]
    assert (run.stalls.counts, run.disturbed.counts) == ({0.01: 1}, {0.01: 1}), "the first one's is kept apart"


@pytest.mark.parametrize("options", [(), ("--strict",)])
def test_what_was_disturbed_three_times_is_told_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    said, run = told(tmp_path, monkeypatch, suite(*[(0.04, [LATE])] * 4), *options)
    assert said.splitlines()[-1].endswith("1 kept, 0 missed: none; 1 disturbed each time: A9")
    assert [outcome.verdict for outcome in run.outcomes[:3]] == ["repeated", "repeated", "disturbed"]


QUIET = TELLING_SHARE - 0.0001


@pytest.mark.parametrize(
    "last",
    [
        (QUIET, [LATE]),
        (QUIET, [SLOW]),
        (0.04, [LARGE]),
        (0.04, [LOST]),
        (0.04, [LATE, LOST]),
        (0.04, [SLOW, LARGE]),
    ],
)
@pytest.mark.parametrize("disturbed", [0, 1, 2])
def test_strictly_everything_else_that_is_missed_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: tuple[float, list[Relation]], disturbed: int
) -> None:
    tries = [(0.04, [LATE])] * disturbed
    said, run = told(tmp_path, monkeypatch, suite(*tries, last), "--strict", code=1)
    assert said.splitlines()[-1].endswith("1 missed: A9")
    assert [outcome.verdict for outcome in run.outcomes[: disturbed + 1]] == ["repeated"] * disturbed + ["MISS"]


@pytest.mark.parametrize(("options", "code"), [(("--strict",), 1), (("--strict", "--no-strict"), 0)])
def test_a_suite_that_fails_is_a_miss_whatever_was_stolen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int
) -> None:
    def silent(run: Run) -> None:
        raise ClientError("silent")

    said, _ = told(tmp_path, monkeypatch, silent, *options, code=code, whole=0.04)
    assert said.splitlines()[-1].endswith("1 missed: restarts")


LOOK = Relation("event loop held", 50.0, "ms", most=20, rare=True, single=True)


def test_what_one_look_at_the_loop_decides_is_measured_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, run = told(tmp_path, monkeypatch, suite((0.0, [LOOK]), (0.0, [exactly("lost", 0, 0)])), "--strict")
    assert "deep: restarts again: one look at the loop decides" in said
    assert [outcome.verdict for outcome in run.outcomes[:2]] == ["repeated", "pass"]


@pytest.mark.parametrize(
    ("tries", "verdicts"),
    [
        ([[LOOK], [LOOK], []], ["repeated", "MISS"]),
        ([[STALL], []], ["MISS"]),
        ([[LOOK, LATE], []], ["MISS"]),
        ([[LOOK, LOST], []], ["MISS"]),
    ],
)
def test_it_is_not_measured_until_it_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries: list[list[Relation]], verdicts: list[str]
) -> None:
    said, run = told(tmp_path, monkeypatch, suite(*[(0.0, found) for found in tries]), "--strict", code=1)
    assert said.splitlines()[-1].endswith("1 missed: A9")
    assert [outcome.verdict for outcome in run.outcomes[: len(verdicts)]] == verdicts


def test_the_loop_is_judged_by_the_first_try_too_when_one_look_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[tuple[float, list[Relation]]] = [(0.05, [LOOK]), (0.01, [])]

    def check(run: Run) -> None:
        slowest, found = tries.pop(0)
        with run.check("A9", "restart") as outcome:
            outcome.relations += found
        looks = {0.01: 99 + (slowest <= 0.01), 0.05: 100, float("inf"): 100}
        run.stalls.add(Stalls(looks))
        run.held.add(Stalls(looks))

    said, run = told(tmp_path, monkeypatch, check, "--strict", code=1)
    assert said.splitlines()[-1].endswith("1 kept, 1 missed: A22")
    assert run.stalls.counts == run.held.counts == {0.01: 199, 0.05: 200, float("inf"): 200}


def held_for(seconds: float) -> Suite:
    """A suite in which all looks found the loop held for so long."""

    def check(run: Run) -> None:
        run.stalls.counts |= {seconds: 100.0, float("inf"): 100.0}
        run.held.counts |= run.stalls.counts

    return check


def test_the_loop_is_judged_by_parts_in_which_nothing_was_stolen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = told(tmp_path, monkeypatch, held_for(0.02), "--strict")
    assert [(outcome.check, outcome.verdict) for outcome in run.outcomes[:1]] == [("A22", "pass")]
    said, run = told(tmp_path, monkeypatch, held_for(0.05), "--strict", code=1)
    assert said.splitlines()[-1].endswith("1 missed: A22")
    _, run = told(tmp_path, monkeypatch, held_for(0.05), "--strict", whole=TELLING_SHARE)
    assert (run.outcomes[0].check, run.outcomes[0].verdict) == ("A22", "not applicable")
    _, run = told(tmp_path, monkeypatch, held_for(0.05), "--strict", paused=PAUSED_SHARE)
    assert (run.outcomes[0].check, run.outcomes[0].verdict) == ("A22", "not applicable")
    assert "in parts in which the host took some away 50 ms" in run.outcomes[0].text()


def test_what_is_lost_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, run = told(tmp_path, monkeypatch, suite((0.04, [LATE, LOST])))
    assert said.splitlines()[-1].endswith("1 missed: A9")
    assert run.outcomes[0].verdict == "MISS"
