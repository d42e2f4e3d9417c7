"""The broker of the test kit: a real one, with a clock to be moved, a journal, cheap passwords and a kept listener."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final, cast

import argon2

from annulet.broker.broker import Broker
from annulet.broker.connections.dialect import ALL
from annulet.broker.connections.transport import ClientConnection
from annulet.broker.durability.effects import HostEffects
from annulet.broker.network.listening import BACKLOG
from annulet.broker.paging.memory import MemoryAlarm
from annulet.broker.turns.rounds import RoundTimer
from annulet.testing.clock import BrokerClock
from annulet.testing.clocked_loop import ClockedLoop
from annulet.testing.gate import Gate, GateTransport
from annulet.testing.journal import HostJournal

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.connections.dialect import Dialect
    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.settings.clock import Clock
    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.testing.clocked_loop import ClockedTimer
    from annulet.testing.gate import Rule
    from annulet.testing.journal import Journal

CHEAP: Final = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Hashes in microseconds: a broker in a test protects nothing, and two hashes at each start take 50 ms."""


class ForcedAlarm(MemoryAlarm):
    """The memory alarm, which a fault can switch on."""

    forced = False

    def check(self) -> bool:
        """Return whether publishers are held back."""
        return super().check() or self.forced


class KitBroker(Broker):
    """A broker of the test kit. ``journal`` and ``listening`` may be ``None``: no journal, a socket of its own.

    ``rules`` are those of faults, which outlive a crash.
    """

    hasher = CHEAP

    def __init__(
        self,
        configuration: BrokerConfiguration,
        clock: Clock,
        *,
        journal: Journal | None = None,
        listening: socket.socket | None = None,
        rules: list[Rule] | None = None,
        dialect: Dialect = ALL,
    ) -> None:
        super().__init__(configuration, clock=clock)
        self.dialect = dialect
        self.clocked: ClockedLoop | None = None  # None: it was given another clock
        self.journal = journal
        self.silent: set[AnyConnection] = set()  # connections whose peers are taken for dead
        self.rules: list[Rule] = [] if rules is None else rules  # of faults
        self.disk_full = False  # persistent messages are refused
        self.memory = self._alarm = ForcedAlarm(configuration.memory_limit_bytes)
        self._listening = listening

    def timer_loop(self, running: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
        """Return a loop whose timers follow the clock, where it is one of the test kit."""
        if not isinstance(self.clock, BrokerClock):
            return running
        self.clocked = ClockedLoop(running, self._stops_at)
        self.clock.follow(self.clocked)
        return cast("asyncio.AbstractEventLoop", self.clocked)

    def _stops_at(self, timer: ClockedTimer) -> bool:
        """Return whether a moved clock stops at a deadline: not at the heart-beats of clients that are there.

        Nor at rounds of upkeep, of which there are half a million a year.
        """
        connection = timer.owner
        if isinstance(connection, RoundTimer):
            return False
        if not isinstance(connection, ClientConnection) or connection in self.silent:
            return True
        return not connection.opened or not connection.seconds_promised()

    def hear_clients(self) -> None:
        """Count the clients as heard that have no fault: their own clocks were not moved."""
        for connection in self.connections:
            if connection not in self.silent and connection.opened:
                connection.engine.received_since_check = True

    def tick_all(self) -> None:
        """Do everything in queues that is due."""
        self.tick()

    @property
    def ticking(self) -> bool:
        """Whether the tick of a virtual host goes on in a later turn."""
        return any(timer.goes_on for timer in self._timers.values())

    def add_host(self, name: str) -> VirtualHost:
        """Create a virtual host whose queues write the journal."""
        host = super().add_host(name)
        effects = host.effects
        if self.journal is not None and isinstance(effects, HostEffects) and effects.event_log is None:
            effects.event_log = HostJournal(self.journal, name)
        return host

    async def open_amqp_listener(self, host: str, port: int) -> asyncio.Server:
        """Listen on a copy of the kept socket, so that the next broker has the same port."""
        if self._listening is None:
            return await super().open_amqp_listener(host, port)
        return await self.loop.create_server(self._accept, sock=self._listening.dup(), backlog=BACKLOG)

    # ------------------------------------------------------------------ faults

    def accepted(self, protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """Put a gate before a new connection while there are faults."""
        return cast("asyncio.BaseProtocol", Gate(protocol, self.rules)) if self.rules else protocol

    def gates(self) -> list[Gate]:
        """Return the gates of open connections, which have one from now on."""
        found = []
        for connection in self.connections:
            transport: Any = connection.transport
            if isinstance(transport, GateTransport):
                found.append(transport.gate)
            elif transport is not None and not transport.is_closing():
                gate = Gate(connection, self.rules)
                gate.take_over(transport)
                found.append(gate)
        return found

    def force_alarm(self, *, on: bool) -> None:
        """Hold publishers back as the memory alarm does, or let them go on."""
        self._alarm.forced = on
        self._check_memory()

    def accepts_durable(self, size: int, now: int) -> bool:
        """Return whether there is room for a persistent message: not on a full disk."""
        return not self.disk_full and super().accepts_durable(size, now)

    async def die(self, copy: Callable[[], None]) -> None:
        """Cut all connections, have ``copy`` called on the data as the death of the process would leave them, and stop.

        A commit that is under way ends before; records that no write has begun with are lost.
        """
        self._stop_listening()
        for connection in list(self.connections):
            connection.abort()
        await self.commit.between_windows(_nothing, copy)
        await self.stop()

    def sockets(self) -> list[tuple[AnyConnection, socket.socket]]:
        """Return the connections with their sockets."""
        found: list[tuple[AnyConnection, Any]] = [
            (connection, connection.transport.get_extra_info("socket"))
            for connection in self.connections
            if connection.transport is not None and not connection.transport.is_closing()
        ]
        return [(connection, opened) for connection, opened in found if opened is not None and opened.fileno() >= 0]


def _nothing() -> None:
    """Nothing has to be done in the loop."""


def kept_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket for several brokers, one after the other. Raises ``OSError``."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with contextlib.ExitStack() as stack:
        stack.callback(listening.close)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.setblocking(False)
        stack.pop_all()
    return listening
