"""Failures of the commands against a running broker, each with its exit code."""

from __future__ import annotations

from typing import IO, Any, Final

import click

from annulet.cli.remote.text import printable

EXIT_REFUSED_BY_BROKER: Final = 1
"""The broker answered with an error."""

EXIT_USAGE: Final = 2
"""Options, arguments or a context are wrong. click uses 2 too."""

EXIT_UNREACHABLE: Final = 3
"""There is no broker at the address, or it stopped answering."""

EXIT_NOT_ALLOWED: Final = 4
"""The login was refused, or the user may not do this."""

EXIT_NOT_FOUND: Final = 5
"""The command names something that does not exist."""

EXIT_ABORTED: Final = 6
"""The user did not confirm, or pressed Control-C."""


class Failure(click.ClickException):
    """One line on standard error, and the exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc] # click reads it of the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line; control characters of a broker's answer are shown, not sent to the terminal."""
        click.echo(f"annulet: {printable(' '.join(self.message.split()))}", err=file is None, file=file)


def usage(text: str) -> Failure:
    """Return the failure of wrong options, arguments or contexts."""
    return Failure(EXIT_USAGE, text)
