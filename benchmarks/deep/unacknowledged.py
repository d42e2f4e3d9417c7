"""A7, A14 and A20: a consumer with very many unacknowledged messages, alive and killed; a restart with what came back.

While nobody does anything else the account of what it holds is recounted.
"""

from __future__ import annotations

import signal
import time

from benchmarks.deep.accounts import run_recount
from benchmarks.deep.client import Client
from benchmarks.deep.outcome import MIB, Relation, exactly
from benchmarks.deep.run import BODY_BYTES, ROUNDS, Run, compared, memory_relation, stall_relations, wait_for
from benchmarks.deep.sampling import Stalls
from benchmarks.deep.site import Site

HELD_MOST = 1_000_000
HELD_ROUNDS = 63
"""Of the two queues: of 7 rounds at a time, of 35 in one run, the ratio was 0.90 to 1.04, and the bound is 0.95."""

ROUND_MESSAGES = 50_000
"""Of one round: a third of a second. With 20,000 single ones differed threefold, and ratios of medians by a tenth."""

READY_LOOK_SECONDS = 0.005
"""Between two looks at how many are back: their answers are work of the broker that is measured."""

OBJECTS_MOST = 5_000
"""Messages that came back and are not rows again: those that are next, and some that are not worth a page."""

ROWS_SECONDS = 60.0
QUEUE, ALONE = "held-0", "alone-"


def run_unacknowledged(run: Run) -> None:
    """Hold, have that recounted, compare another consumer's rate, kill the holder, take everything again."""
    with run.site("unacknowledged") as (site, sampler):
        idle = site.resident()
        rounds = max(ROUNDS, min(HELD_ROUNDS, run.count // 3 // ROUND_MESSAGES))
        held, others = min(HELD_MOST, run.count // 2), (rounds + 1) * ROUND_MESSAGES
        run.fill(site, ALONE, held + others)  # as deep: what the two drains differ in is who holds some
        run.fill(site, "held-", held + others)
        holder = hold(site, held)
        run_recount(run, site, held)
        with run.check("A14", f"another consumer's rate while one holds {held:,}") as outcome:
            run.drain(site, ALONE, held)  # its first messages are in memory, the log's first positions shorter numbers
            ratio = compared(
                lambda: run.drain(site, "held-", ROUND_MESSAGES),
                lambda: run.drain(site, ALONE, ROUND_MESSAGES),
                rounds,
            )
            run.drain(site, "held-", site.queue_metric(QUEUE, "messages_pending"))
            outcome.relations += [
                Relation(f"over its rate on a queue nobody holds, median of {rounds}", ratio, least=0.95, ratio=True),
                memory_relation(sampler, idle, run.budget),
            ]
        with run.check("A7", f"the holder of {held:,} is killed") as outcome:
            watcher = Client(site.port)
            before, resident, since = Stalls.of(site.metrics()), site.resident(), sampler.now()
            holder.abort()
            seconds = wait_for(lambda: watcher.ready(QUEUE) == held, 120, pause=READY_LOOK_SECONDS)
            watcher.leave()
            grown = (max(sampler.highest_since(since), site.resident()) - resident) / MIB
            outcome.relations += [
                Relation("all pending after", seconds * 1000, "ms", most=250),
                *stall_relations(site, before),
                Relation("resident set grew by", grown, "MiB", most=20),
            ]
            outcome.relations += rows_again(site, idle, held)
            outcome.relations += take_again(site, held // 2)
        left = held - held // 2
        with run.check("A7", f"a clean restart with {left:,} that came back") as outcome:
            site.end(signal.SIGTERM)
            outcome.relations += [
                Relation("listening after", site.start(), "s"),
                exactly("messages", site.queue_metric(QUEUE, "messages_pending"), left),
                Relation("of these in memory as objects", in_memory(site), most=OBJECTS_MOST),
                Relation("resident set over the idle broker's, for each", (site.resident() - idle) / left, "B"),
                *take_again(site, left),
            ]


def in_memory(site: Site) -> int:
    """Return how many pending messages are objects."""
    return site.queue_metric(QUEUE, "messages_pending") - site.queue_metric(QUEUE, "messages_on_disk")


def rows_again(site: Site, idle: int, held: int) -> list[Relation]:
    """Wait until what came back is rows, which the budget asks for where the bodies left; say what it takes then."""
    began = time.monotonic()
    while in_memory(site) > OBJECTS_MOST and time.monotonic() - began < ROWS_SECONDS:
        time.sleep(0.1)
    return [
        Relation("rows again after", time.monotonic() - began, "s", most=ROWS_SECONDS),
        Relation("resident set over the idle broker's, for each", (site.resident() - idle) / held, "B"),
    ]


def hold(site: Site, count: int) -> Client:
    """Return a client with one consumer that holds so many messages and has room for no more.

    Its window is one of bytes: a count of messages has 16 bits.
    """
    client = Client(site.port)
    client.hold(QUEUE, count, 0, count * BODY_BYTES)
    return client


def take_again(site: Site, count: int) -> list[Relation]:
    """Take so many with another consumer and say how it was; what it gets beyond these it gives back."""
    client = Client(site.port)
    client.consume(QUEUE, 2000)
    received = out_of_order = unmarked = 0
    last = -1
    for some in client.deliveries():
        found = some[: count - received]
        for delivery in found:
            out_of_order += delivery.sequence <= last
            last = delivery.sequence
            unmarked += not delivery.redelivered
        received += len(found)
        client.acknowledge(found[-1].tag, multiple=True)
        if received >= count:
            break
    client.leave()
    return [
        exactly("came again", received, count),
        exactly("out of order", out_of_order, 0),
        exactly("without the redelivered mark", unmarked, 0),
    ]
