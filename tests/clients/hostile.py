"""What tests with hostile peers share: a broker whose memory and log are watched, a bystander who must not notice."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, bodies

GROWTH_MAX_BYTES = 64 * 1024 * 1024
"""How much the broker may grow while it is attacked: a connection's buffers, and the heap's slack."""

FLOOD_BYTES = 64 * 1024 * 1024
"""What a peer that does not read tries to send."""

UNREAD_GROWTH_MAX_BYTES = 24 * 1024 * 1024
"""How much it may grow for one peer that asks and does not read: 2 MiB of answers, as much asked for by one read, 1 MiB
of deliveries, the largest message, and copies of each on their way to the socket."""

CONFIGURATION = """
handshake_timeout = 1.5
heartbeat = {heartbeat}

[limits]
max_message_bytes = 1048576
"""
MESSAGE_BYTES = 1_048_576


def resident_bytes(pid: int, what: str = "VmRSS") -> int:
    """Return a process's resident memory, or with ``VmHWM`` the most it ever was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")


class Fortress:
    """A broker under attack, and what it looked like before."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.peer = Peer(process.amqp_url, ours=True, stomp_port=process.stomp_port)
        self.before = resident_bytes(process.pid)

    def grown(self) -> int:
        """Return by how much it has grown."""
        return resident_bytes(self.process.pid) - self.before

    def check(self) -> None:
        """Expect that it stayed within its bound and that nothing in it failed."""
        assert self.grown() < GROWTH_MAX_BYTES, f"grew by {self.grown():,} bytes"
        assert self.process.log_file is not None
        log = self.process.log_file.read_text(errors="replace")
        assert "Traceback" not in log, log[-3000:]
        assert "internal-error" not in log, log[-3000:]


def fortress_in(folder: Path, *, heartbeat: int = 0) -> Iterator[BrokerProcess]:
    """Run a broker that keeps everything in memory and has small limits. ``heartbeat``: seconds, 0 for none."""
    configuration = folder / "annulet.toml"
    configuration.write_text(CONFIGURATION.format(heartbeat=heartbeat))
    with BrokerProcess(None, "--config", str(configuration), log_file=folder / "broker.log") as process:
        yield process


class Bystander:
    """Another client in the middle of its work: its connection, its deliveries and its messages must stay."""

    def __init__(self, peer: Peer) -> None:
        self.scene = Scene(peer)
        self.channel = self.scene.channel()
        self.queue = self.scene.queue(self.channel)
        for body in (b"held", b"pending"):
            self.channel.basic_publish("", self.queue, body)
        self.method, _, _ = self.channel.basic_get(self.queue)

    def declare(self, *messages: bytes, size: int = 0) -> str:
        """Make a queue with messages, each filled up to ``size`` bytes."""
        queue = self.scene.queue(self.channel)
        for message in messages:
            self.channel.basic_publish("", queue, message.ljust(size, b"."), pika.BasicProperties(delivery_mode=1))
        return queue

    def wait_for(self, queue: str, count: int) -> list[bytes]:
        """Take so many messages of a queue, as they come back to it."""
        taken: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(taken) < count:
            assert time.monotonic() < deadline, f"{len(taken)} of {count} messages came back to {queue}"
            taken += bodies(self.channel, queue)
            self.channel.connection.process_data_events(time_limit=0.01)
        return taken

    def finish(self) -> None:
        """Expect that everything is as it was left."""
        self.channel.basic_publish("", self.queue, b"later")
        self.channel.basic_nack(self.method.delivery_tag, requeue=True)
        assert bodies(self.channel, self.queue) == [b"held", b"pending", b"later"]
        self.scene.close()


def flood(connected: socket.socket, question: bytes, fortress: Fortress) -> None:
    """Ask and never read: the broker stops reading, and has grown by what is bounded."""
    before = resident_bytes(fortress.process.pid)
    peak = resident_bytes(fortress.process.pid, "VmHWM")
    connected.settimeout(0.5)
    with pytest.raises(TimeoutError):
        connected.sendall(question * (1 + FLOOD_BYTES // len(question)))
    grown = resident_bytes(fortress.process.pid) - before
    assert grown < UNREAD_GROWTH_MAX_BYTES, f"grew by {grown:,} bytes"
    peak = resident_bytes(fortress.process.pid, "VmHWM") - peak
    assert peak < UNREAD_GROWTH_MAX_BYTES, f"grew by {peak:,} bytes for a while"
