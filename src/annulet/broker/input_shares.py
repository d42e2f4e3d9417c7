"""How much of what a client sent is read at once, by how long it takes to handle.

What was read is handled whole, in one turn of the event loop. Publishes of 64 KiB take a third of a millisecond, as
many acknowledgements with the deliveries that they make room for 14, and where four consumers acknowledge in one turn,
four times that. So who takes long is read less at once: what is left stays in the socket until the next turn.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

INPUT_BYTES_MAX: Final = 64 << 10
"""Bytes that are read from a socket at once, and handled in one turn. Publishes of 1 KiB take as much processor time
with asyncio's 256 KiB."""

INPUT_BYTES_LEAST: Final = 8 << 10
"""The same of who takes long, however long: 390 acknowledgements, 1 to 2 ms with deliveries. With less the turn around
them counts as much."""

INPUT_BYTES_FIRST: Final = 16 << 10
"""The same of who has just connected, until it is known how long that takes."""

INPUT_SECONDS: Final = 0.005
"""Computing time of what is handled in one turn, of all connections together that have more to be read."""


class InputShares:
    """How much may be read of each connection, so that what is handled in a turn takes ``INPUT_SECONDS`` at most.

    Connections of which as much was read as may be share that time in the next turn. What is to be read is set on their
    transports: it is all there is to remember. Belongs to the event loop.
    """

    def __init__(self) -> None:
        self.computed = time.thread_time  # seconds the loop's thread has computed
        self.reads_cut = 0  # times less was to be read of a connection from then on
        self._sharing = 1  # connections that have more to be read, by the last turn
        self._full = 0  # of this turn

    def turn_ended(self) -> None:
        """All that was read in this turn of the loop has been handled."""
        self._sharing = max(1, self._full)
        self._full = 0

    def handled(self, transport: asyncio.Transport | None, size: int, began: float) -> None:
        """Note that so many bytes were handled, and how long the thread had computed before; set how many may be next.

        What a transport has decrypted comes as it does.
        """
        limit = getattr(transport, "max_size", 0)  # of asyncio's selector transports; there is no method to set it
        if transport is None or not limit:
            return
        took = self.computed() - began
        share = INPUT_SECONDS / self._sharing
        full = size >= limit
        self._full += full
        if took > share:
            cut = max(INPUT_BYTES_LEAST, min(limit, int(size * share / took)))
            self.reads_cut += cut < limit
            _set(transport, cut)
        elif full and took < share / 2:
            _set(transport, min(INPUT_BYTES_MAX, 2 * limit))


def _set(transport: asyncio.Transport, size: int) -> None:
    transport.max_size = size  # type: ignore[attr-defined]
