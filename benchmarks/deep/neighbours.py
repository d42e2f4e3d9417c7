"""A13 and A15: what stands still holds nobody else up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from benchmarks.deep.client import Client, ClientError, content_header
from benchmarks.deep.outcome import Relation, exactly
from benchmarks.deep.run import Run, memory_relation
from benchmarks.deep.site import Site

GROUPS = 100
STALLED = "stalled"
SLOW_RATE = 500
TAKEN_MOST = 200_000


def run_isolation(run: Run) -> None:
    """Fill a queue nobody takes from beyond the budget; a slow and a fast queue beside it."""
    with run.site("isolation") as (site, sampler):
        idle = site.resident()
        run.bystander(site)
        alone = run.bystander(site)
        with run.check("A13", "a fast queue beside an idle deep one and a slow one") as outcome:
            run.fill(site, "idle-", run.count)
            slow = threading.Thread(
                target=run.generate,
                args=(site, "slow-", 4 * SLOW_RATE, "--count", str(4 * SLOW_RATE), "--rate", str(SLOW_RATE)),
            )
            slow.start()
            try:
                rate = run.bystander(site)
            finally:
                slow.join()
            outcome.relations += [
                Relation("its rate over that alone", rate / alone, least=0.8),
                memory_relation(sampler, idle, run.budget),
            ]


GROUP_HEADERS = [content_header(headers={"group-id": f"g{number}"}) for number in range(GROUPS)]
STALLED_HEADER = content_header(headers={"group-id": STALLED})


def run_groups(run: Run) -> None:
    """The first half of the queue belongs to a stalled owner; the other groups go on behind it."""
    with run.site("groups") as (site, sampler):
        idle = site.resident()
        half = run.count // 2
        taken = min(TAKEN_MOST, half)
        client = Client(site.port)
        for queue in ("free", "blocked"):
            client.declare(queue, x_group_mode="sticky")
        client.publish("free", range(half, half + taken), headers(half))
        owner = Client(site.port)
        with run.check("A15", "groups behind one whose owner stalls") as outcome:
            alone, _ = take(site, "free", taken)
            client.publish("blocked", range(half), headers(half))
            owner.consume("blocked", 1)
            next(owner.deliveries())
            client.publish("blocked", range(half, half + taken), headers(half))
            rate, out_of_order = take(site, "blocked", taken)
            outcome.relations += [
                Relation("their rate over that without it", rate / alone, least=0.9),
                exactly("out of order within a group", out_of_order, 0),
                memory_relation(sampler, idle, run.budget),
            ]
        owner.close()
        client.close()


def headers(half: int) -> Callable[[int], bytes]:
    """Return the header of each number: below ``half`` one group, from there on a hundred."""
    return lambda number: GROUP_HEADERS[number % GROUPS] if number >= half else STALLED_HEADER


def take(site: Site, queue: str, count: int) -> tuple[float, int]:
    """Take so many; return the rate and how many were out of order within their group."""
    consumer = Client(site.port)
    began = time.monotonic()
    consumer.consume(queue, 1000)
    received, out_of_order = 0, 0
    last = [-1] * GROUPS
    for found in consumer.deliveries():
        for delivery in found:
            number = delivery.number
            out_of_order += number <= last[number % GROUPS]
            last[number % GROUPS] = number
        received += len(found)
        consumer.acknowledge(found[-1].tag, multiple=True)
        if received >= count:
            consumer.close()
            return count / (time.monotonic() - began), out_of_order
    raise ClientError(f"only {received} of {count} messages came")
