"""The open listeners of a broker, with their real addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from annulet.broker.settings.configuration import Endpoint


class Urls(Protocol):
    """A service that listens."""

    @property
    def urls(self) -> dict[str, str]:
        """URL of each of its listeners by its name in the configuration."""


class Listening(Protocol):
    """The part of a broker that this module reads."""

    amqp_address: tuple[str, int]
    amqps_address: tuple[str, int] | None

    @property
    def services(self) -> Sequence[Urls]:
        """The services beside AMQP."""


def open_listeners(broker: Listening) -> dict[str, Endpoint]:
    """Return host and port of each open listener by its name in the configuration: ``amqp``, ``amqps``, ``http``."""
    listeners = {"amqp": Endpoint(*broker.amqp_address)} if broker.amqp_address[1] else {}
    if broker.amqps_address is not None:
        listeners["amqps"] = Endpoint(*broker.amqps_address)
    for service in broker.services:
        for name, url in service.urls.items():
            parts = urlsplit(url)
            listeners[name] = Endpoint(parts.hostname or "", parts.port or 0)
    return listeners
