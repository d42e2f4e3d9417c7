"""The question before something is destroyed, with its size and a sample: the user types its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from annulet.cli.remote.failures import EXIT_ABORTED, Failure, usage
from annulet.cli.remote.options import Remote
from annulet.cli.remote.text import at_terminal, printable

SAMPLE: Final = 5
"""Lines of a sample."""


def confirm(remote: Remote, what: str, name: str, lines: Sequence[str] = (), *, total: int = 0, note: str = "") -> None:
    """Show what would be destroyed, and ask for the name; ``--yes`` neither shows nor asks.

    ``what`` begins with a verb in the infinitive: ``delete queue 'q' with 3 messages``. ``total``: how many lines there
    would be, when ``lines`` has only the first; ``note``: a sentence about the way back. Raises
    :class:`~annulet.cli.remote.failures.Failure`: usage without a terminal, aborted for another answer.
    """
    if remote.yes:
        return
    if not at_terminal():
        way_back = f" ({note})" if note else ""
        raise usage(f"would {what}{way_back}; there is no terminal to ask at: repeat with --yes, after a look at it")
    click.echo(printable(f"This will {what}."), err=True)
    for line in lines[:SAMPLE]:
        click.echo(printable(f"  {line}"), err=True)
    further = max(total, len(lines)) - len(lines[:SAMPLE])
    if further:
        click.echo(f"  … and {further:,} more", err=True)
    if note:
        click.echo(printable(f"{note[0].upper()}{note[1:]}."), err=True)
    answer = click.prompt(f"Type {printable(name)} to go on", default="", show_default=False, err=True)
    if answer != name:
        raise Failure(EXIT_ABORTED, "the name does not match; nothing was changed")
