"""A real broker inside the event loop of a test, on free ports of the loopback address."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from annulet.application import BULK_REMEDY, build_broker, listener_urls
from annulet.broker.security.file_users import FIRST_USER
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint, StartError, nearest_name
from annulet.broker.stomp.listener import StompService
from annulet.testing.assertions import Assertions
from annulet.testing.clock import BrokerClock
from annulet.testing.faults import Faults
from annulet.testing.journal import Journal
from annulet.testing.kit_broker import KitBroker
from annulet.testing.rabbitmq_rules import dialect_of
from annulet.testing.recording import publish_recorded, read_recording
from annulet.testing.settling import settle

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from annulet.broker.broker import Service
    from annulet.broker.settings.clock import Clock
    from annulet.testing.durations import Duration
    from annulet.testing.gate import Rule
    from annulet.testing.seen import SeenMessage

ResultT = TypeVar("ResultT")

WAIT_SECONDS = 10.0
"""How long a worker may take by default, in real time."""

WAIT_PAUSE_SECONDS = 0.002
"""Between two looks at a queue that a worker works on."""

CREDENTIALS = f"{FIRST_USER}:{FIRST_USER}"

Listener = Literal["stomp", "http", "bulk"]
"""The listeners beside AMQP's."""

OPTIONS = ("data_dir", "durable", "http", "stomp", "bulk", "clock", "journal", "strict")
"""Options of a broker in a test, beside the fields of :class:`BrokerConfiguration`."""

FREE = Endpoint(LOOPBACK, 0)
"""A port that the kernel chooses."""


class RunningBroker:
    """A broker that accepts clients, in the event loop of the test. ``broker`` is the real object, to look inside."""

    def __init__(self, make: Callable[[BrokerConfiguration], KitBroker], configuration: BrokerConfiguration) -> None:
        self.broker = make(configuration)
        self.faults = Faults(self)
        self.temporary = False  # the directory is removed at the end
        self._make = make

    async def stop(self) -> None:
        """Stop the broker cleanly, and remove its directory if it has one of its own."""
        try:
            await self.broker.stop()
        finally:
            directory = self.broker.configuration.data_directory
            if self.temporary and directory is not None:
                shutil.rmtree(directory, ignore_errors=True)

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
        clock = self.broker.clock
        if isinstance(clock, BrokerClock):
            return clock
        raise LookupError("this broker was started with clock=...; move that clock, or leave the argument out")

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

    async def replay(self, recording: Path | str, *, queue: str | None = None, vhost: str = "/") -> int:
        """Publish recorded messages, moving the clock by the time that was between them; return how many there were.

        ``recording``: a file of ``annulet browse QUEUE --whole``. ``queue``: publish to this queue instead of the
        recorded exchange and routing key. Raises ``ValueError`` for a wrong file, and for a message that is refused.
        """
        recorded = read_recording(recording)
        for before, message in zip([*recorded[:1], *recorded], recorded, strict=False):
            if message.accepted_at > before.accepted_at:
                await self.advance(message.accepted_at - before.accepted_at)
            await publish_recorded(self.broker, message, queue, vhost)
        return len(recorded)

    async def crash(self) -> None:
        """Kill the broker and start it again: on the same ports, with what a disk would have after ``kill -9``.

        Connections are cut. Without a directory no message survives; ``durable=True`` gives one.
        """
        former = self.broker
        directory = former.configuration.data_directory
        values = {name: getattr(former.configuration, name) for name in BrokerConfiguration.__struct_fields__}
        values["amqp"] = Endpoint(*former.amqp_address)
        for service in former.services:
            for name, url in service.urls.items():
                if name in {"stomp", "http", "bulk"}:
                    values[name] = Endpoint(LOOPBACK, int(url.rpartition(":")[2].strip("/")))
        if directory is None:
            await former.die(_nothing)
        else:
            image = directory.with_name(f"{directory.name}-image")
            await former.die(lambda: copy_data(directory, image))
            shutil.rmtree(directory)
            image.rename(directory)
        self.broker = self._make(BrokerConfiguration(**values))
        await self.broker.start()

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

    async def wait_settled(self, queue: str, vhost: str = "/", *, seconds: float = WAIT_SECONDS) -> None:
        """Return when a queue had messages and all have left it: a worker has done its work.

        Raises ``AssertionError`` with the events after so many seconds of real time.
        """
        end = time.monotonic() + seconds
        while True:
            done = await self.asked(lambda asks: asks.is_done(queue), vhost)
            if done:
                return
            if time.monotonic() > end:
                await self.asked(lambda asks: asks.require_done(queue), vhost)
            await asyncio.sleep(WAIT_PAUSE_SECONDS)

    async def story(self, message: SeenMessage | bytes | str) -> str:
        """See :meth:`annulet.testing.assertions.Assertions.story`."""
        return await self.asked(lambda asks: asks.story(message))

    async def history(self, queue: str | None = None, vhost: str = "/") -> str:
        """See :meth:`annulet.testing.assertions.Assertions.history`."""
        return await self.asked(lambda asks: asks.history(queue), vhost)

    async def _settle_step(self) -> None:
        await self.settle()
        self.broker.hear_clients()


def _nothing() -> None:
    """Copy nothing: a broker in memory leaves nothing."""


def copy_data(source: Path, target: Path) -> None:
    """Copy a data directory as its files are, without the lock of the process."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.lock", "lock"))


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


async def start_broker(  # noqa: PLR0913 - options of a test, each by its name
    *,
    data_dir: Path | str | None = None,
    durable: bool = False,
    http: bool = False,
    stomp: bool = False,
    bulk: bool = False,
    clock: Clock | None = None,
    journal: bool | None = None,
    strict: str | None = None,
    listening: socket.socket | None = None,
    **settings: Any,
) -> RunningBroker:
    """Start a broker in the running event loop; see :class:`annulet.testing.context.broker`.

    ``listening``: the kept socket for AMQP.

    Raises ``TypeError`` for an unknown option, ``ValueError`` for wrong values.
    """
    for name in settings:
        if name not in BrokerConfiguration.__struct_fields__:
            known = dict.fromkeys([*OPTIONS, *BrokerConfiguration.__struct_fields__])
            raise TypeError(f"a broker has no option {name!r}{nearest_name(name, known)}")
    if durable and data_dir is not None:
        raise ValueError(f"durable=True makes a directory of its own, and data_dir={str(data_dir)!r}; give one of them")
    dialect = dialect_of(strict)
    noted = (data_dir is None) if journal is None else journal
    chosen = BrokerClock() if clock is None else clock
    directory = Path(tempfile.mkdtemp(prefix="annulet-test-")) if durable else None
    if data_dir is not None:
        directory = Path(data_dir)
    values: dict[str, Any] = {
        "data_directory": directory,
        "amqp": FREE,
        "stomp": FREE if stomp else None,
        "http": FREE if http else None,
        "bulk": FREE if bulk else None,
        "bulk_required": bulk,
    }
    configuration = BrokerConfiguration(**{**values, **settings})
    notes = Journal(chosen) if noted else None

    rules: list[Rule] = []

    def kit_broker(given: BrokerConfiguration, its_clock: Clock) -> KitBroker:
        return KitBroker(given, its_clock, journal=notes, listening=listening, rules=rules, dialect=dialect)

    def make(given: BrokerConfiguration) -> KitBroker:
        return cast("KitBroker", build_broker(given, clock=chosen, make=kit_broker))

    running = RunningBroker(make, configuration)
    running.temporary = durable
    try:
        await running.broker.start()
    except BaseException:
        await running.stop()
        raise
    return running
