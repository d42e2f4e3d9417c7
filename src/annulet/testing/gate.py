"""A gate between the socket and the protocol of a connection, where faults act: below all protocols.

asyncio's transport has the gate for its protocol, and the connection has the gate's front for its transport. Without a
rule everything passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from annulet.broker.connections.transport import ClientConnection
from annulet.testing.wire_commands import IN, OUT, Command, Splitter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from annulet.broker.connections.transport import AnyConnection


class Rule(Protocol):
    """One fault at a gate."""

    def handle(self, gate: Gate, command: Command) -> bool:
        """Return whether a command may pass; a rule that keeps it passes it on later, or never."""

    def passed(self, gate: Gate, command: Command) -> None:
        """A command has passed all rules and was handed on."""


class Gate:
    """The gate of one connection: a duck-typed ``asyncio.Protocol``. ``rules`` belong to all gates of a broker."""

    def __init__(self, inner: Any, rules: list[Rule]) -> None:
        self.inner = inner  # the protocol that gets what passes
        self.front = GateTransport(self)
        self.transport: asyncio.Transport | None = None
        self._rules = rules
        self._splitters: dict[str, Splitter] = {}
        self._cut = False

    @property
    def connection(self) -> AnyConnection | None:
        """The connection behind the gate; ``None`` before its protocol is known and after its end."""
        return self.inner if isinstance(self.inner, ClientConnection) else None

    def take_over(self, transport: asyncio.Transport) -> None:
        """Stand before a connection that is open."""
        self.transport = transport
        transport.set_protocol(cast("asyncio.BaseProtocol", self))
        self.inner.transport = self.front

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Let the protocol have the front."""
        self.transport = transport
        self.inner.connection_made(self.front)

    def data_received(self, data: bytes) -> None:
        """Octets came from the client."""
        self.go(self._split(IN, data))

    def eof_received(self) -> bool:
        """The client has ended its half."""
        return bool(self.inner.eof_received())

    def connection_lost(self, error: BaseException | None) -> None:
        """The socket is gone."""
        self._cut = True
        self.inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Pass it on."""
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self.inner.resume_writing()

    # ------------------------------------------------------------------ commands

    def write(self, data: bytes) -> None:
        """Octets go to the client."""
        self.go(self._split(OUT, data))

    def _split(self, direction: str, data: bytes) -> list[Command]:
        connection = self.connection
        if connection is None:  # before its protocol is known, and after its end
            return [Command(direction, "", data)]
        splitter = self._splitters.get(direction)
        if splitter is None:
            splitter = self._splitters[direction] = Splitter(direction, connection.protocol_name)
        return splitter.feed(data)

    def go(self, commands: Iterable[Command]) -> None:
        """Hand on the commands that all rules let pass."""
        for command in commands:
            if self._cut:
                return
            if all(rule.handle(self, command) for rule in list(self._rules)) and not self._cut:
                self.hand_on(command)
                for rule in list(self._rules):
                    rule.passed(self, command)

    def hand_on(self, command: Command) -> None:
        """Give a command to the connection, or to the socket."""
        if self.transport is None or self._cut:
            return
        if command.direction == IN:
            self.inner.data_received(command.octets)
        else:
            self.transport.write(command.octets)

    def cut(self) -> None:
        """Cut the socket. The client still gets what was written to it."""
        self._cut = True
        if self.transport is not None:
            self.transport.close()


class GateTransport:
    """The transport as the connection sees it: writes go through the gate, all else to asyncio's."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        object.__setattr__(self, "_gate", gate)

    def __getattr__(self, name: str) -> Any:
        """Everything else is asyncio's."""
        return getattr(self._gate.transport, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._gate.transport, name, value)

    def write(self, data: bytes) -> None:
        """Write through the gate."""
        self._gate.write(data)

    def set_protocol(self, protocol: Any) -> None:
        """Another protocol has the socket from now on."""
        self._gate.inner = protocol

    @property
    def gate(self) -> Gate:
        """The gate."""
        return cast("Gate", self._gate)

    def get_protocol(self) -> Any:
        """Return the protocol behind the gate."""
        return self._gate.inner
