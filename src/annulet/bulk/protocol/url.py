"""The address of a broker as Spark jobs write it: ``annulet://user:password@host:8815/vhost``, or ``annulets``: TLS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from annulet.bulk.protocol.errors import InvalidRequestError

SCHEME: Final = "annulet"
TLS_SCHEME: Final = "annulets"
DEFAULT_PORT: Final = 8815
DEFAULT_TLS_PORT: Final = 8816
DEFAULT_USER: Final = "guest"
DEFAULT_PASSWORD: Final = "guest"  # noqa: S105 - RabbitMQ's well-known default, accepted from loopback only
DEFAULT_VIRTUAL_HOST: Final = "/"
EXAMPLE: Final = "annulet://user:password@host:8815/vhost"


@dataclass(frozen=True, slots=True)
class BulkUrl:
    """A parsed address. Its text never shows the password."""

    host: str
    port: int = DEFAULT_PORT
    user: str = DEFAULT_USER
    password: str = field(default=DEFAULT_PASSWORD, repr=False)
    virtual_host: str = DEFAULT_VIRTUAL_HOST
    tls: bool = False

    @property
    def location(self) -> str:
        """The address for a Flight client."""
        return f"{'grpc+tls' if self.tls else 'grpc'}://{self._place}"

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        scheme = TLS_SCHEME if self.tls else SCHEME
        return f"{scheme}://{self.user}@{self._place}/{quote(self.virtual_host, safe='')}"


def parse_url(text: str) -> BulkUrl:
    """Parse an address; parts are percent-decoded, so the virtual host ``/`` is ``%2F`` or nothing.

    Raises:
        InvalidRequestError: naming the part, with the password left out.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise InvalidRequestError(f"url: {error}; write {EXAMPLE}") from error
    if parts.scheme not in {SCHEME, TLS_SCHEME}:
        given = f"{parts.scheme}://" if "://" in text else "no scheme"
        raise InvalidRequestError(
            f"url: the scheme must be {SCHEME}:// or {TLS_SCHEME}://, not {given}; write {EXAMPLE}"
        )
    if not parts.hostname:
        raise InvalidRequestError(f"url: the host is missing; write {EXAMPLE}")
    if port == 0:
        raise InvalidRequestError(f"url: port 0 is no port; write {EXAMPLE}")
    if parts.query or parts.fragment:
        raise InvalidRequestError(
            f"url: unexpected {'?' if parts.query else '#'} after the virtual host; "
            "options are options of the reader or writer, and ? and # in names are %3F and %23"
        )
    if (parts.username is None) != (parts.password is None):
        raise InvalidRequestError(
            f"url: the {'password' if parts.password is None else 'user'} is missing; write {EXAMPLE}"
        )
    path = parts.path.removeprefix("/")
    if "/" in path:
        raise InvalidRequestError(f"url: virtual host {path!r} has a slash in it; write the slash as %2F")
    tls = parts.scheme == TLS_SCHEME
    default_port = DEFAULT_TLS_PORT if tls else DEFAULT_PORT
    return BulkUrl(
        host=parts.hostname,
        port=default_port if port is None else port,
        tls=tls,
        user=DEFAULT_USER if parts.username is None else _decode(parts.username, "user"),
        password=DEFAULT_PASSWORD if parts.password is None else _decode(parts.password, "password"),
        virtual_host=_decode(path, "virtual host") or DEFAULT_VIRTUAL_HOST,
    )


def _decode(text: str, what: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"url: the {what} is not UTF-8 after percent-decoding") from error
