"""What the event log costs: processor time of a message's life in the core of one process, without and with it.

``python -m benchmarks.event_log [MESSAGES]``; ``ANNULET_PURE=1`` without compiled modules. No sockets, no disk.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

from annulet import testing
from annulet.broker.durability.event_log import EVENT_QUEUE
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import QueueEntry
from annulet.core.sessions.session import Session

MESSAGES: Final = 50_000
A_TURN: Final = 100
"""Messages of one turn of the loop."""


class Silent(Session):
    """Takes what it is given."""

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Leave it at that."""


async def measure(patterns: tuple[str, ...], messages: int) -> tuple[float, float]:
    """Return microseconds of processor time and bytes of events, for one message."""
    async with testing.broker(http=False, event_queues=patterns, log_level="error") as running:
        broker = running.broker
        queue = broker.hosts["/"].declare_queue("measured", now=broker.clock())
        session = Silent("session")
        session.attach(Consumer(session, queue, "consumer", window=CreditWindow(A_TURN, -1)), broker.clock())
        origin = Origin("", "measured", "guest", ContentView("none"))
        began = time.process_time()
        for number in range(1, messages + 1):
            now = broker.clock()
            queue.enqueue(Message(b"", b"body", origin, accepted_at=now), now)
            session.acknowledge(number, now)
            if number % A_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        taken = (time.process_time() - began) / messages * 1e6
        events = broker.hosts["/"].queues.get(EVENT_QUEUE)
        return taken, 0.0 if events is None else events.counters.bytes_added / messages


def main() -> None:
    """Measure both in turn, three times, and print the best of each."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    best: dict[tuple[str, ...], tuple[float, float]] = {}
    for patterns in ((), ("#",)) * 3:
        found = asyncio.run(measure(patterns, messages))
        best[patterns] = min(best.get(patterns, found), found)
    without, with_log = best[()], best[("#",)]
    print(f"without: {without[0]:.1f} us a message; with: {with_log[0]:.1f} us and {with_log[1]:.0f} bytes of events")


if __name__ == "__main__":
    main()
