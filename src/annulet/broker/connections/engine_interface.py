"""The interface of a protocol's engine that a connection needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class ConnectionEngine(Protocol):
    """The transport's interface to a protocol's engine."""

    closed: bool
    received_since_check: bool
    limit_hits: dict[str, int]
    look: Callable[[], int] | None
    resting: bool

    @property
    def output_size(self) -> int:
        """Bytes that :meth:`take_output` would return."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes held of messages and frames that have not come as a whole."""

    def receive(self, data: bytes) -> None:
        """Take the input and serve everything that is complete."""

    def rest(self) -> None:
        """Serve no more input from the next frame on."""

    def look_soon(self) -> None:
        """Call :attr:`look` before the next frame."""

    def take_output(self) -> list[bytes]:
        """Return the waiting output, and forget it."""

    def connection_lost(self) -> None:
        """The socket is gone."""
