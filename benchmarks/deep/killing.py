"""A10: a load of 20,000 messages a second until the last checkpoint is as old as it gets, and then ``kill -9``.

Half of them are published, half acknowledged, on one channel, so that a confirm tells which acknowledgements are on
disk. What is published is small and only odd numbers are acknowledged: a checkpoint comes with each 64 MiB written, or
16 where that frees a segment, and every 10 s otherwise, so that of messages of 1 KiB it is never as old.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from benchmarks.deep.client import Client, ClientError, Delivery, content_header
from benchmarks.deep.outcome import Relation
from benchmarks.deep.site import Site

GONE, PRESENT, UNCERTAIN = 0, 1, 2
"""Of a message: acknowledged, and that confirmed; there; acknowledged, and nobody said what became of that."""

RATE: Final = 10_000
"""Messages a second that are published, and as many that are acknowledged."""

RATE_SHARE: Final = 40
"""Of a small backlog so many seconds' worth: it is not to be used up before the kill."""

SIZE: Final = 16
HEADER: Final = content_header(SIZE)
LEAST: Final = 50
"""Messages published at a time, where hardly any came."""

KILL_AGE: Final = 9.5
"""Seconds: the next checkpoint comes at 10."""

OLD_AGE: Final = 8.0
LOAD_SECONDS_MOST: Final = 45.0
"""Of a broker that writes a checkpoint more often: it is killed all the same, and its age says so."""

LAST_WORDS_SECONDS: Final = 1.0


@dataclasses.dataclass
class Killed:
    """What was promised before a kill. ``confirmed``: numbers of the messages that are."""

    confirmed: range
    checkpoint_age: float  # seconds
    rate: float  # messages a second, both kinds

    def relations(self) -> list[Relation]:
        """Return how hard it was."""
        return [
            Relation("checkpoint at the kill, of an age of", self.checkpoint_age, "s", least=OLD_AGE),
            Relation("published and acknowledged before", self.rate, "/s"),
        ]


class Load:
    """Publishes and acknowledges on one channel, and knows which acknowledgements a confirm covers."""

    def __init__(self, client: Client, queue: str, present: bytearray) -> None:
        self.done = 0  # messages published and acknowledged
        self._client = client
        self._queue = queue
        self._present = present
        self._next = len(present)
        self._waiting: deque[tuple[int, list[int]]] = deque()  # the publish behind acknowledgements, and their numbers
        client.want_confirms()
        client.consume(queue, 0)

    @property
    def confirmed(self) -> range:
        """The numbers whose messages are."""
        return range(len(self._present), len(self._present) + self._client.confirmed)

    def go_on(self, found: list[Delivery]) -> None:
        """Acknowledge the odd ones of what came, publish as many, and see what was confirmed."""
        chosen = [delivery for delivery in found if delivery.number % 2 and delivery.number < len(self._present)]
        self._client.acknowledge_each([delivery.tag for delivery in chosen])
        for delivery in chosen:
            self._present[delivery.number] = UNCERTAIN
        count = max(LEAST, len(chosen))
        self._client.publish_some(self._queue, range(self._next, self._next + count), lambda _: HEADER, SIZE)
        self._next += count
        self.done += count + len(chosen)
        # the first of what was published behind them: messages are written in their order
        self._waiting.append((self._client.published - count + 1, [delivery.number for delivery in chosen]))
        self.note_confirmed()

    def note_confirmed(self) -> None:
        """Take for certain what is covered."""
        while self._waiting and self._waiting[0][0] <= self._client.confirmed:
            for number in self._waiting.popleft()[1]:
                self._present[number] = GONE


def kill_under_load(site: Site, queue: str, present: bytearray) -> Killed:
    """Kill the broker under load; mark what was acknowledged in ``present``."""
    client = Client(site.port)
    load = Load(client, queue, present)
    rate = min(RATE, len(present) // RATE_SHARE)
    began, start = time.monotonic(), time.time()
    age = 0.0
    for found in paced(client, rate):
        load.go_on(found)
        written = site.checkpoint_at()
        age = time.time() - written if written > start else 0.0
        if age >= KILL_AGE or time.monotonic() - began > LOAD_SECONDS_MOST:
            break
    seconds = time.monotonic() - began
    site.end(signal.SIGKILL)
    with contextlib.suppress(ClientError, OSError):  # what it had said before it was killed
        for _ in client.deliveries(LAST_WORDS_SECONDS):
            pass
    load.note_confirmed()
    client.close()
    return Killed(load.confirmed, age, load.done / seconds)


def paced(client: Client, rate: float) -> Iterator[list[Delivery]]:
    """Yield deliveries, of which each second ``rate`` are to be acknowledged: half of them."""
    began = time.monotonic()
    received = 0
    for found in client.deliveries():
        yield found
        received += len(found)
        time.sleep(max(0.0, began + received / (2 * rate) - time.monotonic()))
