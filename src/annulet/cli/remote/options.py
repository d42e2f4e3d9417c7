"""The options that every command against a running broker has, and the object that its function gets."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import click

from annulet.cli.remote.client import BrokerClient
from annulet.cli.remote.failures import EXIT_ABORTED, Failure
from annulet.cli.remote.output import Output
from annulet.cli.remote.target import Target, Wanted, find_target

Command = TypeVar("Command", bound=Callable[..., Any])

API: Final = ("api",)
OWN_API: Final = ("api", "v1")


class Remote:
    """The first argument of a command's function: the broker's client, the output, and the common options."""

    def __init__(self, wanted: Wanted, environment: Mapping[str, str], *, as_json: bool, yes: bool) -> None:
        self.output = Output(as_json=as_json)
        self.yes = yes
        self.vhost_given = bool(wanted.vhost)
        self._wanted = wanted
        self._environment = environment
        self._client: BrokerClient | None = None

    @functools.cached_property
    def target(self) -> Target:
        """The broker that is meant. Raises :class:`Failure` (usage)."""
        return find_target(self._wanted, self._environment)

    @property
    def client(self) -> BrokerClient:
        """The client of it."""
        if self._client is None:
            self._client = BrokerClient(self.target)
        return self._client

    @functools.cached_property
    def listeners(self) -> list[dict[str, Any]]:
        """The broker's listeners, asked for once: other threads may use them then, which the client they may not."""
        found: list[dict[str, Any]] = self.client.get(*API, "overview")["listeners"]
        return found

    @property
    def vhost(self) -> str:
        """The virtual host of ``--vhost``, else the context's, else ``/``."""
        return self.target.vhost

    def listed_path(self, resource: str) -> tuple[str, ...]:
        """Return the path of a listing: of all virtual hosts, or of the one that ``--vhost`` names."""
        return (*API, resource, self.vhost) if self.vhost_given else (*API, resource)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()


def remote_options(function: Command) -> Command:
    """Give a function the common options; it gets them as one :class:`Remote`, its first argument."""

    @functools.wraps(function)
    def run(**options: Any) -> Any:
        wanted = Wanted(
            url=options.pop("url"),
            user=options.pop("login_user"),
            password_file=options.pop("password_file"),
            context=options.pop("context_name"),
            ca_file=options.pop("ca_file"),
            vhost=options.pop("vhost"),
        )
        remote = Remote(wanted, os.environ, as_json=options.pop("as_json"), yes=options.pop("yes"))
        try:
            return function(remote, **options)
        except click.Abort as error:
            raise Failure(EXIT_ABORTED, "aborted") from error
        except KeyboardInterrupt as error:
            raise Failure(EXIT_ABORTED, "aborted") from error
        finally:
            remote.close()

    for option in reversed(COMMON_OPTIONS):
        option(run)
    return run  # type: ignore[return-value] # click calls it with the options by name


COMMON_OPTIONS: Final[list[Callable[..., Any]]] = [
    click.option("--vhost", "-V", default="", metavar="NAME", help="Virtual host.  [default: the context's, or /]"),
    click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask before something is destroyed."),
    click.option("--url", default="", metavar="URL", help="The broker's HTTP address.  [env: ANNULET_URL]"),
    click.option("--context", "context_name", default="", metavar="NAME", help="A context.  [env: ANNULET_CONTEXT]"),
    click.option("--user", "-u", "login_user", default="", metavar="NAME", help="Log in as.  [env: ANNULET_USER]"),
    click.option(
        "--password-file",
        default="",
        metavar="FILE",
        help="Its first line is the password.  [env: ANNULET_PASSWORD has the password]",
    ),
    click.option("--ca-file", default="", metavar="FILE", help="Certificates to trust, for https."),
]
