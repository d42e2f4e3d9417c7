"""A13 and A15: what stands still holds nobody else up; A3's other half: nor does who catches up."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.deep.client import Client, ClientError, content_header
from benchmarks.deep.outcome import Relation, exactly
from benchmarks.deep.run import BYSTANDER_SECONDS, ROUNDS, Run, compared, memory_relation
from benchmarks.deep.site import Site

GROUPS = 100
STALLED = "stalled"
SLOW_RATE = 500
ROUND_MESSAGES = 20_000
"""Of one round: half a second, of which a connection and its first load are little."""

GROUP_ROUNDS = 15
"""Of those: of seven the median was 0.89, 1.05 and 1.18 of the same code within hours."""

PREFETCH = 1000

LIVE_RATE = 2_000
CAUGHT_RATE = 10_000
"""Of a queue whose consumer keeps up with its publisher: a tenth of what the loop can do."""

CAUGHT_SECONDS = 5.0
CAUGHT_UP_DRAINED = 2_000_000
"""Messages at most that are drained beside it, which takes longer than it; where it is fewer it goes on less long."""

CAUGHT_LATENCY_MOST = 250.0
"""Milliseconds of its messages, 99 %: a quarter of a second is no trickle."""


def run_isolation(run: Run) -> None:
    """Fill a queue nobody takes from beyond the budget; a slow and a fast queue beside it.

    The fast one alone is measured in turn, on a broker that has nothing else: minutes apart the machine is another one.
    """
    with run.site("isolation") as (site, sampler), run.site("alone") as (alone, _), ThreadPoolExecutor(1) as pool:
        idle = site.resident()
        messages = int(SLOW_RATE * (BYSTANDER_SECONDS + 1))

        def beside() -> float:
            slow = pool.submit(
                run.generate, site, "slow-", messages, "--count", str(messages), "--rate", str(SLOW_RATE)
            )
            rate = run.bystander(site)
            slow.result()
            return rate

        with run.check("A13", "a fast queue beside an idle deep one and a slow one") as outcome:
            run.fill(site, "idle-", run.count)
            outcome.relations += [
                Relation(
                    f"its rate over that alone, median of {ROUNDS}",
                    compared(beside, lambda: run.bystander(alone)),
                    least=0.8,
                    ratio=True,
                ),
                memory_relation(sampler, idle, run.budget),
            ]
        catch_up(run, site, alone)


def catch_up(run: Run, site: Site, alone: Site) -> None:
    """Drain the deep queue, which is published to all the time, as fast as it goes; another queue's consumer keeps up.

    Of Artemis it was said that others come down to a trickle meanwhile (ARTEMIS-2399).
    """
    drained = min(run.count * 3 // 4, CAUGHT_UP_DRAINED)
    seconds = CAUGHT_SECONDS * drained / CAUGHT_UP_DRAINED
    messages, arriving = int(CAUGHT_RATE * seconds), int(LIVE_RATE * seconds)

    def caught(broker: Site) -> dict[str, Any]:
        return run.generate(
            broker, "caught-", messages, "--count", str(messages), "--rate", str(CAUGHT_RATE), "--prefetch", "500"
        )

    title = f"a queue that keeps up with {CAUGHT_RATE:,} a second while a deep one, which is published to, is drained"
    with run.check("A3", title) as outcome, ThreadPoolExecutor(2) as pool:
        site.drop_cache()
        live = pool.submit(run.fill, site, "idle-", arriving, "--rate", str(LIVE_RATE))
        drain = pool.submit(run.drain, site, "idle-", drained)
        beside = caught(site)
        over = not drain.done()
        # Before it is alone, which wants the processors for itself.
        drain_rate, live_rate = drain.result(), live.result()
        rate, latency = caught(alone)["recv_rate"], beside["lat_us"]
        outcome.relations += [
            Relation("its rate over that alone", beside["recv_rate"] / rate, least=0.8, ratio=True),
            Relation("99 % of its messages came within", latency["p99"] / 1000, "ms", most=CAUGHT_LATENCY_MOST),
            exactly("it was over before the drain", int(over), 1),
            Relation("the longest took", latency["max"] / 1000, "ms"),
            Relation(f"rate of the drain of {drained:,} beside it", drain_rate, "/s"),
            Relation("rate of who publishes to that", live_rate, "/s"),
        ]


GROUP_HEADERS = [content_header(headers={"group-id": f"g{number}"}) for number in range(GROUPS)]
STALLED_HEADER = content_header(headers={"group-id": STALLED})


def run_groups(run: Run) -> None:
    """The first half of the queue belongs to a stalled owner; the other groups go on behind it.

    Their rate is held against that of a queue with the second half only: both are on disk, as what depth costs is A3.
    The first round of either does not count: one passes over the first half, which is done once and told by itself,
    the other begins with what never left memory.
    """
    with run.site("groups") as (site, sampler):
        idle = site.resident()
        half = run.count // 2
        behind = range(half, half + max(half, (GROUP_ROUNDS + 1) * (ROUND_MESSAGES + PREFETCH)))
        client = Client(site.port)
        for queue in ("free", "blocked"):
            client.declare(queue, x_group_mode="sticky")
        client.publish("free", behind, headers(half))
        owner = Client(site.port)
        with run.check("A15", "groups behind one whose owner stalls") as outcome:
            client.publish("blocked", range(half), headers(half))
            owner.consume("blocked", 1)
            next(owner.deliveries())
            client.publish("blocked", behind, headers(half))
            out_of_order: list[int] = []
            began = time.monotonic()
            take(site, "blocked", out_of_order)
            first = time.monotonic() - began
            take(site, "free", [])
            ratio = compared(lambda: take(site, "blocked", out_of_order), lambda: take(site, "free", []), GROUP_ROUNDS)
            outcome.relations += [
                Relation(f"their rate over that without it, median of {GROUP_ROUNDS}", ratio, least=0.9, ratio=True),
                Relation(f"the first {ROUND_MESSAGES:,} of them, and the stalled half passed over, in", first, "s"),
                exactly("out of order within a group", sum(out_of_order), 0),
                memory_relation(sampler, idle, run.budget),
            ]
        owner.close()
        client.close()


def headers(half: int) -> Callable[[int], bytes]:
    """Return the header of each number: below ``half`` one group, from there on a hundred."""
    return lambda number: GROUP_HEADERS[number % GROUPS] if number >= half else STALLED_HEADER


def take(site: Site, queue: str, out_of_order: list[int]) -> float:
    """Take a round's messages; return the rate, and note how many were out of order within their group."""
    consumer = Client(site.port)
    began = time.monotonic()
    consumer.consume(queue, PREFETCH)
    received = wrong = 0
    last = [-1] * GROUPS
    for found in consumer.deliveries():
        for delivery in found:
            number = delivery.number
            wrong += number <= last[number % GROUPS]
            last[number % GROUPS] = number
        received += len(found)
        consumer.acknowledge(found[-1].tag, multiple=True)
        if received >= ROUND_MESSAGES:
            rate = received / (time.monotonic() - began)
            consumer.close()
            out_of_order.append(wrong)
            return rate
    raise ClientError(f"only {received} of {ROUND_MESSAGES} messages came")
