"""``annulet serve``: run a broker until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import structlog

from annulet.application import build_broker, listener_urls
from annulet.broker.observing.logging import set_up
from annulet.broker.operation.definitions.applying import read_document
from annulet.broker.paging.memory import give_back_freed, give_back_large, share_arenas
from annulet.broker.settings.configuration import OPTIONS, ConfigurationError, StartError, load
from annulet.broker.settings.descriptors import raise_limit
from annulet.broker.settings.setting_values import machine_memory_bytes, physical_memory_bytes
from annulet.cli.collector import settle_collector
from annulet.cli.reloading import Reloader
from annulet.cli.service_manager import ServiceManager
from annulet.cli.signals import end_at_once
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import CatalogueError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from annulet.broker.broker import Broker
    from annulet.broker.settings.configuration import BrokerConfiguration

logger = structlog.get_logger(__name__)

EXIT_FAILED: Final = 1
"""The broker ran and cannot go on: its disk failed."""

EXIT_NOT_STARTED: Final = 2
"""The broker did not start: configuration, address, data directory. click uses 2 for wrong options too."""


@click.command()
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="TOML file; options go before it.")
@click.option("--data", metavar="DIR", help="Data directory.  [default: ./annulet-data]")
@click.option("--memory", is_flag=True, help="Keep everything in memory; nothing survives the end.")
@click.option("--amqp", metavar="HOST:PORT", help="AMQP listener.  [default: 127.0.0.1:5672]")
@click.option("--stomp", metavar="HOST:PORT|off", help="STOMP listener.  [default: 127.0.0.1:61613]")
@click.option("--http", metavar="HOST:PORT|off", help="Health, metrics and API.  [default: 127.0.0.1:8161]")
@click.option("--amqps", metavar="HOST:PORT", help="AMQP over TLS, port 5671; needs [tls] in the file.  [default: off]")
@click.option("--stomps", metavar="HOST:PORT", help="STOMP over TLS, port 61614.  [default: off]")
@click.option("--https", metavar="HOST:PORT", help="HTTP over TLS, port 8162.  [default: off]")
@click.option("--bulks", metavar="HOST:PORT", help="Bulk transfer over TLS, port 8816.  [default: off]")
@click.option("--bulk", metavar="HOST:PORT|off", help="Bulk transfer for Spark.  [default: 127.0.0.1:8815]")
@click.option(
    "--body-budget",
    metavar="SIZE",
    help="Bodies of waiting messages in memory.  [default: 256MiB, at most half of the memory limit]",
)
@click.option("--spill-limit", metavar="SIZE", help="Disk for transient bodies; 0: none.  [default: 10GiB or half]")
@click.option("--memory-limit", metavar="SIZE", help="Hold publishers back above: 512MiB, 2GB, 40%.  [default: 40%]")
@click.option(
    "--definitions",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="JSON of definitions, ours or RabbitMQ's, added at the start.",
)
@click.option("--heartbeat", type=int, metavar="SECONDS", help="0 switches heartbeats off.  [default: 60]")
@click.option("--log-format", type=click.Choice(["console", "json"]), help="[default: console]")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
def serve(config: Path | None, definitions: Path | None, **options: Any) -> None:
    """Run the broker in the foreground.

    SIGTERM or SIGINT stops it cleanly, exit code 0; a second signal ends it at once. SIGHUP reads certificates and
    the configuration file again.
    Exit code 2: it could not start.
    """
    read = partial(load, config, command_line_document(options), os.environ)
    try:
        configuration = read()
    except ConfigurationError as error:
        fail(str(error), EXIT_NOT_STARTED)
    set_up(configuration.log_format, configuration.log_level)
    try:
        code = asyncio.run(run(configuration, read, definitions))
    except (StartError, StoreError) as error:
        fail(str(error), EXIT_NOT_STARTED)
    except OSError as error:
        fail(describe_os_error(error), EXIT_NOT_STARTED)
    sys.exit(code)


def command_line_document(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options in the shape of the configuration file; options not given are left out."""
    document: dict[str, Any] = {}
    for path, option in OPTIONS.items():
        value = options.get(option.removeprefix("--").replace("-", "_"))
        if value is None or value is False:
            continue
        section, _, name = path.rpartition(".")
        place = document.setdefault(section, {}) if section else document
        place[name] = value
    return document


def settle(broker: Broker) -> None:
    """Exclude the objects of recovery from garbage collections, and start checking for objects that only they would
    free."""
    settle_collector()
    broker.late_collection.start(asyncio.get_running_loop())


