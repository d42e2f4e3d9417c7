"""The open listeners of a broker, with their real addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from annulet.broker.settings.configuration import Endpoint

if TYPE_CHECKING:
    from annulet.broker.broker import Broker


def open_listeners(broker: Broker) -> dict[str, Endpoint]:
    """Return host and port of each open listener by its name in the configuration: ``amqp``, ``amqps``, ``http``."""
    listeners = {"amqp": Endpoint(*broker.amqp_address)} if broker.amqp_address[1] else {}
    if broker.amqps_address is not None:
        listeners["amqps"] = Endpoint(*broker.amqps_address)
    for service in broker.services:
        for name, url in service.urls.items():
            parts = urlsplit(url)
            listeners[name] = Endpoint(parts.hostname or "", parts.port or 0)
    return listeners
