"""Faults on demand, each a block of a test: it begins with the block and is undone at its end.

Example::

    with broker.faults.drop(before="ack"):
        worker.run_once()  # the broker delivers the message again
"""

from __future__ import annotations

import asyncio
import difflib
from typing import TYPE_CHECKING, Final, TypeVar

from annulet.testing.durations import milliseconds_of
from annulet.testing.fault_rules import CutRule, DelayRule, KeepRule, RefuseRule, ReorderRule, SilenceRule
from annulet.testing.wire_commands import KNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from annulet.testing.clocked_loop import ClockedLoop
    from annulet.testing.durations import Duration
    from annulet.testing.fault_rules import Chosen
    from annulet.testing.in_process import RunningBroker
    from annulet.testing.kit_broker import KitBroker

    ResultT = TypeVar("ResultT")
    Runner = Callable[[Coroutine[None, None, None]], None]

ALWAYS: Final = 1 << 30
"""Times of a fault that never wears out."""


class Fault:
    """One fault: use it with ``with`` for a broker in a thread, with ``async with`` for one in the event loop."""

    def __init__(
        self,
        run: Runner | None,
        begin: Callable[[], Coroutine[None, None, None]],
        end: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        self._run = run
        self._begin = begin
        self._end = end

    def __enter__(self) -> None:
        """Begin."""
        if self._run is None:
            raise TypeError("this broker runs in the event loop; write `async with` for its faults")
        self._run(self._begin())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Undo it."""
        assert self._run is not None
        self._run(self._end())

    async def __aenter__(self) -> None:
        """Begin."""
        if self._run is not None:
            raise TypeError("this broker runs in a thread; write `with` for its faults")
        await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Undo it."""
        await self._end()


class Faults:
    """The faults of one broker.

    ``of`` chooses connections: a connection name, a user, or part of ``peer -> address``; all without it. Commands are
    ``publish``, ``delivery``, ``ack`` and ``confirm`` for every protocol, or a protocol's own names, as
    ``queue.declare``, ``attach`` and ``SUBSCRIBE``.
    """

    def __init__(self, running: RunningBroker, run: Runner | None = None) -> None:
        self._running = running
        self._run = run

    # ------------------------------------------------------------------ connections

    def drop(
        self, *, before: str | None = None, after: str | None = None, of: str | None = None, times: int = 1
    ) -> Fault:
        """Cut a connection before or after a command, so many times; without a command at once."""
        _check_names(before, after)
        if before is None and after is None:
            return self._fault(self._cut_now(of), _nothing)
        return self._rule(lambda _: CutRule(of, before, after, times))

    def half_open(self, *, of: str | None = None) -> Fault:
        """Let neither side hear the other: missed heart-beats end the connection, or the end of the block does."""

        def make(broker: KitBroker) -> SilenceRule:
            rule = SilenceRule(of, broker)
            for gate in broker.gates():
                if rule.concerns(gate):
                    rule.silence(gate)
            return rule

        return self._rule(make)

    def delay(self, duration: Duration, *, of: str | None = None) -> Fault:
        """Hand on each command in both directions after this time of the broker's clock."""
        seconds = milliseconds_of(duration) / 1000
        return self._rule(lambda broker: DelayRule(of, _clocked(broker), seconds))

    def withhold(self, command: str = "confirm", *, of: str | None = None) -> Fault:
        """Keep commands back, publisher confirms by default, until the end of the block."""
        _check_names(command)
        return self._rule(lambda _: KeepRule(of, command, lost=False))

    def lose(self, command: str, *, of: str | None = None) -> Fault:
        """Lose commands, and keep the connection."""
        _check_names(command)
        return self._rule(lambda _: KeepRule(of, command, lost=True))

    def nack(self, *, of: str | None = None) -> Fault:
        """Answer publishers of AMQP 0-9-1 with ``basic.nack`` though the queues have their messages.

        :meth:`full_disk` refuses messages of every protocol, and no queue has them.
        """
        return self._rule(lambda _: RefuseRule(of))

    def reorder(self, *, of: str | None = None) -> Fault:
        """Keep the publishes of all connections until the end; then the connection that began last goes first.

        For publishers that do not wait for confirms inside the block.
        """
        return self._rule(lambda _: ReorderRule(of))

    # ------------------------------------------------------------------ the broker

    def block_publishers(self) -> Fault:
        """Block publishers as the memory alarm does: ``connection.blocked``, and their sockets are not read."""
        return self._flag(lambda broker, on: broker.force_alarm(on=on))

    def full_disk(self) -> Fault:
        """Refuse persistent messages as a full disk does."""

        def set_full(broker: KitBroker, on: bool) -> None:
            broker.disk_full = on

        return self._flag(set_full)

    def slow_disk(self, duration: Duration) -> Fault:
        """Begin each write of the message log after this time of the broker's clock. Needs ``durable=True``."""
        seconds = milliseconds_of(duration) / 1000

        def set_slow(broker: KitBroker, on: bool) -> None:
            if broker.configuration.data_directory is None:
                raise ValueError("slow_disk() needs a disk; start the broker with durable=True")
            _clocked(broker).delay_jobs_of(broker.commit, seconds if on else 0.0)

        return self._flag(set_slow)

    # ------------------------------------------------------------------ how they begin and end

    def _fault(
        self, begin: Callable[[], Coroutine[None, None, None]], end: Callable[[], Coroutine[None, None, None]]
    ) -> Fault:
        return Fault(self._run, begin, end)

    def _cut_now(self, of: str | None) -> Callable[[], Coroutine[None, None, None]]:
        async def begin() -> None:
            await self._running.settle()
            rule = CutRule(of, None, None, 0)
            for gate in self._running.broker.gates():
                if rule.concerns(gate):
                    gate.cut()
            await self._running.settle()

        return begin

    def _rule(self, make: Callable[[KitBroker], Chosen]) -> Fault:
        """Return the fault of a rule at all gates. It begins between two commands, when the broker has settled."""
        rules: list[Chosen] = []

        async def begin() -> None:
            await self._running.settle()
            broker = self._running.broker
            broker.gates()
            rules.append(make(broker))
            broker.rules.append(rules[0])

        async def end() -> None:
            rule = rules.pop()
            self._running.broker.rules.remove(rule)
            rule.end()
            await asyncio.sleep(0)

        return self._fault(begin, end)

    def _flag(self, switch: Callable[[KitBroker, bool], None]) -> Fault:
        async def begin() -> None:
            await self._running.settle()
            switch(self._running.broker, True)

        async def end() -> None:
            switch(self._running.broker, False)

        return self._fault(begin, end)


async def _nothing() -> None:
    """Undo nothing: a connection that was cut stays so."""


def _clocked(broker: KitBroker) -> ClockedLoop:
    if broker.clocked is None:
        raise LookupError("this broker was started with clock=...; leave the argument out for this fault")
    return broker.clocked


def _check_names(*names: str | None) -> None:
    """Refuse the name of a command that no protocol has: the fault would never happen."""
    for name in names:
        if name is not None and name not in KNOWN:
            near = difflib.get_close_matches(name, KNOWN, 1)
            hint = f"did you mean {near[0]!r}?" if near else "take publish, delivery, ack, confirm or a protocol's own"
            raise ValueError(f"no protocol has a command {name!r}; {hint}")
