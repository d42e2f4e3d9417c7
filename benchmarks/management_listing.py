"""How long a page of both management APIs takes with many queues and connections, and how long it holds the loop.

``python -m benchmarks.management_listing`` runs a broker in this process, connections and requests in two others. Each
turn of the event loop is timed by the processor time of its thread, so that other programs of the machine do not count.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import multiprocessing
import resource
import socket
import struct
import time
from asyncio.events import Handle
from multiprocessing.connection import Connection
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from annulet import testing
from annulet.broker.operation.listeners import open_listeners
from annulet.cli.collector import settle_collector
from annulet.cli.remote.loads.amqp_load import (
    CHANNEL_OPEN,
    CHANNEL_OPEN_OK,
    FRAME_MAX,
    HEADER,
    METHOD,
    OPEN,
    READ_BYTES,
    START_OK,
    TUNE_OK,
    frame,
    long_text,
    short,
)

OPENING_SECONDS_MAX: Final = 60.0
"""That the broker may take to answer a connection."""

METRICS: Final = "metrics"
"""The one path that is not below ``/api``."""

PAGES: Final = (
    "queues?page=1&page_size=100",
    "queues?page=50&page_size=100&sort=name&sort_reverse=true",
    "queues?page=1&page_size=100&sort=messages",
    "queues?page=1&page_size=500&sort=message_stats.publish_details.rate&sort_reverse=true",
    "queues?page=1&page_size=100&name=7&columns=name,messages",
    "queues?page=1&page_size=100&name=^queue-.*7$&use_regex=true",
    "queues?disable_stats=true",
    "queues",
    "connections?page=1&page_size=100",
    "connections?page=1&page_size=100&sort=recv_oct&sort_reverse=true",
    "connections",
    "channels?page=1&page_size=500&sort=name",
    "consumers?page=1",
    "bindings?page=1&page_size=100",
    "overview",
    "v1/queues",
    "v1/queues?page_size=500&columns=name,messages&sort=messages&sort_reverse=true",
    "v1/queues?page_size=100&name=7&columns=name",
    "v1/connections?page_size=100&sort=bytes_received&sort_reverse=true",
    "v1/sessions?page_size=500&sort=unacknowledged",
    "v1/consumers",
    "v1/bindings?page_size=100",
    METRICS,
)
"""The requests that are timed."""

CREDENTIALS: Final = base64.b64encode(b"guest:guest").decode()


class Turns:
    """Times each callback of the event loop by the processor time of the thread."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._run = Handle._run

    def __enter__(self) -> Turns:
        """Begin."""
        run, turns = self._run, self

        def timed(handle: Handle) -> None:
            began = time.thread_time()
            run(handle)
            turns.longest = max(turns.longest, time.thread_time() - began)

        Handle._run = timed  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        Handle._run = self._run  # type: ignore[method-assign]


def connect_many(port: int, count: int, pipe: Connection) -> None:
    """Hold connections with a channel each, in a process of its own, until told to end.

    A thousand clients of a library answer too late on a busy machine; a socket with prepared frames costs nothing.
    """
    held = [_open_connection(port) for _ in range(count)]
    pipe.send(len(held))
    pipe.recv()
    for connection in held:
        connection.close()


def _open_connection(port: int) -> socket.socket:
    """Return a connection of AMQP 0-9-1 with channel 1: all that a client says at its start, and the last answer."""
    login = long_text(b"") + short("PLAIN") + long_text(b"\0guest\0guest") + short("en_US")
    said = (
        (0, START_OK, login),
        (0, TUNE_OK, struct.pack(">HIH", 1, FRAME_MAX, 0)),
        (0, OPEN, short("/") + short("") + b"\0"),
        (1, CHANNEL_OPEN, short("")),
    )
    frames = [frame(METHOD, channel, struct.pack(">HH", *method) + fields) for channel, method, fields in said]
    connection = socket.create_connection(("127.0.0.1", port), timeout=OPENING_SECONDS_MAX)
    connection.sendall(HEADER + b"".join(frames))
    heard, last = b"", struct.pack(">HH", *CHANNEL_OPEN_OK)
    while last not in heard:
        piece = connection.recv(READ_BYTES)
        if not piece:
            raise SystemExit(f"the broker refused a connection: {heard[-200:]!r}")
        heard += piece
    return connection


def ask_all(host: str, port: int, pipe: Connection) -> None:
    """Request the paths that come through the pipe, in a process of its own; send back seconds and bytes."""
    while True:
        path = pipe.recv()
        if path is None:
            return
        client = http.client.HTTPConnection(host, port)
        began = time.perf_counter()
        address = f"/{METRICS}" if path == METRICS else f"/api/{path.replace('^', '%5E').replace('$', '%24')}"
        client.request("GET", address, headers={"Authorization": f"Basic {CREDENTIALS}"})
        body = client.getresponse().read()
        seconds = time.perf_counter() - began
        if path != METRICS:
            json.loads(body)
        client.close()
        pipe.send((seconds, len(body)))


async def measure(queues: int, connections: int) -> list[tuple[str, float, float, float, int]]:
    """Return path, seconds, those computed, the longest turn of the loop in seconds, and bytes of the answer."""
    loop = asyncio.get_running_loop()
    context = multiprocessing.get_context("spawn")
    async with testing.broker() as running:
        host, now = running.broker.hosts["/"], running.broker.clock()
        for number in range(queues):
            host.declare_queue(f"queue-{number:06}", now=now)
            if number % 100 == 0:
                await asyncio.sleep(0)
        settle_collector()  # as a broker process does: collections of all queues held the loop for 0.3 s
        ours, theirs = context.Pipe()
        clients = context.Process(target=connect_many, args=(running.broker.amqp_address[1], connections, theirs))
        asking, asked = context.Pipe()
        http_listener = open_listeners(running.broker)["http"]
        requests = context.Process(target=ask_all, args=(http_listener.host, http_listener.port, asked))
        clients.start()
        requests.start()
        try:
            await loop.run_in_executor(None, ours.recv)
            found = []
            for path in PAGES:
                with Turns() as turns:
                    began = time.thread_time()
                    asking.send(path)
                    seconds, size = await loop.run_in_executor(None, asking.recv)
                    computed = time.thread_time() - began
                found.append((path, seconds, computed, turns.longest, size))
            return found
        finally:
            asking.send(None)
            ours.send(None)
            for process in (clients, requests):
                process.join(10)
                process.kill()


@click.command()
@click.option("--queues", default=10_000, show_default=True)
@click.option("--connections", default=1_000, show_default=True)
def main(queues: int, connections: int) -> None:
    """Print seconds of each page and the longest turn of the event loop."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    table = Table("page", "seconds", "computed", "longest turn ms", "KiB")
    rows: list[tuple[Any, ...]] = asyncio.run(measure(queues, connections))
    for path, seconds, computed, longest, size in rows:
        table.add_row(path, f"{seconds:.3f}", f"{computed:.3f}", f"{longest * 1000:.1f}", f"{size / 1024:.0f}")
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
