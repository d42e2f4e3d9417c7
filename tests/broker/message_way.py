"""Traces single messages through a broker of pure Python, and prints the files that each step touches, as JSON.

A program of its own: compiled modules make no frames that could be traced. Run from the root of the repository with
``ANNULET_PURE=1``: ``python -m tests.broker.message_way``; ``--files`` names the files, ``--calls`` the functions. In
the compiled build it finds what is interpreted on a message's way.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pamqp import commands, frame

import annulet
from annulet import testing
from annulet.wire.amqp10.frames.link_frames import Disposition
from tests.broker.amqp091.peer import Peer, persistent, turns
from tests.broker.amqp10 import peer as amqp10

PACKAGE: Final = Path(annulet.__file__).parent
ROOM_PARTS: Final = 2
"""Folders of a path that name its room: ``core/queue``."""


class Trace:
    """The functions of the package that were called, each with the file of its caller. The test kit's do not count."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []  # file of the function, file of its caller
        self.functions: list[str] = []  # the same calls

    def __call__(self, called: FrameType, event: str, argument: object) -> None:
        """Note a call (``sys.setprofile``)."""
        del argument
        file = _file_of(called)
        if event == "call" and file and not file.startswith("testing/"):
            self.calls.append((file, _file_of(called.f_back)))
            self.functions.append(f"{file}:{called.f_code.co_qualname}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Trace what is called within."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)

    @property
    def files(self) -> list[str]:
        """The files whose functions were called, in their order."""
        return list(dict.fromkeys(file for file, _ in self.calls))

    @property
    def moves(self) -> int:
        """Calls of a function in another room than its caller's."""
        return sum(1 for file, caller in self.calls if caller and _room(file) != _room(caller))


def _file_of(called: FrameType | None) -> str:
    """Return the file of a function of the package, relative to it; empty for others."""
    path = Path(called.f_code.co_filename) if called is not None else Path()
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""


def _room(file: str) -> tuple[str, ...]:
    return tuple(file.split("/")[:ROOM_PARTS]) if file.count("/") >= ROOM_PARTS else tuple(file.split("/")[:1])


async def trace_amqp091(broker: Any) -> dict[str, Trace]:
    """Publish a persistent message that no consumer waits for, one that is handed over, and acknowledge it."""
    peer = await Peer(broker).open(1)
    await peer.send(1, commands.Queue.Declare(0, "amqp091", durable=True), commands.Confirm.Select())
    publish = persistent(1, "amqp091")
    for _ in range(3):
        peer.receive(publish)
        await turns()
    traces = {step: Trace() for step in ("publish", "hand-over", "acknowledgement")}
    with traces["publish"].running():
        peer.receive(publish)
    await peer.send(1, commands.Basic.Consume(0, "amqp091", "tag"), publish, publish)
    with traces["hand-over"].running():
        peer.receive(publish)
    await turns()
    peer.receive(frame.marshal(commands.Basic.Ack(6), 1))
    await turns()
    with traces["acknowledgement"].running():
        peer.receive(frame.marshal(commands.Basic.Ack(7), 1))
    return traces


async def trace_amqp10(broker: Any) -> dict[str, Trace]:
    """Do the same over AMQP 1.0."""
    declaring = await Peer(broker).open(1)
    await declaring.send(1, commands.Queue.Declare(0, "amqp10", durable=True))
    peer = await amqp10.Peer(broker).open()
    sender = await peer.sender("amqp10")
    payload = amqp10.message(durable=True)
    for _ in range(3):
        await peer.publish(sender, payload)
    traces = {step: Trace() for step in ("1.0 publish", "1.0 hand-over", "1.0 acceptance")}
    sent = peer.transfer(sender, payload)
    with traces["1.0 publish"].running():
        peer.receive(sent)
    await peer.receiver("amqp10", credit=100)
    await peer.publish(sender, payload)
    sent = peer.transfer(sender, payload)
    with traces["1.0 hand-over"].running():
        peer.receive(sent)
    await turns()
    for number in (3, 4):
        accepted = amqp10.frame(Disposition(True, number, settled=True, state=amqp10.ACCEPTED))
        trace = traces["1.0 acceptance"] if number == 4 else Trace()
        with trace.running():
            peer.receive(accepted)
        await turns()
    return traces


async def trace_all() -> dict[str, Trace]:
    """Trace all steps in a broker with a data directory, and a pass of its pager that has nothing to do."""
    with tempfile.TemporaryDirectory() as directory:
        async with testing.broker(http=False, data_directory=Path(directory)) as running:
            broker = running.broker
            traces = await trace_amqp091(broker) | await trace_amqp10(broker)
            assert broker.pager is not None
            traces["idle pager pass"] = Trace()
            with traces["idle pager pass"].running():
                broker.pager.window_written()
            return traces


def figures(trace: Trace) -> Any:
    """Return what the options ask for: names, or the numbers of files, of moves between rooms and of calls."""
    if "--files" in sys.argv:
        return trace.files
    if "--calls" in sys.argv:
        return Counter(trace.functions)
    return {"files": len(trace.files), "moves": trace.moves, "calls": len(trace.calls)}


def main() -> None:
    """Print what each step touches."""
    traces = asyncio.run(trace_all())
    found: dict[str, Any] = {step: figures(trace) for step, trace in traces.items()}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
