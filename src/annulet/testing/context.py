"""A real broker inside a test: in its event loop, or in a thread, on free ports of the loopback address.

Example::

    async with annulet.testing.broker() as broker:  # in the event loop of the test
        connection = await aio_pika.connect(broker.amqp_url)

    with annulet.testing.broker() as broker:  # in a thread of its own
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from annulet.testing.in_process import RunningBroker, start_broker
from annulet.testing.quiet_logs import quiet_logs
from annulet.testing.threaded import BrokerThread

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from annulet.broker.settings.clock import Clock
    from annulet.testing.threaded import ThreadedBroker


class broker:  # noqa: N801 - used as a function, as contextlib's managers are
    """Start a broker, give it to the block, and stop it cleanly. In memory unless it gets a directory.

    ``async with`` runs it in the event loop of the test and gives a
    :class:`~annulet.testing.in_process.RunningBroker`. ``with`` runs it in a thread and gives a
    :class:`~annulet.testing.threaded.ThreadedBroker`, which opens listeners at the first use of their URL.

    Args:
        data_dir: the directory for data that outlives the broker.
        durable: have a directory of its own, removed at the end: persistent messages survive ``crash()``.
        http: open the HTTP listener at the start.
        stomp: open the STOMP listener at the start.
        bulk: open the listener of bulk transfer; needs ``annulet[spark]``.
        clock: another clock than the kit's, which alone can be advanced with all that follows.
        journal: note the events of messages, for assertions: the default but with ``data_dir``.
        strict: refuse what another broker refuses: ``"rabbitmq-4.3"``.
        settings: fields of :class:`~annulet.broker.settings.configuration.BrokerConfiguration`.

    Raises the exceptions of a failing start; cancellation inside the block stops the broker too.
    """

    def __init__(
        self,
        *,
        data_dir: Path | str | None = None,
        durable: bool = False,
        http: bool | None = None,
        stomp: bool = False,
        bulk: bool = False,
        clock: Clock | None = None,
        journal: bool | None = None,
        strict: str | None = None,
        **settings: Any,
    ) -> None:
        self._http = http
        self._options: dict[str, Any] = {
            "data_dir": data_dir, "durable": durable, "stomp": stomp, "bulk": bulk, "clock": clock, "journal": journal,
            "strict": strict, **settings,
        }  # fmt: skip
        self._entered = contextlib.ExitStack()
        self._running: RunningBroker | None = None

    async def __aenter__(self) -> RunningBroker:
        """Start it in the running loop; with HTTP unless that is switched off."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._entered.close)
            self._entered.enter_context(quiet_logs())
            self._running = await start_broker(http=self._http is not False, **self._options)
            undo.pop_all()
        return self._running

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        running, self._running = self._running, None
        assert running is not None
        try:
            await running.stop()
        finally:
            self._entered.close()

    def __enter__(self) -> ThreadedBroker:
        """Start it in a thread of its own."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._entered.close)
            self._entered.enter_context(quiet_logs())
            thread = self._entered.enter_context(BrokerThread())
            started = thread.start_broker(http=bool(self._http), **self._options)
            self._entered.callback(started.stop)
            undo.pop_all()
        return started

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and its thread."""
        self._entered.close()
