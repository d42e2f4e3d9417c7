"""A20 at full size: what the broker said of its account of bodies, and of wake-ups that were lost, in each suite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.deep.outcome import Outcome, Relation, exactly
from benchmarks.deep.run import BODY_BYTES, Run, stall_relations, wait_for
from benchmarks.deep.sampling import DRIFT, FOUND_BY_TICK, LARGEST_RECOUNT, RECOUNTS, Stalls

if TYPE_CHECKING:
    from benchmarks.deep.site import Site

TITLE: Final = "account of bodies against a recount, and what only the safety tick found, over everything above"
RECOUNT_SECONDS: Final = 180.0
"""Before an account that is not recounted is an error: a million messages in delivery take the broker half a minute
when nobody uses their queue, and it has other queues."""

LOOK_SECONDS: Final = 0.5


def judged(told: dict[str, dict[str, float]]) -> Outcome:
    """Judge the largest figures of all suites, by suite and name. The recounts say how much that is worth."""
    outcome = Outcome("A20", TITLE)
    names = {name: None for figures in told.values() for name in figures if DRIFT in name or name == FOUND_BY_TICK}
    for name in names:
        worst = max(figures.get(name, 0.0) for figures in told.values())
        where = [suite for suite, figures in told.items() if figures.get(name)]
        outcome.relations.append(exactly(f"{name}{' in ' + ' '.join(where) if where else ''}", worst, 0))
    for suite, figures in told.items():
        if RECOUNTS in figures:
            outcome.relations += [
                Relation(f"accounts recounted in {suite}", figures[RECOUNTS]),
                Relation("messages of the largest", figures.get(LARGEST_RECOUNT, 0.0)),
            ]
    if not outcome.relations:
        outcome.not_applicable = "this broker exports no such figures; the small twins recount after each event"
    return outcome


def run_recount(run: Run, site: Site, held: int) -> None:
    """Wait until the account of a queue of which so many messages are in delivery was recounted, while it is idle."""
    with run.check("A20", f"recount of an account with {held:,} in delivery") as outcome:
        if held * BODY_BYTES <= run.budget:
            outcome.not_applicable = "memory has room for all of them, so there is no account of what left it"
            return
        before = Stalls.of(site.metrics())
        if LARGEST_RECOUNT not in site.metrics():
            outcome.not_applicable = "this broker does not say what it recounted"
            return
        seconds = wait_for(lambda: site.metrics()[LARGEST_RECOUNT] >= held, RECOUNT_SECONDS, pause=LOOK_SECONDS)
        figures = site.metrics()
        outcome.relations += [
            Relation("messages recounted", figures[LARGEST_RECOUNT], least=held),
            exactly("bytes the account was wrong by", figures[f"{DRIFT}_bytes"], 0),
            Relation("after", seconds, "s"),
            *stall_relations(site, before),
        ]
