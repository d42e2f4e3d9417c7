"""The memory alarm: holds publishers back while the process is above its limit."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Final

import structlog

logger = structlog.get_logger(__name__)

RELEASE_SHARE: Final = 0.95
"""Share of the limit below which the alarm ends, so that it does not flutter around the limit."""

TRIM_CHECKS: Final = 4
"""Checks between two requests to the allocator to give freed memory back while the alarm is on: about a second."""

BESIDE_BODIES: Final = 64 << 20
"""Bytes that connections, messages in delivery and the rows of deep queues take beside bodies, as a rule: 6 bytes for
each of ten million waiting messages."""

M_ARENA_MAX: Final = -8
"""The GNU library's number of that option (``malloc.h``)."""

ARENAS_MAX: Final = 2
"""The event loop's, and one for all other threads."""

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
"""As :data:`M_ARENA_MAX`."""

LARGE_BLOCK_BYTES: Final = 8 << 20
"""A block of this size has a mapping of its own, and goes back to the system when it is freed; so does that much free
memory behind the last block in use. Above nearly all bodies, whose pages would be made anew for each, and below the
12 MiB that a password check computes in."""

_STATM: Final = Path("/proc/self/statm")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _statm_of(process: int) -> int:
    """Return a descriptor of this process's figures; a forked one has its own. -1 where there is no /proc."""
    del process
    try:
        return os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def resident_bytes() -> int:
    """Resident set size of this process in bytes; 0 where the system does not tell (no /proc).

    One call: opened, read and closed each time the file held the loop for 20 to 40 ms while other threads computed, as
    each of these calls gives the interpreter lock away.
    """
    descriptor = _statm_of(os.getpid())
    return int(os.pread(descriptor, 256, 0).split()[1]) * _PAGE if descriptor >= 0 else 0


def give_back_freed() -> bool:
    """Ask the C library to return freed memory to the system; False where it cannot.

    The GNU library keeps memory freed below a block that is still in use, so the resident set of a drained broker may
    stay above the limit, and its publishers would be held back for ever.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))


def share_arenas() -> bool:
    """Have all threads allocate from few arenas; False where the C library has no such setting. Call it at the start.

    The GNU library gives each thread its own, and memory freed in one is of no use to others: 16 streams of bulk
    transfer left 185 MiB behind that no request to give it back could reach, and the alarm stayed on.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_option is not None and bool(set_option(M_ARENA_MAX, ARENAS_MAX))


def give_back_large() -> bool:
    """Give large blocks back when they are freed; False where the C library cannot. Call it at the start.

    The GNU library learns from the first large block that is freed: it keeps that much. So the first login of a client
    made the process 12 MiB larger for good.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    return set_option is not None and all(
        set_option(option, LARGE_BLOCK_BYTES) for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)
    )


class MemoryAlarm:
    """Compares the resident set with ``limit`` bytes (RabbitMQ's vm_memory_high_watermark works the same way)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.resident = resident_bytes()
        self.blocked = False
        self.alarms = 0  # times the alarm went on
        self._checks = 0  # since the alarm went on

    def left(self) -> int:
        """Return how many bytes the process may still take, by the limit; negative above it."""
        return self.limit - resident_bytes()

    def expect(self, bodies: int) -> None:
        """Warn if so many bytes more of ``bodies``, which is what queues may keep in memory, do not fit the limit.

        Publishers would be held back while queues see no reason to page.
        """
        room = self.left() - BESIDE_BODIES
        if bodies > room:
            logger.warning(
                "memory_limit is reached before the body budget: publishers will be held back",
                limit=self.limit,
                lacking=bodies - room,
                remedy="lower body_budget by the lacking amount, or raise memory_limit by it",
            )

    def check(self) -> bool:
        """Look again; return whether publishers are to be held back."""
        self.resident = resident_bytes()
        if self.blocked:
            self._checks += 1
            if self.resident > self.limit * RELEASE_SHARE and self._checks % TRIM_CHECKS == 0 and give_back_freed():
                self.resident = resident_bytes()
            self.blocked = self.resident > self.limit * RELEASE_SHARE
            if not self.blocked:
                logger.info("memory alarm ended", resident=self.resident, limit=self.limit)
        elif self.resident > self.limit:
            self.blocked = True
            self.alarms += 1
            self._checks = 0
            logger.warning("memory alarm: publishers are held back", resident=self.resident, limit=self.limit)
        return self.blocked
