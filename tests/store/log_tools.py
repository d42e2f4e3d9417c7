"""Short words for tests of the message log."""

from __future__ import annotations

from pathlib import Path

from annulet.core.message import ContentView, Message, Origin
from annulet.store.interface import Log
from annulet.store.log import MessageLog
from tests.store.simulated_files import SimulatedFiles

DIRECTORY = Path("/simulated")
SEGMENT = 16 << 10


class View(ContentView):
    name = "amqp-0-9-1"


ORIGIN = Origin("exchange", "key", "guest@127.0.0.1:1", View())


def message(body: bytes, **facts: int) -> Message:
    return Message(b"header", body, ORIGIN, durable=True, **facts)


def opened(files: SimulatedFiles) -> MessageLog:
    return MessageLog.open(DIRECTORY, files=files, segment_bytes=SEGMENT)


def flush(log: Log) -> None:
    batch = log.take_batch()
    if batch is not None:
        log.write(batch)
        log.complete(batch)


def upkeep(log: Log, *, checkpoint: bool = False) -> list[str]:
    """Run upkeep until nothing is left to do; return the kinds of tasks."""
    kinds = []
    while (task := log.maintenance(checkpoint=checkpoint and "CheckpointTask" not in kinds)) is not None:
        task.run()
        log.finish(task)
        kinds.append(type(task).__name__)
        assert len(kinds) < 500, f"upkeep does not end: {kinds[-5:]}"
        if task.error is not None:
            break
    return kinds


def live(log: Log) -> dict[bytes, list[tuple[int, int]]]:
    """Return body -> remaining targets; a body that comes twice is a failure."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for recovered in log.recovered():
        assert recovered.body not in found, "one message recovered twice"
        found[recovered.body] = recovered.targets
    return found
