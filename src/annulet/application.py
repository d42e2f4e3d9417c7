"""The composition root: a broker with the services its configuration asks for."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import structlog

from annulet.broker.broker import Broker
from annulet.broker.settings.clock import Clock, system_clock
from annulet.broker.settings.configuration import Endpoint, StartError
from annulet.broker.stomp.listener import StompService

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.settings.configuration import BrokerConfiguration

logger = structlog.get_logger(__name__)

OTLP_REMEDY = "telemetry (otlp.endpoint) needs OpenTelemetry: pip install 'annulet[otlp]'"
OIDC_REMEDY = "access tokens of an issuer (oidc.issuer) need PyJWT: pip install 'annulet[oidc]'"
BULK_REMEDY = "bulk transfer (Spark) needs pyarrow: pip install 'annulet[spark]'"


def build_broker(
    configuration: BrokerConfiguration,
    *,
    clock: Clock = system_clock,
    make: Callable[[BrokerConfiguration, Clock], Broker] | None = None,
) -> Broker:
    """Return a broker that is not started yet. ``make`` creates one of a subclass.

    Without pyarrow a bulk listener that was asked for by name raises :class:`StartError`; the default one is left out,
    with a line in the log that says so. An issuer of access tokens without PyJWT, and a collector of telemetry without
    OpenTelemetry, raise :class:`StartError`, too.
    """
    if configuration.oidc is not None and not _is_installed("jwt"):
        raise StartError(f"{OIDC_REMEDY}, or leave the section [oidc] out")
    broker = Broker(configuration, clock=clock) if make is None else make(configuration, clock)
    if configuration.stomp is not None or configuration.stomps is not None:
        broker.add_service(StompService(configuration.stomp, configuration.stomps))
    if configuration.http is not None or configuration.https is not None:
        from annulet.admin.service import AdminService  # noqa: PLC0415 - a broker without HTTP starts without uvicorn

        broker.add_service(AdminService(configuration.http, configuration.https))
    if configuration.otlp is not None:
        if not _is_installed("opentelemetry") or not _is_installed("opentelemetry.exporter"):
            raise StartError(f"{OTLP_REMEDY}, or leave the section [otlp] out")
        from annulet.admin.telemetry.service import TelemetryService  # noqa: PLC0415 - OpenTelemetry is optional

        broker.add_service(TelemetryService(configuration.otlp))
    if configuration.bulk is not None or configuration.bulks is not None:
        if _is_installed("pyarrow"):
            from annulet.bulk.server import BulkService  # noqa: PLC0415 - pyarrow is optional

            broker.add_service(BulkService(configuration.bulk, configuration.bulks))
        elif configuration.bulk_required:
            raise StartError(f"{BULK_REMEDY}, or --bulk off")
        else:
            logger.info("bulk listener is off", remedy=BULK_REMEDY)
    return broker


def listener_urls(broker: Broker) -> dict[str, str]:
    """Return the URL of every open listener by its name in the configuration, with the real ports."""
    urls = {"amqp": f"amqp://{Endpoint(*broker.amqp_address)}"}
    if broker.amqps_address is not None:
        urls["amqps"] = f"amqps://{Endpoint(*broker.amqps_address)}"
    for service in broker.services:
        urls.update(service.urls)
    return urls


def _is_installed(module: str) -> bool:
    """Return whether a module of an optional extra can be imported; the package that it is in must be there."""
    return importlib.util.find_spec(module) is not None
