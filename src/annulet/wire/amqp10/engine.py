"""The AMQP 1.0 connection engine of a server: bytes in, calls of a handler out, bytes out.

No socket, no event loop, no clock: the owner feeds :meth:`Amqp10Engine.receive` with whatever it read and writes what
:meth:`Amqp10Engine.take_output` returns.
"""
# ruff: noqa: PLR0913 - limits are keyword-only

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from annulet.wire.amqp10.handler import Amqp10Handler
from annulet.wire.amqp10.limits import (
    DEFAULT_CHANNEL_MAX,
    DEFAULT_HANDLE_MAX,
    DEFAULT_INCOMING_WINDOW,
    DEFAULT_MAX_FRAME_SIZE,
    MAX_ASSEMBLING_BYTES,
    MAX_MESSAGE_SIZE,
    MAX_UNAUTHENTICATED_BYTES,
    MAX_UNSETTLED,
)
from annulet.wire.amqp10.link import Link
from annulet.wire.amqp10.performatives import Open
from annulet.wire.amqp10.session import EngineSession


class Amqp10Engine:
    """One connection. Errors of the peer never raise, they close what the standard says with the right condition.

    Args:
        handler: who serves the connection.
        container_id: ours, in open (§2.7.1).
        require_sasl: refuse a peer that skips SASL unless ``handler.anonymous_allowed()``.
        max_frame_size: largest frame taken, octets, 512 or more.
        channel_max: largest channel number taken, 0 to 65535.
        handle_max: largest link handle taken, 0 to 2**32 - 1.
        idle_time_out: milliseconds of silence after which we would close, as announced; 0 announces none.
        max_message_size: octets of the largest message taken; announced in every attach.
        max_assembling_bytes: octets of messages still arriving, all links together.
        max_unauthenticated_bytes: octets a peer may send before it is authenticated.
        incoming_window: transfer frames a session may send before its window is renewed, 1 to 2**31 - 1.
        max_unsettled: unsettled deliveries per session and direction.
        offered_capabilities: of the connection (§2.7.1).
        properties: of the connection: product, version.

    Attributes:
        closed: nothing more will come; close the socket once the output is written.
        opened: both opens were exchanged and neither close.
        authenticated: SASL succeeded or may be skipped.
        remote_open: the peer's open, ``None`` before it came.
        hostname: the peer's: of its open, else of its sasl-init, else empty.
        remote_idle_time_out: milliseconds after which the peer gives up on us, 0 never (§2.4.5).
        received_since_check: set by every receive; the owner clears it when it checks for silence.
        sessions: by the peer's channel.
        trace: called with each frame as a line.
        limit_hits: how often the peer met a bound that ended something, by the bound's name.

    Raises:
        LocalProtocolError: a limit is out of range.
    """

    def __init__(
        self,
        handler: Amqp10Handler,
        *,
        container_id: str,
        require_sasl: bool = True,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        channel_max: int = DEFAULT_CHANNEL_MAX,
        handle_max: int = DEFAULT_HANDLE_MAX,
        idle_time_out: int = 0,
        max_message_size: int = MAX_MESSAGE_SIZE,
        max_assembling_bytes: int = MAX_ASSEMBLING_BYTES,
        max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES,
        incoming_window: int = DEFAULT_INCOMING_WINDOW,
        max_unsettled: int = MAX_UNSETTLED,
        offered_capabilities: list[str] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.handler = handler
        self.closed = False
        self.opened = False
        self.authenticated = False
        self.remote_open: Open | None = None
        self.hostname = ""
        self.remote_idle_time_out = 0
        self.received_since_check = False
        self.sessions: dict[int, EngineSession] = {}
        self.trace: Callable[[str], None] | None = None
        self.limit_hits: dict[str, int] = {}

    # ---- octets

    def receive(self, data: bytes) -> None:
        """Take what was read from the socket, protocol headers included, and serve everything that is complete.

        Raises:
            Exception: only what the handler raised besides protocol errors, after closing with amqp:internal-error.
        """
        raise NotImplementedError

    @property
    def output_size(self) -> int:
        """Octets ``take_output`` would return, about; 0 when there is nothing to write."""
        raise NotImplementedError

    def take_output(self) -> list[bytes]:
        """Return what has to be written, in order, and forget it. Ends the turn: dispositions and windows leave."""
        raise NotImplementedError

    def heartbeat(self) -> None:
        """Send an empty frame (§2.4.5)."""
        raise NotImplementedError

    def connection_lost(self, description: str = "the connection was lost") -> None:
        """Tell the engine that the socket is gone; harmless when everything was closed before."""
        raise NotImplementedError

    # ---- connection and sessions

    def sasl_challenge(self, octets: bytes) -> None:
        """Ask the peer for a response (§5.3.3.3)."""
        raise NotImplementedError

    def sasl_outcome(self, code: int, additional: bytes = b"") -> None:
        """End the login (§5.3.3.5): 0 lets the peer in, anything else ends the connection."""
        raise NotImplementedError

    def close(self, condition: str = "", description: str = "") -> None:
        """Close the connection (§2.4.3); with a condition it is an error. Does nothing once closing."""
        raise NotImplementedError

    def end_session(self, session: EngineSession, condition: str = "", description: str = "") -> None:
        """End a session (§2.5.2); with a condition it is an error. Does nothing once ending."""
        raise NotImplementedError

    # ---- links

    def accept_attach(
        self,
        link: Link,
        *,
        source: object | None,
        target: object | None,
        properties: dict[str, Any] | None = None,
        offered_capabilities: list[str] | None = None,
        max_message_size: int = 0,
        unsettled: dict[bytes, Any] | None = None,
        initial_delivery_count: int = 0,
    ) -> bool:
        """Answer an attach (§2.6.3). Returns False when the link is gone meanwhile: undo what was done for it.

        ``max_message_size`` 0 announces the engine's. ``credit_changed`` follows when the peer granted credit before.
        """
        raise NotImplementedError

    def refuse_attach(self, link: Link, condition: str, description: str, info: dict[str, Any] | None = None) -> None:
        """Answer an attach with no terminus and a closing detach (§2.6.3). Does nothing when the link is gone."""
        raise NotImplementedError

    def detach(
        self,
        link: Link,
        *,
        closed: bool,
        condition: str = "",
        description: str = "",
        info: dict[str, Any] | None = None,
    ) -> None:
        """Detach (§2.6.5), for good when ``closed`` (§2.6.6). Does nothing when the link is gone.

        ``handler.detached`` is called before this returns, with ``by_peer`` False.
        """
        raise NotImplementedError

    def grant_credit(self, link: Link, credit: int, *, drain: bool = False) -> None:
        """Set the credit of an incoming link and tell the peer (§2.6.7)."""
        raise NotImplementedError

    def drained(self, link: Link) -> None:
        """Give back the credit of an outgoing link (§2.6.7); leaves after everything handed in before."""
        raise NotImplementedError

    # ---- deliveries

    def send_transfer(
        self,
        link: Link,
        delivery_tag: bytes,
        payload: bytes,
        *,
        settled: bool,
        state: object | None = None,
        message_format: int = 0,
        aborted: bool = False,
        resume: bool = False,
    ) -> int:
        """Hand in a delivery; returns its delivery id, unwrapped. Split at the peer's frame size, kept while its
        window is closed: stop when ``link.session.writable`` becomes False.

        Raises:
            LocalProtocolError: the link is not attached or not outgoing, there is no credit, the tag has more than 32
                octets, or the message is larger than ``link.max_message_size``.
        """
        raise NotImplementedError

    def settle_incoming(
        self, session: EngineSession, first: int, last: int, state: object | None, settled: bool = True
    ) -> None:
        """Tell what became of deliveries of the peer (§2.7.6, role receiver). Consecutive ones leave as one frame.

        Does nothing once the session ends. Under rcv-settle-mode second the engine tells the state unsettled and
        waits for the peer to settle.
        """
        raise NotImplementedError

    def settle_outgoing(
        self, session: EngineSession, first: int, last: int, state: object | None, settled: bool = True
    ) -> None:
        """Tell what became of deliveries of ours (§2.7.6, role sender): the answer to a state that was not settled."""
        raise NotImplementedError
