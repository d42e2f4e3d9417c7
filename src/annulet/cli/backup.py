"""``annulet backup``: have a running broker copy itself to a directory."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from annulet.cli.local_path import LocalPath

EXIT_FAILED: Final = 1
"""The broker refused, or the backup failed. click uses 2 for wrong options."""

POLL_SECONDS: Final = 0.2
PROGRESS_SECONDS: Final = 1.0

REQUEST_SECONDS: Final = 60
"""How long the broker may take to answer: a password check and a check of the target's disk."""

PASSWORD_VARIABLE: Final = "ANNULET_PASSWORD"  # noqa: S105 - the name of a variable


@click.command()
@click.argument("target", type=LocalPath())
@click.option("--url", default="http://127.0.0.1:8161", show_default=True, help="HTTP listener of the broker.")
@click.option("--user", default="guest", show_default=True, help=f"Administrator; password in ${PASSWORD_VARIABLE}.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as one JSON object.")
def backup(target: Path, url: str, user: str, *, as_json: bool) -> None:
    """Make the broker copy its data to the empty directory TARGET while it runs.

    It contains everything confirmed before the command began. Start a broker on it: annulet serve --data TARGET.
    """
    client = Client(url, user, os.environ.get(PASSWORD_VARIABLE, "guest"))
    try:
        outcome = client.send("POST", "/api/v1/backups", {"directory": str(target.absolute())})
        shown = time.monotonic()
        while outcome["state"] in ("staging", "copying"):
            time.sleep(POLL_SECONDS)
            outcome = client.send("GET", f"/api/v1/backups/{outcome['number']}")
            if sys.stderr.isatty() and time.monotonic() - shown >= PROGRESS_SECONDS:
                shown = time.monotonic()
                click.echo(f"{outcome['copied_bytes'] >> 20} of {outcome['bytes'] >> 20} MiB", err=True)
    except BackupRefusal as error:
        click.echo(f"annulet: {error}", err=True)
        sys.exit(EXIT_FAILED)
    if as_json:
        click.echo(json.dumps(outcome))
    elif outcome["state"] == "finished":
        click.echo(f"{outcome['files']} files, {outcome['bytes']} bytes in {target}; check it: annulet doctor {target}")
    else:
        click.echo(f"annulet: the backup failed: {outcome['error']}", err=True)
    sys.exit(0 if outcome["state"] == "finished" else EXIT_FAILED)


class BackupRefusal(Exception):
    """The broker cannot be reached, or refuses; the text has the reason and the remedy."""


class Client:
    """Client of one broker's API."""

    def __init__(self, url: str, user: str, password: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise click.BadParameter(f"{url!r}: give http://HOST:PORT or https://HOST:PORT", param_hint="--url")
        self._url = url.rstrip("/")
        self._authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer's object. Raises :class:`BackupRefusal`."""
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": self._authorization, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:  # noqa: S310 - as above
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise BackupRefusal(reason_of(error.read(), error.code)) from error
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise BackupRefusal(
                f"{self._url} cannot be asked: {reason}; does a broker run, and is its HTTP on?"
            ) from error
        return answer


def reason_of(body: bytes, status: int) -> str:
    """Return the reason of a refusal."""
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, KeyError, TypeError):
        return f"the broker answered {status}"