async def run(
    configuration: BrokerConfiguration, read: Callable[[], BrokerConfiguration], definitions: Path | None = None
) -> int:
    """Run a broker until a signal or a failed disk ends it. Returns the exit code; raises what ``start`` raises.

    ``read`` reads the configuration anew, for a reload; ``definitions`` are applied as soon as the broker is ready.
    """
    raise_limit(configuration.limits)
    share_arenas()
    give_back_large()
    broker = build_broker(configuration)
    stop = asyncio.Event()
    loop, manager = asyncio.get_running_loop(), ServiceManager(os.environ)
    restore_signals = handle_signals(stop, Reloader(broker, read, manager).request)
    try:
        manager.starting(loop)
        starting = asyncio.create_task(broker.start(lambda: settle(broker)))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            logger.info("stopped while starting; nothing is lost")
            starting.cancel()
            await asyncio.wait({starting})
            return 0
        starting.result()
        if definitions is not None:
            try:
                await apply_file(broker, definitions)
            except StartError:
                await broker.stop()
                raise
        give_back_freed()  # of the imports, recovery and password hashes: 12 of 75 MiB
        log_memory(configuration)
        log_addresses(broker)
        manager.ready(loop)
        return await until_the_end(broker, stopping, manager)
    finally:
        manager.close()
        restore_signals()


async def apply_file(broker: Broker, file: Path) -> None:
    """Add the definitions of a file. Raises :class:`StartError` for one that cannot be read or has conflicts.

    Each part that this broker cannot have is a line in the log, with name and reason.
    """
    try:
        reading = await read_document(await asyncio.to_thread(file.read_bytes))
        plan = await broker.definition_imports.apply(reading, None)
    except (OSError, CoreError, CatalogueError) as error:
        raise StartError(f"{file}: {error}") from error
    for each in plan.not_taken:
        logger.warning(
            "a definition is not taken",
            file=str(file),
            kind=each.kind,
            vhost=each.host,
            name=each.name,
            reason=each.reason,
        )
    logger.info("definitions applied", file=str(file), changes=len(plan.steps), not_taken=len(plan.not_taken))


async def until_the_end(broker: Broker, stopping: asyncio.Task[bool], manager: ServiceManager) -> int:
    """Wait for the signal or the failure, stop the broker, return the exit code."""
    failing = asyncio.create_task(broker.failed())
    await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
    code = EXIT_FAILED if failing.done() else 0
    if code:
        logger.critical("the message log cannot be written; stopping", error=str(failing.result()))
    else:
        logger.info("stopping; a second signal ends at once")
        failing.cancel()
    manager.stopping("the message log cannot be written" if code else "stopping")
    await broker.stop()
    return code


def handle_signals(stop: asyncio.Event, hang_up: Callable[[], None]) -> Callable[[], None]:
    """Let the first SIGTERM or SIGINT set ``stop`` and the second end the process. Returns a function that undoes it.

    ``hang_up`` is called for each SIGHUP, which ends a process that does not handle it: a terminal sends it when it
    closes, and service managers send it for "reload".

    Plain signal handlers rather than the loop's: the second signal has to work while the loop is busy.
    """
    loop = asyncio.get_running_loop()
    signalled = False

    def receive(number: int, _frame: FrameType | None) -> None:
        nonlocal signalled
        if signalled:
            end_at_once(number)
        signalled = True
        loop.call_soon_threadsafe(stop.set)

    def receive_hang_up(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(hang_up)

    handlers = {signal.SIGTERM: receive, signal.SIGINT: receive, signal.SIGHUP: receive_hang_up}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore


def log_addresses(broker: Broker) -> None:
    """Say where clients find the broker, with the real ports."""
    data = broker.configuration.data_directory
    logger.info("serving", **listener_urls(broker), data="memory" if data is None else str(data))


def log_memory(configuration: BrokerConfiguration) -> None:
    """Say which bounds follow from the memory of a container that has less than the machine."""
    allowed, machine = machine_memory_bytes(), physical_memory_bytes()
    if allowed < machine:
        logger.info(
            "the container has less memory than the machine",
            container_bytes=allowed,
            machine_bytes=machine,
            memory_limit=configuration.memory_limit_bytes,
            body_budget=configuration.body_budget_bytes,
        )


def describe_os_error(error: OSError) -> str:
    """Return one line for an error of the system."""
    where = f" {error.filename}" if error.filename else ""
    return f"cannot start:{where} {error.strerror or error}"


def fail(text: str, code: int) -> NoReturn:
    """Print one line on standard error and exit."""
    click.echo(f"annulet: {' '.join(text.split())}", err=True)
    sys.exit(code)
