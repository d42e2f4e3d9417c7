"""A16, A17, A21 and A23: priority, purging and expiring, bodies larger than the budget, transient messages."""

from __future__ import annotations

import time

from pamqp import commands

from benchmarks.deep.client import Client, ClientError, Delivery, content_header, plain
from benchmarks.deep.outcome import MIB, Relation, exactly
from benchmarks.deep.run import Run, memory_relation, stall_relations, wait_for
from benchmarks.deep.sampling import Sampler, Stalls
from benchmarks.deep.site import Site

PLAIN_PRIORITY, URGENT = 4, 9
EXPIRY_SLACK = 2.0
"""Times what publishing as many took before: all must be there when the moment comes."""

LARGE_BYTES = 10 * MIB
LARGE_BUDGET = 4 * MIB
LARGE_COUNT = 3
SPILL_BYTES = 64 * 1024
SPILL_BUDGET = 64 * MIB


def next_delivery(client: Client) -> Delivery:
    """Return the next message of a client with a prefetch of 1. Raises ClientError when none comes."""
    for found in client.deliveries():
        return found[0]
    raise ClientError("no message came")


def run_priority(run: Run) -> None:
    """One urgent message into a deep queue of less urgent ones."""
    with run.site("priority") as (site, sampler):
        idle = site.resident()
        with run.check("A16", "an urgent message overtakes the backlog") as outcome:
            client, consumer = Client(site.port), Client(site.port)
            client.declare("ranked", x_max_priority=10)
            usual = content_header(priority=PLAIN_PRIORITY)
            client.publish("ranked", range(run.count), lambda _: usual)
            consumer.consume("ranked", 1)
            held = next_delivery(consumer)
            client.publish("ranked", range(run.count, run.count + 1), lambda _: content_header(priority=URGENT))
            began = time.monotonic()
            consumer.acknowledge(held.tag)
            found = next_delivery(consumer)
            outcome.relations += [
                exactly("the next message is the urgent one", int(found.number == run.count), 1),
                Relation("after", (time.monotonic() - began) * 1000, "ms", most=50),
                memory_relation(sampler, idle, run.budget),
            ]


def run_purge(run: Run) -> None:
    """Purge everything, and have everything expire at one instant."""
    with run.site("purge") as (site, sampler):
        idle = site.resident()
        client = Client(site.port)
        client.declare("purged")
        began = time.monotonic()
        client.publish("purged", range(run.count), plain)
        publishing = time.monotonic() - began
        with run.check("A17", f"purge of {run.count:,}") as outcome:
            before, resident, since = Stalls.of(site.metrics()), site.resident(), sampler.now()
            began = time.monotonic()
            answer = client.ask(commands.Queue.Purge(queue="purged"), commands.Queue.PurgeOk)
            outcome.relations += [
                Relation("answered after", time.monotonic() - began, "s", most=5),
                exactly("purged", answer.message_count, run.count),
                *emptied(site, sampler, "purged", resident, since),
                *stall_relations(site, before),
            ]
        with run.check("A17", f"{run.count:,} messages expire at one instant") as outcome:
            at = expire(run, client, time.time() + 5 + EXPIRY_SLACK * publishing)
            outcome.relations.append(memory_relation(sampler, idle, run.budget))
            outcome.relations += expired(site, sampler, at)
        client.close()


def emptied(site: Site, sampler: Sampler, queue: str, resident: int, since: float) -> list[Relation]:
    """Return what is left, and how the memory grew on the way."""
    grown = (max(sampler.highest_since(since), site.resident()) - resident) / MIB
    return [
        exactly("left", site.queue_metric(queue, "messages_pending"), 0),
        Relation("resident set grew by", grown, "MiB", most=20),
    ]


def expire(run: Run, client: Client, at: float) -> float:
    """Publish messages that all expire at ``at`` (seconds since 1970). Raises ClientError when that came too soon."""
    client.declare("expiring")
    made: dict[int, bytes] = {}

    def header_of(number: int) -> bytes:
        batch = number // 1000
        if batch not in made:
            made.clear()
            made[batch] = content_header(expiration=str(max(1, int((at - time.time()) * 1000))))
        return made[batch]

    client.publish("expiring", range(run.count), header_of)
    if time.time() > at:
        raise ClientError(f"publishing ended {time.time() - at:.0f} s after the moment of expiry")
    return at


def expired(site: Site, sampler: Sampler, at: float) -> list[Relation]:
    """Wait for the moment and return how it was."""
    before, resident, since = Stalls.of(site.metrics()), site.resident(), sampler.now()
    time.sleep(max(0.0, at - time.time()))
    seconds = wait_for(lambda: site.queue_metric("expiring", "messages_pending") == 0, 120)
    gone = Relation("gone after", seconds, "s", most=5)
    return [gone, *emptied(site, sampler, "expiring", resident, since), *stall_relations(site, before)]


def run_large(run: Run) -> None:
    """Messages of which each is more than the whole budget."""
    with run.site("large", budget=LARGE_BUDGET) as (site, sampler):
        idle = site.resident()
        with run.check("A21", f"{LARGE_COUNT} messages of 10 MiB with a budget of 4 MiB") as outcome:
            client, consumer = Client(site.port), Client(site.port)
            client.declare("large")
            header = content_header(LARGE_BYTES)
            client.publish("large", range(LARGE_COUNT), lambda _: header, LARGE_BYTES)
            consumer.consume("large", 1)
            whole = 0
            for number in range(LARGE_COUNT):
                found = next_delivery(consumer)
                whole += found.number == number and len(found.body) == LARGE_BYTES
                consumer.acknowledge(found.tag)
            outcome.relations += [
                exactly("whole and in order", whole, LARGE_COUNT),
                memory_relation(sampler, idle, LARGE_BUDGET),
            ]


def run_spill(run: Run) -> None:
    """Transient messages of more bytes than the budget, without a consumer."""
    count = max(4000, min(10_000, run.count // 100))
    with run.site("spill", budget=SPILL_BUDGET) as (site, sampler):
        idle = site.resident()
        with run.check("A23", f"{count:,} transient messages of 64 KiB with a budget of 64 MiB") as outcome:
            client, consumer = Client(site.port), Client(site.port)
            client.declare("transient")
            header = content_header(SPILL_BYTES, delivery_mode=1)
            before = Stalls.of(site.metrics())
            client.publish("transient", range(count), lambda _: header, SPILL_BYTES)
            accepted = site.queue_metric("transient", "messages_pending")
            spilled = site.metrics()["paging_bodies_spilled_total"]
            consumer.consume("transient", 100)
            numbers: list[int] = []
            for found in consumer.deliveries():
                numbers += [delivery.number for delivery in found if len(delivery.body) == SPILL_BYTES]
                consumer.acknowledge(found[-1].tag, multiple=True)
                if len(numbers) == count:
                    break
            outcome.relations += [
                exactly("accepted without waiting for a consumer", accepted, count),
                exactly("not whole or out of order", int(numbers != list(range(count))), 0),
                Relation("spilled", spilled, least=count // 2),
                memory_relation(sampler, idle, SPILL_BUDGET),
                *stall_relations(site, before),
            ]
