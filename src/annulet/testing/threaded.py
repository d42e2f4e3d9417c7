"""A broker in a thread, for tests that block: pika, Celery, Django, unittest."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from annulet.broker.settings.configuration import LOOPBACK, StartError
from annulet.testing.faults import Faults
from annulet.testing.in_process import WAIT_SECONDS, RunningBroker, start_broker
from annulet.testing.kit_broker import kept_socket

if TYPE_CHECKING:
    import datetime as dt
    import socket
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from types import TracebackType

    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.testing.durations import Duration
    from annulet.testing.in_process import Listener
    from annulet.testing.seen import SeenMessage

ANSWER_SECONDS: Final = 60.0
"""How long a call waits for the broker's thread, in real time. The longest, a clean stop with clients that do not
answer, takes a second; more means that something in the thread blocks, and a test should not hang with it."""

ResultT = TypeVar("ResultT")


class BrokerThread:
    """An event loop in a thread, with a listening socket that brokers use one after the other."""

    def __init__(self, port: int = 0) -> None:
        self._port = port  # 0: the kernel chooses
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._listening: socket.socket | None = None
        self._process = os.getpid()

    def __enter__(self) -> BrokerThread:
        """Start the thread. Raises :class:`StartError` when the port is in use."""
        try:
            self._listening = kept_socket(LOOPBACK, self._port)
        except OSError as error:
            raise StartError(
                f"port={self._port} cannot be used: {error.strerror}; leave port out, and the kernel chooses a free one"
            ) from error
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="annulet-test-broker", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread, and close the socket."""
        loop, thread, listening = self._loop, self._thread, self._listening
        assert loop is not None
        assert thread is not None
        assert listening is not None
        self.run(loop.shutdown_default_executor())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        listening.close()
        self._loop = self._thread = self._listening = None

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine in the thread and return its result."""
        if self._loop is None or threading.current_thread() is self._thread or os.getpid() != self._process:
            work.close()
            raise RuntimeError(self._why_not())
        __tracebackhide__ = True  # pytest shows the line of the test
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(ANSWER_SECONDS)
        except AssertionError as error:
            raise AssertionError(*error.args) from None  # without the frames of the broker's thread
        except concurrent.futures.TimeoutError:
            if future.done():
                raise
            future.cancel()
            raise TimeoutError(
                f"the broker's thread gave no answer for {ANSWER_SECONDS:g} s; something in it blocks"
            ) from None

    def _why_not(self) -> str:
        if os.getpid() != self._process:
            return "the broker runs in the parent process; give its URL to the child, not the object"
        if self._loop is None:
            return "the broker was stopped; use it inside its `with` block, or during the test of its fixture"
        return "this is the broker's own thread; call it from the test"

    def start_broker(self, **options: Any) -> ThreadedBroker:
        """Start a broker behind the socket; see :func:`annulet.testing.in_process.start_broker`."""
        return ThreadedBroker(self, self.run(start_broker(listening=self._listening, **options)))


class ThreadedClock:
    """The clock of a broker in a thread."""

    def __init__(self, owner: ThreadedBroker) -> None:
        self._owner = owner

    def advance(self, duration: Duration) -> int:
        """Settle, move the clock, and return when all that fell due was done. Returns the time in milliseconds.

        ``duration`` is a text such as ``"1h"``, milliseconds, or a ``timedelta``.
        """
        return self._owner.call(lambda running: running.advance(duration))

    def stop(self) -> None:
        """Let time stand still: nothing expires or times out before the clock is moved."""
        self._owner.do(lambda running: running.clock.stop())

    def run(self) -> None:
        """Let time go on from where it stands."""
        self._owner.do(lambda running: running.clock.run())

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return self._owner.do(lambda running: running.clock())

    def date(self) -> dt.datetime:
        """Return the time in UTC."""
        return self._owner.do(lambda running: running.clock.date())


class ThreadedBroker:
    """A broker in a thread. Its methods may be called from any thread but its own, from asynchronous tests too."""

    def __init__(self, thread: BrokerThread, running: RunningBroker) -> None:
        self._thread = thread
        self._running: RunningBroker | None = running  # None: it was stopped
        self.clock = ThreadedClock(self)
        self.faults = Faults(running, thread.run)

    def call(self, make: Callable[[RunningBroker], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run a coroutine of the broker in its thread, and return the result."""
        __tracebackhide__ = True
        return self._thread.run(make(self._require()))

    def do(self, work: Callable[[RunningBroker], ResultT]) -> ResultT:
        """Call a function with the broker in its thread, and return the result."""
        running = self._require()

        async def called() -> ResultT:
            return work(running)

        return self._thread.run(called())

    def _require(self) -> RunningBroker:
        if self._running is None:
            raise RuntimeError(
                "the broker was stopped; use it inside its `with` block, or during the test of its fixture"
            )
        return self._running

    def stop(self) -> None:
        """Stop the broker cleanly. Nothing is done for one that was stopped."""
        running, self._running = self._running, None
        if running is not None:
            self._thread.run(running.stop())

    # ------------------------------------------------------------------ addresses

    @property
    def amqp_url(self) -> str:
        """``amqp://guest:guest@127.0.0.1:PORT``, for AMQP 0-9-1 and 1.0."""
        return self._require().amqp_url

    @property
    def amqp_address(self) -> tuple[str, int]:
        """Host and port of AMQP."""
        return self._require().broker.amqp_address

    @property
    def stomp_url(self) -> str:
        """``stomp://guest:guest@127.0.0.1:PORT``; the listener is opened at the first call."""
        return self._opened("stomp").stomp_url

    @property
    def stomp_address(self) -> tuple[str, int]:
        """Host and port of STOMP; the listener is opened at the first call."""
        return self._opened("stomp").stomp_address

    @property
    def http_url(self) -> str:
        """``http://127.0.0.1:PORT``; the listener is opened at the first call."""
        return self._opened("http").http_url

    @property
    def bulk_url(self) -> str:
        """``annulet://guest:guest@127.0.0.1:PORT/``; the listener is opened at the first call.

        Raises :class:`~annulet.broker.settings.configuration.StartError` without pyarrow.
        """
        return self._opened("bulk").bulk_url

    def _opened(self, listener: Listener) -> RunningBroker:
        self.call(lambda running: running.open(listener))
        return self._require()

    @property
    def configuration(self) -> BrokerConfiguration:
        """The settings of the broker."""
        return self._require().broker.configuration

    # ------------------------------------------------------------------ time

    def settle(self) -> None:
        """Return when the broker has handled all that clients have sent."""
        self.call(lambda running: running.settle())

    def crash(self) -> None:
        """Kill the broker and start it again: on the same ports, with what a disk would have after ``kill -9``.

        Connections are cut. Without a directory no message survives; ``durable=True`` gives one.
        """
        self.call(lambda running: running.crash())

    def replay(self, recording: Path | str, *, queue: str | None = None, vhost: str = "/") -> int:
        """Publish recorded messages, moving the clock by the time that was between them; return how many there were.

        See :meth:`annulet.testing.in_process.RunningBroker.replay`.
        """
        __tracebackhide__ = True
        return self.call(lambda running: running.replay(recording, queue=queue, vhost=vhost))

    # ------------------------------------------------------------------ questions

    def messages(self, queue: str, vhost: str = "/") -> list[SeenMessage]:
        """Return the messages in a queue, by number: waiting, scheduled and in delivery."""
        return self.call(lambda running: running.messages(queue, vhost))

    def require_published(self, queue: str, vhost: str = "/", **wanted: Any) -> list[SeenMessage]:
        """Return the messages that a queue accepted and that fit ``count``, ``header``, ``body`` and ``json``.

        See :meth:`annulet.testing.assertions.Assertions.require_published`.
        """
        __tracebackhide__ = True
        return self.call(lambda running: running.require_published(queue, vhost, **wanted))

    def require_none(self, queue: str, vhost: str = "/") -> None:
        """Raise ``AssertionError`` if the queue ever accepted a message."""
        __tracebackhide__ = True
        self.call(lambda running: running.require_none(queue, vhost))

    def require_settled(self, queue: str | None = None, vhost: str = "/") -> None:
        """Raise ``AssertionError`` if a message waits, is in delivery, or left without an acknowledgement."""
        __tracebackhide__ = True
        self.call(lambda running: running.require_settled(queue, vhost))

    def wait_settled(self, queue: str, vhost: str = "/", *, seconds: float = WAIT_SECONDS) -> None:
        """Return when a queue had messages and all have left it: a worker has done its work.

        Raises ``AssertionError`` with the events after so many seconds of real time. An asynchronous test with the
        worker in its own loop writes ``await asyncio.to_thread(annulet.wait_settled, "orders")``.
        """
        __tracebackhide__ = True
        self.call(lambda running: running.wait_settled(queue, vhost, seconds=seconds))

    def story(self, message: SeenMessage | bytes | str) -> str:
        """Return what happened to a message in all queues, one line an event."""
        return self.call(lambda running: running.story(message))

    def history(self, queue: str | None = None, vhost: str = "/") -> str:
        """Return all events of a queue, or of all queues, one line each."""
        return self.call(lambda running: running.history(queue, vhost))
