"""Loopback ports for a broker that runs as a child process and keeps its ports over restarts.

A port that the kernel chooses (port 0) is free only at that moment: once it is closed, any outgoing connection of the
machine may be given it. These ports lie below the range that outgoing connections are given, and each process takes
them from a block that it has claimed for its life.
"""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
FIRST_PORT: Final = 10_240
BLOCK_PORTS: Final = 512
"""Ports of one block; a process begins again at the first one after the last one."""
EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
CLAIM: Final = "\0annulet-loopback-ports-{}"
"""Abstract Unix address of a block's claim: the kernel takes it back when the process ends, however it ends."""


class LoopbackPorts:
    """Gives out free loopback ports, each at most once in a round through the block."""

    def __init__(self) -> None:
        self._claim: socket.socket | None = None
        self._numbers = self._claimed_numbers()

    def take(self, count: int) -> list[int]:
        """Return ``count`` different ports on which no program listens."""
        ports: list[int] = []
        while len(ports) < count:
            port = next(self._numbers)
            if port not in ports and _is_free(port):
                ports.append(port)
        return ports

    def close(self) -> None:
        """Give up the block, for other processes."""
        if self._claim is not None:
            self._claim.close()

    def _claimed_numbers(self) -> Iterator[int]:
        block = self._claim_block()
        while True:
            if block is None:
                yield _port_of_kernel()
            else:
                yield from block

    def _claim_block(self) -> range | None:
        """Claim a block that no other process holds; ``None`` where the system has no such blocks or all are held."""
        if sys.platform != "linux":
            return None
        blocks = [
            range(first, first + BLOCK_PORTS)
            for first in range(FIRST_PORT, _first_ephemeral_port() - BLOCK_PORTS + 1, BLOCK_PORTS)
        ]
        random.shuffle(blocks)
        for block in blocks:
            claim = socket.socket(socket.AF_UNIX)
            try:
                claim.bind(CLAIM.format(block.start))
            except OSError:
                claim.close()
                continue
            self._claim = claim
            return block
        return None


def _first_ephemeral_port() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(EPHEMERAL_RANGE.read_text().split()[0])
    return 0


def _is_free(port: int) -> bool:
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError:
        return False
    return True


def _port_of_kernel() -> int:
    with socket.create_server((LOOPBACK, 0)) as listening:
        return int(listening.getsockname()[1])


_ports = LoopbackPorts()


def free_ports(count: int) -> list[int]:
    """Return ``count`` different loopback ports on which no program listens, for brokers started by this process."""
    return _ports.take(count)
