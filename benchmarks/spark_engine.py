"""What a command, an image and a restart of the engine cost in processor time, without Spark: what of it is Python.

``python -m benchmarks.spark_engine``: publishes to one queue until it is deep, then batches of publishes, deliveries
and acknowledgements to many queues, each batch written to a state in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import click
import msgspec

from annulet.spark.engine import shard as shards
from annulet.spark.engine.image import pack_rows, read_image, unpack_rows, write_image
from annulet.spark.engine.journal import KINDS, Given
from annulet.spark.engine.replica import Replica
from annulet.spark.engine.shard import carry_out, close_shard, open_shard

BODY: Final = bytes(100)
Row = tuple[str, int, str, bytes]


class CountingState:
    """A shard's state in memory, which counts calls and bytes written."""

    def __init__(self) -> None:
        self.head: str | None = None
        self.blobs: dict[str, dict[int, bytes]] = {kind: {} for kind in KINDS}
        self.calls = self.written = 0

    def read_head(self) -> str | None:
        """Return the head."""
        self.calls += 1
        return self.head

    def write_head(self, head: str) -> None:
        """Replace the head."""
        self.calls += 1
        self.head = head

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        """Return all blobs of a kind."""
        self.calls += 1
        yield from list(self.blobs[kind].items())

    def read_blob(self, kind: str, number: int) -> bytes:
        """Return one blob."""
        self.calls += 1
        return self.blobs[kind][number]

    def write_blob(self, kind: str, number: int, blob: bytes) -> None:
        """Put a blob."""
        self.calls += 1
        self.written += len(blob)
        self.blobs[kind][number] = blob

    def drop_blob(self, kind: str, number: int) -> None:
        """Remove a blob."""
        self.calls += 1
        del self.blobs[kind][number]


def command(queue: str, sequence: int, body: bytes = b"", **fields: object) -> Row:
    """Return a row as a shard takes it."""
    document = {"queue": queue, "sequence": sequence, "at": 1_700_000_000_000 + sequence, **fields}
    return queue, sequence, msgspec.json.encode(document).decode(), body


def deep_queue(depth: int) -> None:
    """Fill one queue, and print what its commands and its image cost."""
    replica = Replica("deep")
    rows = [command("deep", 1, command="configure")]
    rows += [command("deep", 2 + number, BODY, command="publish", message_id=f"m{number}") for number in range(depth)]
    given = [Given(queue, sequence, 0, document, body) for queue, sequence, document, body in rows]
    empty = sum(map(len, pack_rows(write_image(replica))))
    began = time.process_time()
    for one in given:
        carry_out(replica, one)
    taken = time.process_time()
    packed = list(pack_rows(write_image(replica)))
    written = time.process_time()
    read_image(unpack_rows(packed))
    read = time.process_time()
    size = sum(map(len, packed))
    print(f"one queue of {depth:,} messages of {len(BODY)} bytes")
    print(f"  publishes            {len(given) / (taken - began):10,.0f} /s")
    print(f"  image made           {1e6 * (written - taken) / depth:10.1f} µs/message")
    print(f"  image read           {1e6 * (read - written) / depth:10.1f} µs/message")
    print(f"  image                {size / depth:10.1f} bytes/message; a queue never configured {empty} bytes")


def many_queues(queues: int, batches: int) -> None:
    """Let messages come and go in batches over many queues, and print what is written and called."""
    state, sequence, came = CountingState(), 0, 0
    names = [f"q{number}" for number in range(queues)]
    rows: list[Row] = []
    for place, name in enumerate(names):
        rows.append(command(name, 2 * place + 1, command="configure"))
        rows.append(command(name, 2 * place + 2, command="consume", session="s", consumer="c", credit=10))
    sequence = 2 * queues
    began = time.process_time()
    count = 0
    for batch in range(batches + 1):
        held, head = open_shard(1, state)
        held.take(rows)
        close_shard(held, head, state)
        count += len(rows)
        came += sum(len(document) + len(body) for _, _, document, body in rows)
        rows = []
        for name in names:
            rows.append(command(name, sequence + 1, BODY, command="publish"))
            rows.append(command(name, sequence + 2, command="acknowledge", session="s", tag=batch + 1))
            sequence += 2
    ended = time.process_time()
    shards.REMEMBERED.forget()
    held, head = open_shard(1, state)
    for name in names:
        held.replica(name)
    restarted = time.process_time()
    print(f"{queues} queues, {batches} batches of a publish and an acknowledgement for each")
    print(f"  commands             {count / (ended - began):10,.0f} /s, state included")
    print(f"  written              {state.written / came:10.2f} of the bytes that came in")
    print(f"  state calls          {state.calls / (batches + 1):10.1f} a batch")
    print(f"  restart              {1e3 * (restarted - ended) / queues:10.2f} ms a queue")


@click.command()
@click.option("--depth", default=20_000, show_default=True, help="Messages of the deep queue.")
@click.option("--queues", default=200, show_default=True, help="Queues of the batches.")
@click.option("--batches", default=50, show_default=True, help="Batches.")
def main(depth: int, queues: int, batches: int) -> None:
    """Print what the engine's own work costs."""
    deep_queue(depth)
    many_queues(queues, batches)


if __name__ == "__main__":
    main()
