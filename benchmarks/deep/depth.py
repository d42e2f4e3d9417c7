"""A1 to A4: memory, publishing, draining and joining at depth."""

from __future__ import annotations

import statistics

from benchmarks.deep.joins import joins, joins_at, publish_matches
from benchmarks.deep.outcome import MIB, Relation
from benchmarks.deep.run import Run, medians, memory_relation, wait_for
from benchmarks.deep.site import Site

SHALLOW = 10_000
TURNS = 21
"""Of the two depths: each takes a fifth of a second, and single ones differ by half."""

PUBLISHING_TURNS = 63
"""The same of publishing, where they take a fifteenth of a second: of 21 the ratio was 0.80 and 0.91 of the same code
within a quarter of an hour."""

DRAINED = 5 * SHALLOW
"""Messages of a turn of the deep queue: what a consumer's coming costs with a cold disk, which is A4's, is little of
the quarter of a second that they take."""

WINDOW = 250
"""Messages that a consumer may have unacknowledged while it drains: a fortieth of the short queue. With 1000, a tenth
of it, the short queue's rate is that of a burst, as so many come before the first acknowledgement: 356,000 a second,
and 288,000 with 250, of a deep queue 251,000 and 217,000. 800,000 in memory come out at 311,000 with 1000, of a deep
queue at 269,000."""

WINDOW_OF_GENERATORS = 1000
BURSTS = 7
"""Turns of as many messages as the short queue gets, with all that a consumer's coming costs."""

AHEAD_PERCENT = 65
"""Of what fills the queue so much comes before the messages at which others are in A4: half of all is before them still
when the turns have taken theirs, of ten million."""

SETTLED_SECONDS = 10.0
RESIDENT_BESIDE_BODIES = 144
"""MiB that the process may have beside the budget of bodies, itself included: 400 with the usual budget."""

SHORT = "short-"
DEEP = "deep-"


def run_depth(run: Run) -> None:
    """Fill a queue, join it, drain it with a cold page cache.

    Rates at depth and of a short queue are measured in turn; what is published at depth are as many messages as the
    short queue gets, what is drained is some more. Beside them stand the rates of as few, and of all that fills the
    queue and the last of what empties it, over those same turns of the short one. Joins come after these turns, which
    take a sixth of the queue: behind them is what consumers and selectors have left in memory.
    """
    with run.site("depth") as (site, sampler):
        idle = site.resident()
        turn(run, site, SHORT)  # does not count
        since = sampler.now()
        ahead = run.count * AHEAD_PERCENT // 100
        filled = [run.fill(site, DEEP, ahead)]
        publish_matches(site, f"{DEEP}0")
        filled.append(run.fill(site, DEEP, run.count - ahead))
        with run.check("A2", "publish rate at depth over that of a short queue") as outcome:
            deep, short = medians(
                lambda: run.fill(site, DEEP, SHALLOW), lambda: turn(run, site, SHORT)[0], PUBLISHING_TURNS
            )
            outcome.relations += [
                Relation(f"ratio, median of {PUBLISHING_TURNS} turns", deep / short, least=0.9, ratio=True),
                Relation("rate", deep, "/s"),
                Relation(f"ratio of all {run.count:,}, from nothing", statistics.harmonic_mean(filled) / short),
            ]
        with run.check("A3", "drain rate at depth, page cache dropped, over that of a short queue") as outcome:
            drained = min(DRAINED, run.count // 10)
            turns = min(TURNS, run.count // drained // 3)  # all take half of it at most: then come what A4 wants
            deep, short = drained_in_turn(run, site, drained, turns, WINDOW)
            bursts = max(1, min(BURSTS, run.count // SHALLOW // 6))
            wide, beside_wide = drained_in_turn(run, site, drained, bursts, WINDOW_OF_GENERATORS)
            burst, beside = drained_in_turn(run, site, SHALLOW, bursts, WINDOW)
            outcome.relations += [
                Relation(f"ratio, median of {turns} turns of {drained:,}", deep / short, least=0.7, ratio=True),
                Relation("rate", deep, "/s"),
                Relation(f"ratio with a window of {WINDOW_OF_GENERATORS:,}, of {bursts}", wide / beside_wide),
                Relation(f"ratio of {SHALLOW:,} each", burst / beside),
            ]
        count = joins_at(run.count)
        with run.check("A4", f"first message of {count} new consumers, others ahead, page cache dropped") as outcome:
            behind = run.count - ahead + PUBLISHING_TURNS * SHALLOW
            outcome.relations += joins(site, f"{DEEP}0", count, behind)
        with run.check("A1", "memory while the backlog comes and goes") as outcome:
            left, rate = drained_to_the_end(run, site, run.count - ahead)
            resident = sampler.highest_since(since) / MIB
            bodies = sampler.bodies_most / MIB
            outcome.relations += [
                memory_relation(sampler, idle, run.budget, since),
                Relation("resident set", resident, "MiB", most=run.budget / MIB + RESIDENT_BESIDE_BODIES),
                Relation("bodies by the broker's account", bodies, "MiB", most=run.budget / MIB),
                Relation("idle", idle / MIB, "MiB"),
                Relation(f"drain rate of {left:,} at once over that of a short queue", rate / short),
            ]


def drained_to_the_end(run: Run, site: Site, behind: int) -> tuple[int, float]:
    """Take all that filled the queue; return of how many, at most the ``behind`` last of them, and at which rate.

    What the turns have published has numbers that were there before, and so have those that were filled in last: no
    drain may see one twice.
    """
    wait_for(lambda: not site.queue_metric(f"{DEEP}0", "messages_delivering"), SETTLED_SECONDS)
    # Who took some was sent more than he waited for.
    left = site.queue_metric(f"{DEEP}0", "messages_pending") - PUBLISHING_TURNS * SHALLOW
    if left > behind:
        drained_cold(run, site, left - behind, WINDOW)
        left = behind
    left -= 2 * WINDOW  # of two drains, what they may take beyond what they wait for
    return left, drained_cold(run, site, left, WINDOW)


def turn(run: Run, site: Site, queue: str, window: int = WINDOW) -> tuple[float, float]:
    """Fill a short queue and drain it; return the rates."""
    return run.fill(site, queue, SHALLOW), run.drain(site, queue, SHALLOW, "--prefetch", str(window))


def drained_in_turn(run: Run, site: Site, count: int, turns: int, window: int) -> tuple[float, float]:
    """Return the rates at which so many come out of the deep queue, cold, and all out of a short one."""
    return medians(lambda: drained_cold(run, site, count, window), lambda: turn(run, site, SHORT, window)[1], turns)


def drained_cold(run: Run, site: Site, count: int, window: int) -> float:
    """Return the rate at which so many of the oldest come out when the page cache has none of them."""
    site.drop_cache()
    return run.drain(site, DEEP, count, "--prefetch", str(window))
