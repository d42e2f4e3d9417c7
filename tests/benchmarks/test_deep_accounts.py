"""A20 of the deep report: what brokers said of their accounts is kept by suite, and judged together."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from benchmarks.deep import accounts
from benchmarks.deep.accounts import judged, run_recount
from benchmarks.deep.client import BODY_BYTES
from benchmarks.deep.run import Run
from benchmarks.deep.sampling import DRIFT, FOUND_BY_TICK, LARGEST_RECOUNT, RECOUNTS, Sampler

GAUGE = f"{DRIFT}_bytes"
HELD = 1000


def told(*, drift: float = 0, found: float = 0, recounts: float = 9, largest: float = 5) -> dict[str, float]:
    return {GAUGE: drift, FOUND_BY_TICK: found, RECOUNTS: recounts, LARGEST_RECOUNT: largest}


def test_every_suite_says_what_was_recounted() -> None:
    outcome = judged({"depth": told(), "purge": told(recounts=3, largest=1_000_000)})
    assert outcome.verdict == "pass"
    assert "accounts recounted in depth 9; messages of the largest 5" in outcome.text()
    assert "accounts recounted in purge 3; messages of the largest 1,000,000" in outcome.text()


@pytest.mark.parametrize("wrong", [{"drift": 3}, {"found": 3}])
def test_one_wrong_suite_is_a_miss_and_is_named(wrong: dict[str, float]) -> None:
    outcome = judged({"depth": told(), "purge": told(**wrong)})
    assert outcome.verdict == "MISS"
    assert [relation.text().endswith("in purge 3 (must be 0)") for relation in outcome.missed] == [True]


def test_a_broker_that_says_nothing_of_it_is_not_judged() -> None:
    assert judged({"depth": {}}).verdict == judged({}).verdict == "not applicable"


def test_the_largest_figures_of_a_suite_are_kept_over_restarts() -> None:
    sampler = Sampler(SimpleNamespace(), "restarts", 0.0)  # type: ignore[arg-type]
    for figures in (told(drift=2, recounts=7), told(largest=8, recounts=1), {"paging_loads_total": 4.0}):
        sampler.note_accounts(figures)
    assert sampler.accounts == told(drift=2, recounts=7, largest=8)


class Answers:
    """A broker whose audit comes to what is held with the third look."""

    def __init__(self, figures: dict[str, float]) -> None:
        self.figures = figures
        self.looks = 0

    def metrics(self) -> dict[str, float]:
        self.looks += 1
        if LARGEST_RECOUNT in self.figures and self.looks > 3:
            self.figures[LARGEST_RECOUNT] = HELD
        return dict(self.figures)


@pytest.mark.parametrize(
    ("figures", "budget", "verdict"),
    [
        (told(), BODY_BYTES, "pass"),
        (told(drift=4), BODY_BYTES, "MISS"),
        (told(), HELD * BODY_BYTES, "not applicable"),
        ({GAUGE: 0.0}, BODY_BYTES, "not applicable"),
    ],
)
def test_a_million_held_is_recounted_while_nobody_does_anything(
    figures: dict[str, float], budget: int, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "LOOK_SECONDS", 0.0)
    run = Run(1000, budget, True, tmp_path, None, Console(file=io.StringIO()))
    site: Any = Answers(figures)
    run_recount(run, site, HELD)
    (outcome,) = run.outcomes
    assert outcome.verdict == verdict
    assert (f"messages recounted {HELD:,} (at least {HELD:,})" in outcome.text()) is (verdict != "not applicable")
