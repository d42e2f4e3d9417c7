from __future__ import annotations

from typing import Any

from annulet.testing.gate import Gate, GateTransport
from annulet.testing.wire_commands import IN, OUT, Command


class FakeTransport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False
        self.max_size = 1
        self.protocol: object = None

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def set_protocol(self, protocol: object) -> None:
        self.protocol = protocol


class FakeProtocol:
    """Keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.calls.append(data)

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return True

    def connection_lost(self, error: BaseException | None) -> None:
        self.calls.append(error)

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class Refusing:
    """Lets nothing pass."""

    def __init__(self) -> None:
        self.asked: list[Command] = []
        self.told: list[Command] = []

    def handle(self, gate: Gate, command: Command) -> bool:
        self.asked.append(command)
        return False

    def passed(self, gate: Gate, command: Command) -> None:
        self.told.append(command)


def test_without_a_rule_everything_passes() -> None:
    transport, protocol = FakeTransport(), FakeProtocol()
    gate = Gate(protocol, [])
    gate.connection_made(transport)
    assert isinstance(protocol.transport, GateTransport)
    gate.data_received(b"in")
    gate.pause_writing()
    gate.resume_writing()
    assert gate.eof_received()
    protocol.transport.write(b"out")
    protocol.transport.max_size = 7
    gate.connection_lost(None)
    assert protocol.calls == [b"in", "pause", "resume", "eof", None]
    assert transport.written == [b"out"]
    assert transport.max_size == protocol.transport.max_size == 7
    assert gate.connection is None


def test_a_rule_decides_what_passes() -> None:
    transport, protocol, rule = FakeTransport(), FakeProtocol(), Refusing()
    gate = Gate(protocol, [rule])
    gate.connection_made(transport)
    gate.data_received(b"in")
    protocol.transport.write(b"out")
    assert protocol.calls == transport.written == rule.told == []
    assert rule.asked == [Command(IN, "", b"in"), Command(OUT, "", b"out")]
    gate.hand_on(rule.asked[0])
    gate.hand_on(rule.asked[1])
    assert protocol.calls == [b"in"]
    assert transport.written == [b"out"]


def test_another_protocol_takes_over_behind_the_gate() -> None:
    transport, first, second = FakeTransport(), FakeProtocol(), FakeProtocol()
    gate = Gate(first, [])
    gate.take_over(transport)
    assert transport.protocol is gate
    assert first.transport.gate is gate
    first.transport.set_protocol(second)
    assert first.transport.get_protocol() is second
    gate.data_received(b"in")
    assert second.calls == [b"in"]


def test_nothing_passes_after_a_cut() -> None:
    transport, protocol = FakeTransport(), FakeProtocol()
    gate = Gate(protocol, [])
    gate.connection_made(transport)
    gate.cut()
    gate.data_received(b"in")
    gate.write(b"out")
    gate.hand_on(Command(IN, "", b"in"))
    assert transport.closed
    assert protocol.calls == transport.written == []
