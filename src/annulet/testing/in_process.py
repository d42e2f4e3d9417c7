"""A real broker inside a test's event loop, on free ports of the loopback address.

Example::

    async with annulet.testing.broker() as broker:
        connection = await aio_pika.connect(broker.amqp_url)
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annulet.admin.service import AdminService
from annulet.application import build_broker, listener_urls
from annulet.broker.security.file_users import FIRST_USER
from annulet.broker.settings.clock import Clock, system_clock
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint
from annulet.broker.stomp.listener import StompService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from annulet.broker.broker import Broker

CREDENTIALS = f"{FIRST_USER}:{FIRST_USER}"


class RunningBroker:
    """A broker that accepts clients. ``broker`` is the real object, for looking inside."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def amqp_url(self) -> str:
        """``amqp://guest:guest@127.0.0.1:PORT``. Every client reads no path as the virtual host ``/``."""
        host, port = self.broker.amqp_address
        return f"amqp://{CREDENTIALS}@{host}:{port}"

    @property
    def http_url(self) -> str:
        """``http://127.0.0.1:PORT``. Raises LookupError when the broker was started without HTTP."""
        for service in self.broker.services:
            if isinstance(service, AdminService):
                return service.url
        raise LookupError("this broker has no HTTP listener; start it with http=True")

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
    def bulk_url(self) -> str:
        """``annulet://guest:guest@127.0.0.1:PORT/``. Raises LookupError when the broker was started without bulk."""
        from annulet.bulk.server import BulkService  # noqa: PLC0415 - needs pyarrow, which most tests do not

        for service in self.broker.services:
            if isinstance(service, BulkService):
                return f"annulet://{CREDENTIALS}@{LOOPBACK}:{service.port}/"
        raise LookupError("this broker has no bulk listener; start it with bulk=True")


@contextlib.asynccontextmanager
async def broker(
    *,
    data_dir: Path | str | None = None,
    http: bool = True,
    stomp: bool = False,
    bulk: bool = False,
    clock: Clock = system_clock,
    **settings: Any,
) -> AsyncIterator[RunningBroker]:
    """Start a broker, yield it, stop it cleanly. In memory unless ``data_dir`` is given.

    ``bulk`` needs ``annulet[spark]``. ``settings`` are fields of :class:`BrokerConfiguration`. Raises the exceptions of
    a failing start; cancellation inside the block stops the broker too.
    """
    free = Endpoint(LOOPBACK, 0)
    values: dict[str, Any] = {
        "data_directory": None if data_dir is None else Path(data_dir),
        "amqp": free,
        "stomp": free if stomp else None,
        "http": free if http else None,
        "bulk": free if bulk else None,
        "bulk_required": bulk,
    }
    configuration = BrokerConfiguration(**{**values, **settings})
    running = build_broker(configuration, clock=clock)
    await running.start()
    try:
        yield RunningBroker(running)
    finally:
        await running.stop()
