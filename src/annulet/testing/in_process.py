"""A real broker inside a test: in its event loop, or in a thread, on free ports of the loopback address.

Example::

    async with annulet.testing.broker() as broker:  # in the event loop of the test
        connection = await aio_pika.connect(broker.amqp_url)

    with annulet.testing.broker() as broker:  # in a thread of its own
        connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from annulet.application import BULK_REMEDY, build_broker, listener_urls
from annulet.broker.security.file_users import FIRST_USER
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint, StartError
from annulet.broker.stomp.listener import StompService
from annulet.testing.assertions import Assertions
from annulet.testing.clock import BrokerClock
from annulet.testing.journal import Journal
from annulet.testing.kit_broker import KitBroker
from annulet.testing.quiet_logs import quiet_logs
from annulet.testing.settling import settle

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import TracebackType

    from annulet.broker.broker import Service
    from annulet.broker.settings.clock import Clock
    from annulet.testing.durations import Duration
    from annulet.testing.seen import SeenMessage
    from annulet.testing.threaded import ThreadedBroker

ResultT = TypeVar("ResultT")

CREDENTIALS = f"{FIRST_USER}:{FIRST_USER}"

Listener = Literal["stomp", "http", "bulk"]
"""The listeners beside AMQP's."""

FREE = Endpoint(LOOPBACK, 0)
"""A port that the kernel chooses."""


class RunningBroker:
    """A broker that accepts clients, in the event loop of the test. ``broker`` is the real object, for looking inside."""

    def __init__(self, broker: KitBroker) -> None:
        self.broker = broker

    # ------------------------------------------------------------------ addresses

    @property
    def amqp_url(self) -> str:
        """``amqp://guest:guest@127.0.0.1:PORT``. Every client reads no path as the virtual host ``/``."""
        host, port = self.broker.amqp_address
        return f"amqp://{CREDENTIALS}@{host}:{port}"

    @property
    def http_url(self) -> str:
        """``http://127.0.0.1:PORT``. Raises LookupError when the broker was started without HTTP."""
        url: str | None = next((urls["http"] for urls in self._service_urls() if "http" in urls), None)
        url = url or next((urls["https"] for urls in self._service_urls() if "https" in urls), None)
        if url is None:
            raise LookupError("this broker has no HTTP listener; start it with http=True")
        return url

    def _service_urls(self) -> list[dict[str, str]]:
        return [service.urls for service in self.broker.services]

    @property
    def urls(self) -> dict[str, str]:
        """URL of every open listener by its name in the configuration, without credentials: ``amqps``, ``https``."""
        return listener_urls(self.broker)

    @property
    def stomp_address(self) -> tuple[str, int]:
        """Host and port. Raises LookupError when the broker was started without STOMP."""
        for service in self.broker.services:
            if isinstance(service, StompService) and service.endpoint is not None:
                return service.endpoint.host, service.endpoint.port
        raise LookupError("this broker has no STOMP listener; start it with stomp=True")

    @property
    def stomp_url(self) -> str:
        """``stomp://guest:guest@127.0.0.1:PORT``. Raises LookupError when the broker was started without STOMP."""
        host, port = self.stomp_address
        return f"stomp://{CREDENTIALS}@{host}:{port}"

    @property
    def bulk_url(self) -> str:
        """``annulet://guest:guest@127.0.0.1:PORT/``. Raises LookupError when the broker was started without bulk."""
        for urls in self._service_urls():
            if "bulk" in urls:
                return f"annulet://{CREDENTIALS}@{LOOPBACK}:{urls['bulk'].rpartition(':')[2].strip('/')}/"
        raise LookupError("this broker has no bulk listener; start it with bulk=True")

    async def open(self, listener: Listener) -> None:
        """Open one more listener, on a port that the kernel chooses; nothing is done for one that is open."""
        if any(listener in urls for urls in self._service_urls()):
            return
        service = _service_of(listener)
        service.restore(self.broker)
        await service.start(self.broker)
        self.broker.services.append(service)

    # ------------------------------------------------------------------ time

    @property
    def clock(self) -> BrokerClock:
        """The clock of the broker, for its date and to stop it. Raises LookupError for a broker with another clock."""
        if not isinstance(self.broker.clock, BrokerClock):
            raise LookupError("this broker was started with clock=...; move that clock, or leave the argument out")
        return self.broker.clock

    async def settle(self) -> None:
        """Return when the broker has handled all that clients have sent."""
        await settle(self.broker)

    async def advance(self, duration: Duration) -> int:
        """Settle, move the clock, and return when all that fell due was done. Returns the time in milliseconds.

        ``duration`` is a text such as ``"1h"``, milliseconds, or a ``timedelta``.
        """
        clock = self.clock
        await self.settle()
        self.broker.hear_clients()
        return await clock.advance(duration, self._settle_step, self.broker.tick_all)

    # ------------------------------------------------------------------ questions

    async def asked(self, question: Callable[[Assertions], ResultT], vhost: str = "/") -> ResultT:
        """Settle, and put a question about a virtual host."""
        await self.settle()
        return question(Assertions(self.broker, vhost))

    async def messages(self, queue: str, vhost: str = "/") -> list[SeenMessage]:
        """See :meth:`annulet.testing.assertions.Assertions.messages`; it settles first, as all questions do."""
        return await self.asked(lambda asks: asks.messages(queue), vhost)

    async def require_published(self, queue: str, vhost: str = "/", **wanted: Any) -> list[SeenMessage]:
        """See :meth:`annulet.testing.assertions.Assertions.require_published`."""
        return await self.asked(lambda asks: asks.require_published(queue, **wanted), vhost)

    async def require_none(self, queue: str, vhost: str = "/") -> None:
        """See :meth:`annulet.testing.assertions.Assertions.require_none`."""
        await self.asked(lambda asks: asks.require_none(queue), vhost)

    async def require_settled(self, queue: str | None = None, vhost: str = "/") -> None:
        """See :meth:`annulet.testing.assertions.Assertions.require_settled`."""
        await self.asked(lambda asks: asks.require_settled(queue), vhost)

    async def story(self, message: SeenMessage | bytes | str) -> str:
        """See :meth:`annulet.testing.assertions.Assertions.story`."""
        return await self.asked(lambda asks: asks.story(message))

    async def history(self, queue: str | None = None, vhost: str = "/") -> str:
        """See :meth:`annulet.testing.assertions.Assertions.history`."""
        return await self.asked(lambda asks: asks.history(queue), vhost)

    async def _settle_step(self) -> None:
        await self.settle()
        self.broker.hear_clients()


