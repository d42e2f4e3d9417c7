"""``annulet completion``: the script that lets a shell complete commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from annulet.cli.remote.failures import usage

PROGRAM: Final = "annulet"
VARIABLE: Final = "_ANNULET_COMPLETE"
"""click's: the script calls the program with it."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash: annulet completion bash > ~/.local/share/bash-completion/completions/annulet
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise usage(f"shell {shell!r} is unknown; give bash, zsh or fish")
    click.echo(kind(context.find_root().command, {}, PROGRAM, VARIABLE).source())
