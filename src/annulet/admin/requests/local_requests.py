"""Which HTTP requests and WebSockets were made on this machine, and whose pages may use the broker.

A loopback address alone is no proof: a proxy on this machine has one too, and any site can point a name to 127.0.0.1
(DNS rebinding), so that a browser here treats the broker as a part of that site. Therefore the name of the broker in
the request (``Host``) has to be a name of this machine as well. Names are compared whole, and addresses are parsed:
``127.example`` is a name, not an address.
"""

from __future__ import annotations

import re
import socket
from functools import cache
from typing import TYPE_CHECKING, Final

from annulet.broker.network.listening import is_loopback

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from annulet.broker.broker import Broker
    from annulet.broker.settings.configuration import BrokerConfiguration

LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost", "ip6-loopback"})
"""Names that mean this machine on every machine (RFC 6761 §6.3, and Debian's for IPv6)."""

AUTHORITY: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:/?#@\[\]\\%]+?)\.?)(?::[0-9]*)?")
"""``host`` or ``host:port`` (RFC 3986 §3.2) without a user, which neither ``Host`` nor ``Origin`` may have."""


def host_name(authority: str) -> str:
    """Return the name or address in ``host:port``, in lower case; empty when it is malformed."""
    match = AUTHORITY.fullmatch(authority)
    return "" if match is None else (match["six"] or match["name"]).lower()


def origin_authority(origin: str) -> str:
    """Return the part of an ``Origin`` behind its scheme (RFC 6454 §7); empty for ``null`` and no origin."""
    scheme, separator, authority = origin.partition("://")
    return authority.lower() if separator and scheme.isalpha() and host_name(authority) else ""


@cache
def machine_name() -> str:
    """Return the system's names of this machine."""
    return socket.gethostname().lower()


def is_local_name(name: str, configuration: BrokerConfiguration) -> bool:
    """Return whether a host name or address, in lower case, is one of this machine's own, whatever it resolves to."""
    listeners = (configuration.http, configuration.https)
    return (
        name in LOCAL_NAMES
        or is_loopback(name)
        or (bool(name) and name == machine_name())
        or name in configuration.local_host_names
        or any(listener is not None and name == listener.host.lower() for listener in listeners)
    )


def was_forwarded(connection: HTTPConnection) -> bool:
    """Return whether a proxy passed the request on."""
    return "x-forwarded-for" in connection.headers or "forwarded" in connection.headers


def came_over_loopback(connection: HTTPConnection) -> bool:
    """Return whether the peer is a program of this machine and no proxy. It may be a browser on a page of any site."""
    client = connection.client
    return client is not None and is_loopback(client.host) and not was_forwarded(connection)


def names_this_machine(connection: HTTPConnection) -> bool:
    """Return whether ``Host`` is a name of this machine. Without one it is no browser: HTTP/1.0 needs none."""
    host = connection.headers.get("host")
    return host is None or is_local_name(host_name(host), _broker_of(connection).configuration)


def is_local(connection: HTTPConnection) -> bool:
    """Return whether the request was made on this machine, with a name of this machine.

    All others need credentials, and users restricted to loopback are refused.
    """
    return came_over_loopback(connection) and names_this_machine(connection)


def peer_address(connection: HTTPConnection) -> str:
    """Return the peer's address as for connections; for a request that is not local it is never a loopback address."""
    client = connection.client
    if client is None:
        return ""
    if was_forwarded(connection):
        return f"forwarded by {client.host}"
    if is_loopback(client.host) and not names_this_machine(connection):
        return f"under another name from {client.host}"
    return client.host


def refused_origin(connection: HTTPConnection, allowed: tuple[str, ...] = ()) -> str:
    """Return the ``Origin`` of a page that may not use the broker; empty when it may, and for programs.

    Browsers send it (RFC 6454). Allowed are pages of this machine, of the same host and port as the broker if the peer
    is another machine, or of an ``allowed`` origin.
    """
    origin = connection.headers.get("origin")
    if origin is None or origin in allowed:
        return ""
    authority = origin_authority(origin)
    if is_local_name(host_name(authority), _broker_of(connection).configuration):
        return ""
    same = bool(authority) and authority == connection.headers.get("host", "").lower()
    return "" if same and not came_over_loopback(connection) else origin or "null"


def _broker_of(connection: HTTPConnection) -> Broker:
    broker: Broker = connection.app.state.broker
    return broker