def _service_of(listener: Listener) -> Service:
    """Return the service of a listener. Raises :class:`StartError` where a package for it is missing."""
    if listener == "stomp":
        return StompService(FREE, None)
    if listener == "http":
        from annulet.admin.service import AdminService  # noqa: PLC0415 - uvicorn takes long to import

        return AdminService(FREE, None)
    if listener == "bulk":
        try:
            from annulet.bulk.server import BulkService  # noqa: PLC0415 - needs pyarrow, which most tests do not
        except ModuleNotFoundError as error:
            raise StartError(f"{BULK_REMEDY}; or use another listener in this test") from error
        return BulkService(FREE, None)
    raise LookupError(f"listener={listener!r} is none of stomp, http and bulk; amqp is always open")


async def start_broker(
    *,
    data_dir: Path | str | None = None,
    http: bool = False,
    stomp: bool = False,
    bulk: bool = False,
    clock: Clock | None = None,
    journal: bool = True,
    listening: socket.socket | None = None,
    **settings: Any,
) -> RunningBroker:
    """Start a broker in the running event loop; see :func:`broker`. ``listening``: the kept socket for AMQP."""
    chosen = BrokerClock() if clock is None else clock
    values: dict[str, Any] = {
        "data_directory": None if data_dir is None else Path(data_dir),
        "amqp": FREE,
        "stomp": FREE if stomp else None,
        "http": FREE if http else None,
        "bulk": FREE if bulk else None,
        "bulk_required": bulk,
    }
    configuration = BrokerConfiguration(**{**values, **settings})
    notes = Journal(chosen) if journal else None

    def make(given: BrokerConfiguration, its_clock: Clock) -> KitBroker:
        return KitBroker(given, its_clock, journal=notes, listening=listening)

    running = cast("KitBroker", build_broker(configuration, clock=chosen, make=make))
    await running.start()
    return RunningBroker(running)


class broker:  # noqa: N801 - used as a function, as contextlib's managers are
    """Start a broker, give it to the block, and stop it cleanly. In memory unless it gets a directory.

    ``async with`` runs it in the event loop of the test and gives a :class:`RunningBroker`. ``with`` runs it in a thread
    and gives a :class:`~annulet.testing.threaded.ThreadedBroker`, which opens listeners when their URL is asked for.

    Args:
        data_dir: the directory for data that outlives the broker.
        durable: have a directory of its own, removed at the end: persistent messages survive ``crash()``.
        http: open the HTTP listener at the start.
        stomp: open the STOMP listener at the start.
        bulk: open the listener of bulk transfer; needs ``annulet[spark]``.
        clock: another clock than the kit's, which alone can be advanced with all that follows.
        journal: note what happens to messages, for assertions.
        settings: fields of :class:`BrokerConfiguration`.

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
        journal: bool = True,
        **settings: Any,
    ) -> None:
        if durable and data_dir is not None:
            raise ValueError(
                f"durable=True makes a directory of its own, and data_dir={str(data_dir)!r}; give one of them"
            )
        self._data_dir = data_dir
        self._durable = durable
        self._http = http
        self._options: dict[str, Any] = {
            "stomp": stomp, "bulk": bulk, "clock": clock, "journal": journal, **settings,
        }  # fmt: skip
        self._entered = contextlib.ExitStack()
        self._running: RunningBroker | None = None

    def _prepare(self) -> dict[str, Any]:
        self._entered.enter_context(quiet_logs())
        directory = self._data_dir
        if self._durable:
            directory = tempfile.mkdtemp(prefix="annulet-test-")
            self._entered.callback(shutil.rmtree, directory, ignore_errors=True)
        return {"data_dir": directory, **self._options}

    async def __aenter__(self) -> RunningBroker:
        """Start it in the running loop; with HTTP unless that is switched off."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._entered.close)
            self._running = await start_broker(http=self._http is not False, **self._prepare())
            undo.pop_all()
        return self._running

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        running, self._running = self._running, None
        assert running is not None
        try:
            await running.broker.stop()
        finally:
            self._entered.close()

    def __enter__(self) -> ThreadedBroker:
        """Start it in a thread of its own."""
        from annulet.testing.threaded import BrokerThread  # noqa: PLC0415 - imports this module

        with contextlib.ExitStack() as undo:
            undo.callback(self._entered.close)
            options = self._prepare()
            thread = self._entered.enter_context(BrokerThread())
            started = thread.start_broker(http=bool(self._http), **options)
            self._entered.callback(started.stop)
            undo.pop_all()
        return started

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and its thread."""
        self._entered.close()
