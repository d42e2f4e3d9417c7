"""The rules of faults at gates: cut, be silent, keep back, delay, reorder, refuse."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.testing.wire_commands import IN, OUT, Command

if TYPE_CHECKING:
    from annulet.testing.clocked_loop import ClockedLoop
    from annulet.testing.gate import Gate
    from annulet.testing.kit_broker import KitBroker

CONFIRM: Final = bytes.fromhex("003c0050")
REFUSAL: Final = bytes.fromhex("003c0078")
"""Class and method of ``basic.ack`` and ``basic.nack`` (§1.5); their arguments have the same form."""

METHOD_AT: Final = 7
"""Where class and method are in a frame (§4.2.3)."""


class Chosen:
    """A rule for the connections of one client, or of all. ``of`` is a connection name, a user, or part of a name."""

    def __init__(self, of: str | None) -> None:
        self._of = of

    def concerns(self, gate: Gate) -> bool:
        """Return whether the rule is for this connection."""
        connection = gate.connection
        if connection is None:
            return False
        of = self._of
        return of is None or of in {connection.client_name, connection.user_name} or of in connection.name

    def handle(self, gate: Gate, command: Command) -> bool:
        """Let everything pass."""
        del gate, command
        return True

    def passed(self, gate: Gate, command: Command) -> None:
        """Do nothing."""

    def end(self) -> None:
        """The fault is undone."""


class CutRule(Chosen):
    """Cut connections before or after a command, so many times."""

    def __init__(self, of: str | None, before: str | None, after: str | None, times: int) -> None:
        super().__init__(of)
        self._before = before
        self._after = after
        self._left = times

    def handle(self, gate: Gate, command: Command) -> bool:
        """Cut before the command."""
        if self._before is None or not command.named(self._before) or not self._hits(gate):
            return True
        gate.cut()
        return False

    def passed(self, gate: Gate, command: Command) -> None:
        """Cut after the command."""
        if self._after is not None and command.named(self._after) and self._hits(gate):
            gate.cut()

    def _hits(self, gate: Gate) -> bool:
        if not self._left or not self.concerns(gate):
            return False
        self._left -= 1
        return True


class SilenceRule(Chosen):
    """Neither side hears the other any more, and neither knows: a half-open connection."""

    def __init__(self, of: str | None, broker: KitBroker) -> None:
        super().__init__(of)
        self._broker = broker
        self._silenced: list[Gate] = []

    def silence(self, gate: Gate) -> None:
        """Let a connection be silent from now on."""
        if gate.connection is not None and gate not in self._silenced:
            self._silenced.append(gate)
            self._broker.silent.add(gate.connection)

    def handle(self, gate: Gate, command: Command) -> bool:
        """Lose the command."""
        del command
        if not self.concerns(gate):
            return True
        self.silence(gate)
        return False

    def end(self) -> None:
        """Cut the connections: the lost octets do not come back."""
        for gate in self._silenced:
            if gate.connection is not None:
                self._broker.silent.discard(gate.connection)
            gate.cut()


class KeepRule(Chosen):
    """Keep commands back until the end of the fault, or lose them."""

    def __init__(self, of: str | None, name: str, *, lost: bool) -> None:
        super().__init__(of)
        self._name = name
        self._lost = lost
        self._kept: list[tuple[Gate, Command]] = []

    def handle(self, gate: Gate, command: Command) -> bool:
        """Keep the command if it is meant."""
        if not command.named(self._name) or not self.concerns(gate):
            return True
        if not self._lost:
            self._kept.append((gate, command))
        return False

    def end(self) -> None:
        """Hand on the commands, in order."""
        for gate, command in self._kept:
            gate.hand_on(command)


class DelayRule(Chosen):
    """Hand on each command after a time of the broker's clock, in order."""

    def __init__(self, of: str | None, loop: ClockedLoop, seconds: float) -> None:
        super().__init__(of)
        self._loop = loop
        self._seconds = seconds
        self._waiting: deque[tuple[Gate, Command]] = deque()

    def handle(self, gate: Gate, command: Command) -> bool:
        """Hand it on later."""
        if not self.concerns(gate):
            return True
        self._waiting.append((gate, command))
        self._loop.call_later(self._seconds, self._next)
        return False

    def _next(self) -> None:
        if self._waiting:
            gate, command = self._waiting.popleft()
            gate.hand_on(command)

    def end(self) -> None:
        """Hand on the rest at once."""
        while self._waiting:
            self._next()


class ReorderRule(Chosen):
    """Keep publishes until the end of the fault; then those of the connection that came last go first."""

    def __init__(self, of: str | None) -> None:
        super().__init__(of)
        self._kept: dict[Gate, list[Command]] = {}

    def handle(self, gate: Gate, command: Command) -> bool:
        """Keep a publish, and all that follows it on its connection."""
        if command.direction == IN and self.concerns(gate) and (gate in self._kept or command.named("publish")):
            self._kept.setdefault(gate, []).append(command)
            return False
        return True

    def end(self) -> None:
        """Hand them on: the order within a connection stays."""
        for gate, commands in reversed(self._kept.items()):
            for command in commands:
                gate.hand_on(command)


class RefuseRule(Chosen):
    """Turn publisher confirms of AMQP 0-9-1 into refusals, though the broker has the messages."""

    def handle(self, gate: Gate, command: Command) -> bool:
        """Replace ``basic.ack`` to a publisher by ``basic.nack``."""
        octets = command.octets
        if command.direction != OUT or octets[METHOD_AT : METHOD_AT + 4] != CONFIRM or not self.concerns(gate):
            return True
        refusal = octets[:METHOD_AT] + REFUSAL + octets[METHOD_AT + 4 :]
        gate.hand_on(Command(OUT, "basic.nack", refusal))
        return False
