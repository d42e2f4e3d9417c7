"""A1 to A4: memory, publishing, draining and joining at depth."""

from __future__ import annotations

import statistics

from benchmarks.deep.client import Client
from benchmarks.deep.outcome import MIB, Relation
from benchmarks.deep.run import Run, first_delivery, memory_relation
from benchmarks.deep.site import Site

SHALLOW = 10_000
SHALLOW_ROUNDS = 5
JOINS = 100
JOINS_MESSAGES = 10_000
"""Messages that another consumer holds without acknowledging while others join."""


def short_queue(run: Run, site: Site) -> tuple[float, float]:
    """Return the rates into and out of a short queue: medians, after a first round that does not count."""
    filled, drained = [], []
    for number in range(SHALLOW_ROUNDS + 1):
        filled.append(run.fill(site, f"shallow-{number}-", SHALLOW))
        drained.append(run.drain(site, f"shallow-{number}-", SHALLOW))
    return statistics.median(filled[1:]), statistics.median(drained[1:])


def run_depth(run: Run) -> None:
    """Fill a queue, join it, drain it with a cold page cache."""
    with run.site("depth") as (site, sampler):
        idle = site.resident()
        shallow = short_queue(run, site)
        since = sampler.now()
        with run.check("A2", "publish rate at depth over that of a short queue") as outcome:
            rate = run.fill(site, "deep-", run.count)
            outcome.relations += [
                Relation("ratio", rate / shallow[0], least=0.9),
                Relation("rate", rate, "/s"),
            ]
        with run.check("A4", f"first message of {JOINS} new consumers, page cache dropped") as outcome:
            joins(site, outcome.relations)
        with run.check("A3", "drain rate at depth, page cache dropped, over that of a short queue") as outcome:
            site.drop_cache()
            rate = run.drain(site, "deep-", run.count)
            outcome.relations += [Relation("ratio", rate / shallow[1], least=0.7), Relation("rate", rate, "/s")]
        with run.check("A1", "memory while the backlog comes and goes") as outcome:
            outcome.relations.append(memory_relation(sampler, idle, run.budget, since))
            bodies = sampler.bodies_most / MIB
            outcome.relations += [
                Relation("bodies by the broker's account", bodies, "MiB", most=run.budget / MIB),
                Relation("idle", idle / MIB, "MiB"),
            ]


def joins(site: Site, relations: list[Relation]) -> None:
    """Measure joins while another consumer holds what comes before."""
    holder = Client(site.port)
    holder.consume("deep-0", JOINS_MESSAGES)
    held = 0
    for found in holder.deliveries():
        held += len(found)
        if held >= JOINS_MESSAGES:
            break
    seconds = []
    for _ in range(JOINS):
        site.drop_cache()
        seconds.append(first_delivery(site, "deep-0") * 1000)
    holder.close()
    seconds.sort()
    relations += [
        Relation("median", statistics.median(seconds), "ms", most=50),
        Relation("99th percentile", seconds[int(0.99 * len(seconds)) - 1], "ms", most=150),
    ]
