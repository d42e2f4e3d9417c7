"""Listening sockets, opened the same way for every listener so that the errors read the same too."""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from annulet.broker.settings.configuration import Endpoint, StartError
from annulet.broker.turns.input_shares import INPUT_BYTES_FIRST

if TYPE_CHECKING:
    import asyncio

BACKLOG: Final = 1024
"""Connections the system accepts before the broker does: a restart of many clients at once fits."""


READER: Final = "_read_ready_cb"
"""Name of asyncio's field that holds the bound method."""


def bound_transport(transport: asyncio.Transport, output_bytes_max: int) -> None:
    """Set how much a connection may have waiting to be written, and how much is read of it in one turn at first.

    The latter where asyncio reads the socket for us; through TLS it is what asyncio decrypts at once.
    """
    transport.set_write_buffer_limits(high=output_bytes_max)
    if hasattr(transport, "max_size"):  # of its selector transports; there is no method to set it
        transport.max_size = INPUT_BYTES_FIRST


def release_transport(transport: object) -> None:
    """Break the cycle of one of asyncio's selector transports that is closed: it holds a bound method of itself.

    Nothing else frees the transport and its socket object but a full garbage collection. There is no method for it.
    """
    if hasattr(transport, READER):
        setattr(transport, READER, None)


class PeerFacts(msgspec.Struct, frozen=True):
    """A listener's knowledge of a peer before its login.

    ``certificate_name`` is what the setting ``tls.certificate_name`` takes from a client certificate that was verified;
    empty without one.
    """

    address: str = ""
    port: int = 0
    is_loopback: bool = False
    tls: bool = False
    certificate_name: str = ""

    def __str__(self) -> str:
        return str(Endpoint(self.address, self.port))


class ListenerError(StartError):
    """A listener cannot be opened. The text names the listener, the address and the remedy."""


def open_listening_socket(endpoint: Endpoint, listener: str, option: str) -> socket.socket:
    """Bind and listen, non-blocking. ``listener`` and ``option`` name it in the error, e.g. ``AMQP``, ``--amqp``.

    A host name with several addresses listens on the first. Raises :class:`ListenerError`.
    """
    try:
        resolved = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise listener_error(endpoint, listener, option, error) from error
    family, _, _, _, address = resolved[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise listener_error(endpoint, listener, option, error) from error
    return listening


def listener_error(endpoint: Endpoint, listener: str, option: str, error: OSError) -> ListenerError:
    """Return the error that says why a listener could not be opened."""
    if isinstance(error, socket.gaierror):
        return ListenerError(f"{listener} listener: unknown host {endpoint.host!r}; set {option} HOST:PORT")
    return ListenerError(f"{listener} listener: cannot listen on {endpoint}: {_why(error)}; set {option} HOST:PORT")


def bound_endpoint(listening: socket.socket) -> Endpoint:
    """Return where a socket listens: the port the system chose when port 0 was asked for."""
    host, port = listening.getsockname()[:2]
    return Endpoint(str(host), int(port))


def is_loopback(address: str) -> bool:
    """Whether a peer's address belongs to this machine. An empty address (no IP transport) does not.

    The text is parsed: a name such as ``127.example`` is no address, whatever it begins with.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return parsed.is_loopback if mapped is None else mapped.is_loopback


def site_of(address: str) -> str:
    """Return what counts as one peer address: an IPv4 address, or the first 64 bits of an IPv6 address.

    The other 64 a machine chooses itself, as often as it likes (RFC 4291 §2.5.4, RFC 8981).
    """
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:  # no address at all, as of a WebSocket behind a proxy
        return address
    mapped = parsed.ipv4_mapped
    return str(ipaddress.IPv6Network((parsed, 64), strict=False)) if mapped is None else str(mapped)


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the address is in use by another program"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address"
    if error.errno == errno.EACCES:
        return "permission denied (ports below 1024 need privileges)"
    return error.strerror or str(error)
