"""A connection of a protocol that answers what it gets, for tests of what all protocols have in common."""

from __future__ import annotations

from collections.abc import Callable

from annulet.broker.broker import Broker
from annulet.broker.connections.sending import SendingSession
from annulet.broker.connections.transport import ClientConnection
from annulet.wire.amqp10.messages.view import VIEW
from tests.broker.amqp091.peer import RecordingTransport


class EchoEngine:
    """An engine that answers what it gets, in the pieces it got it; ``quit`` closes, ``crash`` is a defect."""

    def __init__(self) -> None:
        self.closed = False
        self.received_since_check = False
        self.limit_hits: dict[str, int] = {}
        self.look: Callable[[], int] | None = None
        self.resting = False
        self.lost = 0
        self.output: list[bytes] = []

    @property
    def output_size(self) -> int:
        return sum(map(len, self.output))

    @property
    def unfinished_bytes(self) -> int:
        return 0

    def receive(self, data: bytes) -> None:
        self.received_since_check = True
        if data == b"crash":
            self.closed = True  # as the engines do, which tell the peer and let the transport log it
            raise ZeroDivisionError
        if data == b"quit":
            self.closed = True
        self.output.append(data)

    def take_output(self) -> list[bytes]:
        output, self.output = self.output, []
        return output

    def connection_lost(self) -> None:
        self.lost += 1


class EchoConnection(ClientConnection[EchoEngine, "EchoSession"]):
    protocol_name = "echo"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.engine = EchoEngine()
        self.endings = 0
        self.forced = ""
        self.told: list[str] = []

    def tell_blocked(self, reason: str) -> None:
        self.told.append(reason)

    def delivered(self) -> None:
        """Say that a delivery was queued, as sessions do."""
        self.output_added(self.engine.output_size)

    def force_close(self, text: str) -> None:
        self.forced = text
        self.engine.closed = True
        self.mark_dirty()

    def ended(self) -> None:
        self.endings += 1

    def open(self) -> EchoConnection:
        assert self.log_in("guest") == ""
        self.enter_host(self.broker.hosts["/"], records=True)
        self.opened = True
        return self


class EchoSession(SendingSession):
    def __init__(self, connection: EchoConnection) -> None:
        super().__init__("session", connection, VIEW)
        self.woken: list[bool] = []
        self.flushed = 0

    def wake(self, now: int) -> None:
        self.woken.append(self.writable)
        super().wake(now)

    def flush_answers(self) -> None:
        self.flushed += 1


def connected(broker: Broker) -> tuple[EchoConnection, RecordingTransport]:
    connection, transport = EchoConnection(broker), RecordingTransport()
    transport.protocol = connection
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport
