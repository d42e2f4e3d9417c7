"""The broker that a command means: from options, a context, the environment, or the one on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import click

from annulet.cli.remote.contexts import Context, contexts_path, load_contexts, read_password_file
from annulet.cli.remote.failures import usage
from annulet.cli.remote.text import at_terminal

DEFAULT_URL: Final = "http://localhost:8161"
DEFAULT_USER: Final = "guest"
DEFAULT_PASSWORD: Final = "guest"  # noqa: S105 - the first user of a new broker, which is let in from loopback only
DEFAULT_VIRTUAL_HOST: Final = "/"
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
URL_VARIABLE: Final = "ANNULET_URL"
USER_VARIABLE: Final = "ANNULET_USER"
PASSWORD_VARIABLE: Final = "ANNULET_PASSWORD"  # noqa: S105 - its name
CONTEXT_VARIABLE: Final = "ANNULET_CONTEXT"
PORTS: Final = {"http": 8161, "https": 8162}
PORT_MAX: Final = 65_535
BULK_SCHEME: Final = "annulet"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a broker's HTTP interface is, and the login. ``ca_file``: certificates to trust, empty for the system's."""

    scheme: str
    host: str
    port: int
    user: str
    password: str
    ca_file: str = ""
    vhost: str = DEFAULT_VIRTUAL_HOST

    @property
    def url(self) -> str:
        """The address without the login."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts of the target that options give; empty for nothing."""

    url: str = ""
    user: str = ""
    password_file: str = ""
    context: str = ""
    ca_file: str = ""
    vhost: str = ""


def find_target(wanted: Wanted, environment: Mapping[str, str]) -> Target:
    """Return the target. Raises :class:`~annulet.cli.remote.failures.Failure` (usage) for wrong and missing parts.

    A login never goes to an address that it was not given for: with ``--url``, or ``ANNULET_URL``, the login is that of
    the options or the environment, not the one of a context.
    """
    context = _context(wanted, environment)
    scheme, host, port = read_url(context.url)
    user, password = wanted.user or context.user, ""
    if wanted.password_file:
        password = read_password_file(wanted.password_file)
    elif user == context.user:
        password = read_password_file(context.password_file) if context.password_file else context.password
    if not user:
        if host not in LOCAL_NAMES:
            raise usage(f"no user for {context.url}; give --user, or add a context: annulet context add NAME")
        user, password = DEFAULT_USER, password or DEFAULT_PASSWORD
    if not password:
        password = _asked(user, context.url)
    virtual_host = wanted.vhost or context.vhost or DEFAULT_VIRTUAL_HOST
    return Target(scheme, host, port, user, password, wanted.ca_file or context.ca_file, virtual_host)


def _context(wanted: Wanted, environment: Mapping[str, str]) -> Context:
    """Return the address and the login that belongs to it."""
    own = Context(
        url=wanted.url,
        user=wanted.user or environment.get(USER_VARIABLE, ""),
        password=environment.get(PASSWORD_VARIABLE, ""),
    )
    if wanted.url:
        if wanted.context:
            raise usage("--url and --context are given; a context has an address already, give one of them")
        return own
    name = wanted.context or environment.get(CONTEXT_VARIABLE, "")
    if name:
        return load_contexts(contexts_path(environment)).named(name)
    url = environment.get(URL_VARIABLE, "")
    if url:
        if url.startswith(f"{BULK_SCHEME}:"):
            raise usage(
                f"{URL_VARIABLE} is the address of bulk transfer, which only 'annulet lease' uses; give --url or "
                f"--context"
            )
        return Context(url, own.user, own.password)
    known = load_contexts(contexts_path(environment))
    if known.current and not own.user:
        return known.named(known.current)
    return Context(DEFAULT_URL, own.user, own.password)


def _asked(user: str, url: str) -> str:
    if not at_terminal():
        raise usage(f"no password for user {user!r}; give --password-file, or {PASSWORD_VARIABLE} in the environment")
    answer: str = click.prompt(f"Password of {user} at {url}", hide_input=True, err=True)
    return answer


def read_url(text: str) -> tuple[str, str, int]:
    """Return scheme, host and port. ``8161`` and ``host:8161`` are taken too.

    Raises :class:`~annulet.cli.remote.failures.Failure` (usage).
    """
    given = f"localhost:{text}" if text.isascii() and text.isdigit() else text
    parts = None
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        port = parts.port
    except ValueError as error:
        raise usage(f"url {text!r}: {error}; give http://HOST:PORT, HOST:PORT, or a port") from error
    if parts.scheme not in PORTS:
        raise usage(f"url {text!r}: scheme {parts.scheme!r}; give http://HOST:PORT or https://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise usage("the url contains a login, which other users of this machine see; give --user and --password-file")
    if not parts.hostname or not parts.hostname.isprintable():
        raise usage(f"url {text!r} has no host; give http://HOST:PORT, HOST:PORT, or a port")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise usage(f"url {text!r}: leave out what follows the port; the command adds the path")
    if port == 0:
        raise usage(f"url {text!r}: port 0; give a port from 1 to {PORT_MAX}")
    return parts.scheme, parts.hostname, port or PORTS[parts.scheme]
