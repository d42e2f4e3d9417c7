"""One thread and one port for many brokers, one after the other, kept for a whole run of tests."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from annulet.testing.quiet_logs import quiet_logs
from annulet.testing.threaded import BrokerThread

if TYPE_CHECKING:
    from annulet.testing.threaded import ThreadedBroker


class BrokerSession:
    """Starts brokers behind one socket. A new one takes some milliseconds, and nothing of the last one is left."""

    def __init__(self, port: int = 0) -> None:
        self._entered = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            undo.callback(self._entered.close)
            self._entered.enter_context(quiet_logs())
            self._thread = self._entered.enter_context(BrokerThread(port))
            undo.pop_all()

    def start(self, **options: Any) -> ThreadedBroker:
        """Start the next broker; the last one has to be stopped. ``options`` as for :func:`annulet.testing.broker`."""
        return self._thread.start_broker(**options)

    def close(self) -> None:
        """End the thread."""
        self._entered.close()
