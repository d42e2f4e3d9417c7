"""A4: what a new consumer waits for its first message, while others are far ahead of it and the disk is cold.

The design's case is a queue whose head is ready again, or never fitted the others, while these work in its middle. Here
the others are consumers with selectors whose only matches stand in the middle: each has passed over all that comes
before, and its cursor stays there, as its credit is used up. Beside them one holds ten thousand messages. What the
broker has in memory of the front is taken before each join, and what was read ahead is forgotten, so that the first
message of whoever comes has to be read.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.deep.client import BODY_BYTES, Client, ClientError, content_header
from benchmarks.deep.outcome import Relation
from benchmarks.deep.site import Site

JOINS: Final = 100
JOINS_FEW: Final = 20
SMALL: Final = 1_000_000
"""Messages of a run below which few joins have to do: each takes what is read at once, and leaves it to nobody."""

OTHERS: Final = 4
HELD: Final = 10_000
"""Messages that another consumer holds without acknowledging while others join."""

WINDOW: Final = 256
"""Of a consumer that joins: as many as are read at once, so that it leaves nothing in memory for the next."""

FORGOTTEN_SECONDS: Final = 0.6
"""After which the broker has given up what it read ahead and nobody wanted: half a second."""

WALK_SECONDS: Final = 300.0
"""Before others that do not come to the middle are an error: many times what passing over five million takes."""

EMPTIED_MOST: Final = 3
"""Consumers that take what is in memory of the front before a join; a broker that then has more brings it by itself."""


def joins_at(count: int) -> int:
    """Return how many consumers join in a run of so many messages."""
    return JOINS if count >= SMALL else JOINS_FEW


def publish_matches(site: Site, queue: str) -> None:
    """Publish the messages that the others will be at."""
    client = Client(site.port)
    headers = [content_header(headers={"place": f"middle-{number}"}) for number in range(OTHERS)]
    client.publish(queue, range(OTHERS), headers.__getitem__)
    client.leave()


def taken(client: Client, count: int, seconds: float = 60.0) -> int:
    """Read so many deliveries; return the tag of the last. Raises ClientError when fewer come."""
    received = 0
    for found in client.deliveries(seconds):
        received += len(found)
        if received >= count:
            return found[-1].tag
    raise ClientError(f"only {received} of {count} messages came")


@contextmanager
def others_in_the_middle(site: Site, queue: str) -> Iterator[None]:
    """Have others stand in the middle meanwhile. What they stand at is gone afterwards, and they have left."""
    clients = [Client(site.port) for _ in range(OTHERS)]
    for number, client in enumerate(clients):
        client.consume(queue, 1, x_selector=f"place = 'middle-{number}'")
    tags = [taken(client, 1, WALK_SECONDS) for client in clients]
    yield
    for client, tag in zip(clients, tags, strict=True):
        client.acknowledge(tag)
        client.leave()


def front(site: Site) -> int:
    """Return how many of the next messages have their bodies in memory, of all queues."""
    figures = site.metrics()
    return round(sum(figures[f'body_bytes{{residence="{where}"}}'] for where in ("direct", "head")) / BODY_BYTES)


def joins(site: Site, queue: str, count: int, behind: int) -> list[Relation]:
    """Measure so many joins. ``behind``: messages of the queue behind what others are at, and what came since."""
    depth = site.queue_metric(queue, "messages_pending")
    staying = [Client(site.port)]
    staying[0].consume(queue, HELD)
    taken(staying[0], HELD)
    seconds = []
    read = 0
    with others_in_the_middle(site, queue):
        for _ in range(count):
            staying += emptied_front(site, queue)
            site.drop_cache()
            before = loaded(site)
            client = Client(site.port)
            staying.append(client)
            began = time.monotonic()
            client.consume(queue, WINDOW)
            taken(client, 1)
            seconds.append((time.monotonic() - began) * 1000)
            read += loaded(site) > before
    for client in staying:
        client.close()
    seconds.sort()
    return [
        Relation("median", statistics.median(seconds), "ms", most=50),
        Relation("99th percentile", seconds[int(0.99 * len(seconds)) - 1], "ms", most=150),
        Relation("of them for whom the disk was read", read),
        Relation("at a depth of", depth),
        Relation("others ahead by", max(0, depth - behind)),
    ]


def loaded(site: Site) -> float:
    """Return how many messages were read back from disk."""
    return site.metrics()["paging_messages_loaded_total"]


def emptied_front(site: Site, queue: str) -> list[Client]:
    """Take what is in memory of the front, and wait until what was read ahead is forgotten; return who took it."""
    takers: list[Client] = []
    time.sleep(FORGOTTEN_SECONDS)
    while len(takers) < EMPTIED_MOST and (ready := front(site)):
        taker = Client(site.port)
        taker.consume(queue, ready)
        taken(taker, ready)
        takers.append(taker)
        time.sleep(FORGOTTEN_SECONDS)
    return takers
