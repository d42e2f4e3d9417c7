from __future__ import annotations

import click

from annulet.cli.commands import COMMANDS
from annulet.cli.main import main


def test_the_list_of_commands_says_what_their_own_help_says() -> None:
    context = click.Context(main)
    for name, row in COMMANDS.items():
        command = main.get_command(context, name)
        assert command is not None
        assert row.help == command.get_short_help_str(1000), name
