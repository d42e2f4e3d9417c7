"""A program that publishes a staged batch with an AMQP consumer waiting, and kills itself at a point of the commit.

``python -m tests.crash.dying_commit DATA POINT ROWS``. What the consumer got is in ``DATA.received``, one body a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from tests.bulk.commit_stops import appended, committing, disk_stopped, staged, stop_between_turns
from tests.bulk.helpers import Bench, away, bench
from tests.cheap_passwords import use_cheap_passwords

BETWEEN_TURNS, BEFORE_DURABLE, COMMITTED = "between turns", "before durable", "committed"


def connect(here: Bench) -> BlockingConnection:
    return BlockingConnection(pika.ConnectionParameters("127.0.0.1", here.broker.amqp_address[1]))


def consume(here: Bench, received: Path, consuming: threading.Event) -> None:
    """Take what comes, with credit for all of it, and write each body down at once."""
    channel = connect(here).channel()
    with received.open("ab", buffering=0) as file:

        def take(*delivery: Any) -> None:
            file.write(delivery[3] + b"\n")

        channel.basic_consume("consumed", take, auto_ack=True)
        consuming.set()
        channel.start_consuming()


def round_trip(here: Bench) -> None:
    """Ask the broker something on a connection of its own: what it wrote for the consumer before, it wrote."""
    connection = connect(here)
    connection.channel().queue_declare("consumed", passive=True)
    connection.close()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def live(data: Path, point: str, rows: int) -> None:
    async with bench(data) as here:
        queue = here.declare("consumed")
        here.declare("kept")
        consuming = threading.Event()
        received = data.with_name(f"{data.name}.received")
        threading.Thread(target=consume, args=(here, received, consuming), daemon=True).start()
        await away(consuming.wait)
        bodies = [b"%06d" % number for number in range(rows)]
        request = staged(here, {"consumed": bodies, "kept": bodies})
        patch = pytest.MonkeyPatch()
        turns = stop_between_turns(queue, patch, rows // 4)
        async with disk_stopped(here):
            commit = committing(here, request)
            await turns.stopped.wait()
            await away(lambda: round_trip(here))
            if point == BETWEEN_TURNS:
                die()
            turns.go_on.set()
            await appended(here)
            await away(lambda: round_trip(here))
            if point == BEFORE_DURABLE:
                die()
        await commit
        die()


if __name__ == "__main__":
    use_cheap_passwords()
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
