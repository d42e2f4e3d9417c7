"""A small STOMP 1.2 client on a blocking socket: live consumers and browsers, which HTTP has not."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Mapping
from typing import Final

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, EXIT_UNREACHABLE, Failure
from annulet.cli.remote.options import Remote
from annulet.wire.stomp.constants import VERSION_1_2
from annulet.wire.stomp.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.stomp.frames import Frame, FrameReader, encode_frame

READ_BYTES: Final = 1 << 16
CONNECT_SECONDS: Final = 30.0
PROTOCOLS: Final = {"http": "stomp", "https": "stomp/ssl"}
"""The listener to use, by the scheme of the HTTP address: with https TLS is used here too."""

LOGIN_WORDS: Final = ("login", "password", "access to", "access refused")
"""Words of an ERROR for a login or a permission: STOMP has no codes."""


def listener_of(remote: Remote, protocols: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of a listener of the broker. ``protocols``: its name by the scheme of the HTTP address.

    Raises :class:`~annulet.cli.remote.failures.Failure` when the broker has none.
    """
    wanted = protocols[remote.target.scheme]
    for listener in remote.listeners:
        if listener["protocol"] == wanted:
            return remote.target.host, int(listener["port"])
    raise Failure(EXIT_REFUSED_BY_BROKER, f"the broker at {remote.target.url} has no listener for {wanted}; start one")


def open_socket(remote: Remote, address: tuple[str, int]) -> socket.socket:
    """Connect to a listener, with TLS for https. Raises :class:`~annulet.cli.remote.failures.Failure`."""
    target = remote.target
    try:
        plain = socket.create_connection(address, CONNECT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.scheme == "http":
            return plain
        trusted = ssl.create_default_context(cafile=target.ca_file or None)
        return trusted.wrap_socket(plain, server_hostname=target.host)
    except OSError as error:
        raise Failure(EXIT_UNREACHABLE, f"no answer from {address[0]}:{address[1]}: {error}") from error


def receive(connection: socket.socket, size: int) -> bytes:
    """Return the next octets, at most ``size``.

    Raises ``TimeoutError``, and :class:`~annulet.cli.remote.failures.Failure` when the connection has ended.
    """
    try:
        octets = connection.recv(size)
    except TimeoutError:
        raise
    except OSError as error:
        raise Failure(EXIT_UNREACHABLE, f"the connection ended: {error}") from error
    if not octets:
        raise Failure(EXIT_UNREACHABLE, "the broker closed the connection")
    return octets


class StompClient:
    """One connection. Methods raise :class:`~annulet.cli.remote.failures.Failure` with the broker's reason."""

    def __init__(self, remote: Remote) -> None:
        self._socket = open_socket(remote, listener_of(remote, PROTOCOLS))
        self._frames = FrameReader(max_body_bytes=sys.maxsize)  # the broker has the limit
        self._frames.version = VERSION_1_2
        self._receipts = 0
        headers = {
            "accept-version": "1.2",
            "host": remote.vhost,
            "login": remote.target.user,
            "passcode": remote.target.password,
        }
        try:
            self._write("CONNECT", headers, b"")
            self.next_frame()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> StompClient:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cut the connection, if it is still there."""
        self.close()

    def close(self) -> None:
        """Cut the connection; unacknowledged messages go back to their queue."""
        self._socket.close()

    def set_wait(self, seconds: float | None) -> None:
        """Set how long :meth:`next_frame` waits; ``None`` is for ever."""
        self._socket.settimeout(seconds)

    def send(self, destination: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a message without waiting."""
        self._write("SEND", {"destination": destination, **(headers or {})}, body)

    def send_many(self, frames: list[bytes]) -> None:
        """Write prepared frames."""
        self._transmit(b"".join(frames))

    def subscribe(self, destination: str, *, ack: str, headers: Mapping[str, str] | None = None) -> None:
        """Subscribe; messages are frames from :meth:`next_frame`."""
        self._write("SUBSCRIBE", {"id": "1", "destination": destination, "ack": ack, **(headers or {})}, b"")

    def acknowledge(self, message: Frame) -> None:
        """Acknowledge a message, or in mode ``client`` all up to it."""
        self._write("ACK", {"id": message.headers["ack"]}, b"")

    def finish(self) -> None:
        """Return when everything that was sent is done, and on disk where it has to be; messages are passed over."""
        self._receipts += 1
        self._write("DISCONNECT", {"receipt": f"end-{self._receipts}"}, b"")
        while self.next_frame().command != "RECEIPT":
            pass
        self.close()

    def next_frame(self) -> Frame:
        """Return the next frame. Raises ``TimeoutError`` when nothing came within the time that was set."""
        while True:
            try:
                frame = self._frames.next_frame()
            except RemoteProtocolError as error:
                raise Failure(EXIT_UNREACHABLE, f"the listener does not speak STOMP: {error}") from error
            if frame is None:
                self._read()
            elif frame.command == "ERROR":
                self.close()
                reason = frame.headers.get("message") or frame.body.decode(errors="replace")
                refused = any(word in reason.lower() for word in LOGIN_WORDS)
                raise Failure(EXIT_NOT_ALLOWED if refused else EXIT_REFUSED_BY_BROKER, reason)
            else:
                return frame

    def _read(self) -> None:
        self._frames.feed(receive(self._socket, READ_BYTES))

    def _write(self, command: str, headers: Mapping[str, str], body: bytes) -> None:
        try:
            octets = encode_frame(Frame(command, dict(headers), body))
        except LocalProtocolError as error:  # its text has the value, which may be a password
            text = f"{command} cannot carry a NUL, nor CONNECT a line end; take them out of names and password"
            raise Failure(EXIT_REFUSED_BY_BROKER, text) from error
        self._transmit(octets)

    def _transmit(self, octets: bytes) -> None:
        try:
            self._socket.sendall(octets)
        except OSError as error:
            raise Failure(EXIT_UNREACHABLE, f"the connection ended: {error}") from error
