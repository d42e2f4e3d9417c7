"""``annulet password-hash``: what ``password_hash`` of a user in the configuration file is made with."""

from __future__ import annotations

import click

from annulet.broker.authentication import HASHER


@click.command("password-hash")
@click.password_option(help="The password; asked for when it is left out, so that it stays out of the shell's history.")
def password_hash(password: str) -> None:
    """Print the Argon2 hash of a password, for [users.NAME] in the configuration file."""
    click.echo(HASHER.hash(password))
