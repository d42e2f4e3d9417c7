"""The broker whose loop is watched, in a process of its own: its turns, and the commands of a measurement."""

from __future__ import annotations

import asyncio
import json
import selectors
import sys
import threading
import time
import traceback
from collections import Counter
from typing import Final

import click
import structlog
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.cli.collector import settle_collector
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.wire.amqp091.messages.properties import VIEW

DURABLE: Final = b"\x10\x00\x02"
"""Content header of AMQP 0-9-1 with delivery mode 2 and nothing else."""

BODY: Final = b"x" * 100
FILL: Final = 500
"""Messages that are put into queues in one turn before a measurement."""

SAMPLE_SECONDS: Final = 0.005
"""Between two looks where the loop's thread is."""

SHOWN_FRAMES: Final = 5
"""Innermost frames of such a look."""


class Watch(selectors.DefaultSelector):
    """Notes the longest time between two waits for input: a turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self.turns = 0
        self.samples: list[str] = []  # of this turn: where the thread was
        self.where: list[tuple[str, int]] = []  # of the longest turn: where it was most often
        self._began = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for input."""
        took = time.thread_time() - self._began
        if took > self.longest:
            self.longest = took
            self.where = Counter(self.samples).most_common(6)
        self.turns += 1
        found = super().select(timeout)
        self.samples.clear()
        self._began = time.thread_time()
        return found

    def sample(self, thread: int) -> None:
        """Note where the loop's thread is, over and over. In a thread of its own."""
        while True:
            time.sleep(SAMPLE_SECONDS)
            frame_now = sys._current_frames().get(thread)
            if frame_now is not None:
                stack = traceback.extract_stack(frame_now)
                self.samples.append(" < ".join([f"{one.name}:{one.lineno}" for one in reversed(stack[-SHOWN_FRAMES:])]))

    def begin(self) -> None:
        """Forget what was."""
        self.longest, self.turns = 0.0, 0
        self._began = time.thread_time()


async def fill(
    broker: Broker, queue: str, count: int, exchange: str = "", headers: str = "", expires_at: int = 0, key: str = ""
) -> None:
    """Publish so many messages. ``headers``: their content header in hexadecimal digits; ``key``: a header that counts
    them."""
    host = broker.hosts["/"]
    encoded = bytes.fromhex(headers) or DURABLE
    durable = encoded == DURABLE or bool(key)
    route = host.route(exchange, queue)
    origin = Origin(exchange, queue, "benchmark", VIEW)
    for number in range(count):
        now = broker.clock()
        if key:
            encoded = commands.Basic.Properties(delivery_mode=2, headers={key: number}).marshal()
        message = Message(encoded, BODY, origin, durable=durable, accepted_at=now, expires_at=expires_at)
        host.publisher.publish(message, route, now)
        if number % FILL == FILL - 1:
            await asyncio.sleep(0)
    await broker.commit.durable()


def declare(
    broker: Broker, count: int, exchange: str = "", name: str = "many", length: int = -1, letters: str = ""
) -> None:
    """Declare so many queues, bound to an exchange; with a length limit, and an exchange for dead letters."""
    host, now = broker.hosts["/"], broker.clock()
    arguments: dict[str, PropertyValue] = {}
    if length >= 0:
        arguments["x-max-length"] = length
    if letters:
        arguments["x-dead-letter-exchange"] = letters
    for number in range(count):
        queue = host.declare_queue(f"{name}{number}", now=now, durable=False, auto_delete=False, arguments=arguments)
        if exchange:
            host.bind_queue(queue, exchange, "")


async def serve_clients(data: str, watch: Watch) -> None:
    """Carry out commands from standard input, each a line of JSON, and answer each with one."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with testing.broker(data_dir=data or None, http=True, stomp=True, bulk=True) as running:
        broker = running.broker
        ports: dict[str, object] = {
            "amqp": broker.amqp_address[1],
            "stomp": running.stomp_address[1],
            "http": running.http_url,
            "bulk": running.bulk_url,
        }
        settle_collector()
        print(json.dumps(ports), flush=True)
        while line := await reader.readline():
            command = json.loads(line)
            name, arguments = command.pop("do"), command
            answer: dict[str, object] = {}
            if name == "fill":
                await fill(broker, **arguments)
            elif name == "declare":
                declare(broker, **arguments)
            elif name == "begin":
                watch.begin()
            elif name == "report":
                answer = {"milliseconds": watch.longest * 1000, "turns": watch.turns, "where": watch.where}
            elif name == "state":
                answer = state(broker, **arguments)
            print(json.dumps(answer), flush=True)


def state(broker: Broker, queue: str) -> dict[str, object]:
    """Return what of a queue is where, and whether something is being done in slices."""
    found = broker.hosts["/"].queues.get(queue)
    waiting = broker.worker.waiting
    if found is None:
        return {"pending": -1, "delivering": -1, "waiting": waiting}
    return {"pending": found.order.count, "delivering": len(found.delivering), "waiting": waiting}


@click.command()
@click.argument("folder")
def main(folder: str) -> None:
    """Run the broker with its data in FOLDER; 'memory': with none."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    watch = Watch()
    threading.Thread(target=watch.sample, args=(threading.get_ident(),), daemon=True).start()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(watch)) as runner:
        runner.run(serve_clients("" if folder == "memory" else folder, watch))


if __name__ == "__main__":
    main()
