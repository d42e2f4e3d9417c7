"""A16, A17, A21 and A23: priority, purging and expiring, bodies larger than the budget, transient messages."""

from __future__ import annotations

import threading
import time
from types import TracebackType

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
LARGE_SECONDS = 30.0
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
    """Messages of which each is more than the whole budget: one; three at once for one consumer; and for three.

    The account of bodies is looked at as often as the broker tells it, from when what was published is written. The
    design gives one ticket for such a message to the whole broker, so the account is the budget and one of them at
    most. Here a queue's next message stays in memory, however large, beside one that is on its way to its consumer: of
    those at once it is two. Three consumers are given theirs in one turn: one for each connection, and the 1 MiB that
    its output may hold.
    """
    with run.site("large", budget=LARGE_BUDGET) as (site, sampler):
        idle = site.resident()
        title = f"messages of 10 MiB with a budget of 4 MiB: one, {LARGE_COUNT} at once, and to as many consumers"
        with run.check("A21", title) as outcome:
            client = Client(site.port)
            client.declare("large")
            header = content_header(LARGE_BYTES)
            parts = [range(1), range(1, 1 + LARGE_COUNT), range(1 + LARGE_COUNT, 1 + 2 * LARGE_COUNT)]
            watches: list[BodiesWatch] = []
            whole = 0
            for numbers, consumers in zip(parts, (1, 1, LARGE_COUNT), strict=True):
                client.publish("large", numbers, lambda _: header, LARGE_BYTES)
                wait_for(lambda: bodies_told(site) <= LARGE_BUDGET + LARGE_BYTES, LARGE_SECONDS)  # they are written
                with BodiesWatch(site) as watch:
                    whole += large_taken(site, numbers, consumers)
                watches.append(watch)
            one, together, beside = (watch.most / MIB for watch in watches)
            outcome.relations += [
                exactly("whole and in order", whole, 1 + 2 * LARGE_COUNT),
                exactly("left", site.queue_metric("large", "messages_pending"), 0),
                Relation("looks at the account of bodies", min(watch.looks for watch in watches), least=2),
                Relation("bodies by it, of one", one, "MiB", most=(LARGE_BUDGET + LARGE_BYTES) / MIB),
                Relation("of those at once", together, "MiB", most=2 * LARGE_BYTES / MIB),
                Relation("to as many consumers", beside, "MiB", most=LARGE_COUNT * (1 + LARGE_BYTES / MIB)),
                memory_relation(sampler, idle, LARGE_BUDGET),
            ]


def large_taken(site: Site, numbers: range, consumers: int) -> int:
    """Have large messages taken at once; return how many came whole, each where it should."""
    takers = [Client(site.port) for _ in range(consumers)]
    each = len(numbers) // consumers
    for taker in takers:
        taker.consume("large", each)
    found: list[Delivery] = []
    for taker in takers:
        received: list[Delivery] = []
        for some in taker.deliveries():
            received += some
            if len(received) >= each:
                break
        found += received
        taker.acknowledge(received[-1].tag, multiple=True)
        taker.leave()
    return sum(
        delivery.number == number and len(delivery.body) == LARGE_BYTES
        for delivery, number in zip(found, numbers, strict=True)
    )


def bodies_told(site: Site) -> float:
    """Return the bytes of bodies in memory, by the broker's account."""
    return sum(value for name, value in site.metrics().items() if name.startswith("body_bytes{"))


class BodiesWatch(threading.Thread):
    """Looks at the broker's account of bodies in memory, again and again, until the block is left."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self.most = 0.0  # bytes
        self.looks = 0
        self._site = site
        self._ended = threading.Event()

    def run(self) -> None:
        """Look."""
        while not self._ended.is_set():
            self.most = max(self.most, bodies_told(self._site))
            self.looks += 1

    def __enter__(self) -> BodiesWatch:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self.join()


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
