"""A9 to A12: starting again with everything there, exact acknowledgements, and the disk given back."""

from __future__ import annotations

import contextlib
import signal
import time

from benchmarks.deep.client import Client, ClientError, first_delivery, plain
from benchmarks.deep.killing import GONE, PRESENT, UNCERTAIN, kill_under_load
from benchmarks.deep.outcome import MIB, Relation, exactly
from benchmarks.deep.run import Run, memory_relation, wait_for
from benchmarks.deep.sampling import Sampler
from benchmarks.deep.site import Site

QUEUE = "restarts"
SEGMENT_BYTES = 16 * MIB
HEADS_BYTES = SEGMENT_BYTES // 6
"""Of a segment at most, where bodies have 1 KiB: what was given back has none left."""

RELEASE_SECONDS = 60.0
QUIET_SECONDS = 3.0


def run_restarts(run: Run) -> None:
    """Fill, stop, kill under load, acknowledge every other message, kill, acknowledge all but one."""
    with run.site("restarts") as (site, sampler):
        idle = site.resident()
        filler = Client(site.port)
        filler.declare(QUEUE)
        filler.publish(QUEUE, range(run.count), plain)
        filler.close()
        with run.check("A9", "clean restart") as outcome:
            stopped = site.end(signal.SIGTERM)
            started = site.start()
            first = started + first_delivery(site.port, QUEUE)
            outcome.relations += [
                Relation("listening after", started, "s", most=3),
                Relation("first delivery after", first, "s", most=5),
                exactly("messages", site.queue_metric(QUEUE, "messages_pending"), run.count),
                Relation("the stop took", stopped, "s"),
                memory_relation(sampler, idle, run.budget),
            ]
        present = bytearray([PRESENT]) * run.count
        with run.check("A10", "kill -9 while others publish and acknowledge, the checkpoint 10 s old") as outcome:
            since = sampler.now()
            killed = kill_under_load(site, QUEUE, present)
            started = site.start()
            resident = memory_relation(sampler, idle, run.budget, since)  # under load, and at the start
            since = sampler.now()
            lost, back = take_alternate(site, present, killed.confirmed)
            outcome.relations += [
                *killed.relations(),
                Relation("listening after", started, "s", most=30),
                exactly("confirmed and lost", lost, 0),
                exactly("settled and back", back, 0),
                resident,
                held_memory(sampler, idle, since),
            ]
        left = sum(present)
        with run.check("A11", "every other message acknowledged, kill -9") as outcome:
            site.end(signal.SIGKILL)
            state = sum(path.stat().st_size for path in (site.data / "messages").glob("checkpoint-*"))
            since = sampler.now()
            started = site.start()
            outcome.relations += [
                exactly("messages", site.queue_metric(QUEUE, "messages_pending"), left),
                Relation("acknowledgement state", state / MIB, "MiB", most=max(2.0, 2.0 * run.count / 1e7)),
                Relation("listening after", started, "s", most=30),
            ]
        with run.check("A12", "each of these, and all but the first acknowledged") as outcome:
            take_all_but_first(site, outcome.relations, present)
            outcome.relations.append(memory_relation(sampler, idle, run.budget, since))


def held_memory(sampler: Sampler, idle: int, since: float) -> Relation:
    """Return the resident set while one consumer is sent everything and holds half of it. It has no bound: what is held
    without a limit is beside the budget, and comes to some 130 MiB for a million (A14)."""
    grown = (sampler.highest_since(since) - idle) / MIB
    return Relation("resident set over the idle broker's while one holds half", grown, "MiB")


def take_alternate(site: Site, present: bytearray, confirmed: range) -> tuple[int, int]:
    """Take everything, acknowledge odd numbers and what is beyond; return how many were lost, and came back.

    What is uncertain are odd numbers.
    """
    consumer = Client(site.port)
    expected = site.queue_metric(QUEUE, "messages_pending")
    consumer.consume(QUEUE, 0)
    count = len(present)
    seen, back, received, beyond = bytearray(count), 0, 0, set()
    for found in consumer.deliveries():
        tags = []
        for delivery in found:
            number = delivery.number
            if number >= count:
                beyond.add(number)
                tags.append(delivery.tag)
                continue
            back += present[number] == GONE
            seen[number] = 1
            if number % 2:
                tags.append(delivery.tag)
                present[number] = 0
        consumer.acknowledge_each(tags)
        received += len(found)
        if received >= expected:
            break
    lost = sum(was == PRESENT and not now for was, now in zip(present, seen, strict=True))
    lost += len(set(confirmed) - beyond)
    present[:] = present.replace(bytes([UNCERTAIN]), bytes([GONE]))  # what of it was there is gone now as well
    producer = Client(site.port)
    producer.declare("marker")
    # Queued behind the acknowledgements on the other connection once these were read; its confirm covers them.
    wait_for(lambda: site.queue_metric(QUEUE, "messages_delivering") <= sum(present), 120)
    producer.publish("marker", range(1), plain)
    producer.close()
    consumer.close()
    return lost, back


def take_all_but_first(site: Site, relations: list[Relation], present: bytearray) -> None:
    """Acknowledge all but the first, each the next that must be there; wait until the log has given back segments."""
    consumer = Client(site.port)
    consumer.consume(QUEUE, 2000)
    left = sum(present)
    received, first, wrong, expected = 0, -1, 0, present.find(PRESENT)
    for found in consumer.deliveries():
        for delivery in found:
            wrong += delivery.number != expected
            expected = present.find(PRESENT, delivery.number + 1)
        received += len(found)
        if first < 0:
            first = found[0].number
            consumer.acknowledge_each([delivery.tag for delivery in found[1:]])
        else:
            consumer.acknowledge_each([delivery.tag for delivery in found])
        if received >= left:
            break
    bound = 3 * SEGMENT_BYTES + MIB  # two, one that is being compacted, and what is beside records
    began = time.monotonic()
    with contextlib.suppress(ClientError):  # the figure says how much is left
        wait_for(lambda: site.log_bytes() <= bound, RELEASE_SECONDS)
    relations += [
        exactly("not the next that must be there", wrong, 0),
        Relation("segments on disk", site.log_bytes() / MIB, "MiB", most=bound / MIB),
        Relation("heads beside them", site.log_bytes("heads") / MIB, "MiB", most=3 * HEADS_BYTES / MIB),
        Relation("given back after", time.monotonic() - began, "s"),
    ]
    consumer.close()
    relations.append(exactly("messages left", wait_pending(site), 1))


def wait_pending(site: Site) -> int:
    """Return how many messages are pending when what was held has come back."""
    wait_for(lambda: site.queue_metric(QUEUE, "messages_delivering") == 0, QUIET_SECONDS * 10)
    return site.queue_metric(QUEUE, "messages_pending")
