"""V1: very many queues, none of which is deep, keep the budget together."""

from __future__ import annotations

from benchmarks.deep.client import BODY_BYTES, Client, ClientError, plain
from benchmarks.deep.outcome import Relation, exactly
from benchmarks.deep.run import Run, memory_relation, stall_relations
from benchmarks.deep.sampling import Stalls

MESSAGES_PER_QUEUE = 1000
"""Of the run's count: with ten million that is ten thousand queues."""

BUDGETS = 2.4
"""What they get together is so many times the budget: with ten thousand queues and 256 MiB some 60 messages each."""

TURNS = 6
"""Each queue gets its messages in so many parts, one after the others got theirs."""

DRAINED = 50
"""One of so many queues is drained at the end."""


def run_many_queues(run: Run) -> None:
    """Fill them in turns; nobody takes anything. Then look at some of them whether all is there, in order."""
    with run.site("many") as (site, sampler):
        names = [f"small-{number}" for number in range(max(20, run.count // MESSAGES_PER_QUEUE))]
        part = int(BUDGETS * run.budget / (BODY_BYTES * len(names) * TURNS)) + 1
        client = Client(site.port)
        for name in names:
            client.declare(name)
        idle, before = site.resident(), Stalls.of(site.metrics())
        title = f"{len(names):,} queues of {part * TURNS * BODY_BYTES // 1024:,} KiB, nobody there"
        with run.check("V1", title) as outcome:
            for turn in range(TURNS):
                for name in names:
                    client.publish(name, range(turn * part, (turn + 1) * part), plain)
            wrong = 0
            for name in names[::DRAINED]:
                wrong += taken(site.port, name, part * TURNS) != list(range(part * TURNS))
            outcome.relations += [
                memory_relation(sampler, idle, run.budget),
                exactly(f"queues whose messages are not all there in order, one of {DRAINED} looked at", wrong, 0),
                Relation("resident set before, with the queues", idle / (1 << 20), "MiB"),
                *stall_relations(site, before),
            ]
        client.close()


def taken(port: int, queue: str, count: int) -> list[int]:
    """Take and acknowledge so many; return their numbers as they came. Raises ClientError when fewer come."""
    consumer = Client(port)
    consumer.consume(queue, count)
    found: list[int] = []
    for deliveries in consumer.deliveries():
        found += [delivery.number for delivery in deliveries]
        if len(found) >= count:
            consumer.acknowledge(deliveries[-1].tag, multiple=True)
            consumer.close()
            return found
    raise ClientError(f"{len(found)} of {count} messages of {queue} came")
