"""``annulet password-hash``: creates the hash for a user in the configuration file."""

from __future__ import annotations

import click

from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.scram_verifiers import DIGESTS, derive_verifier


@click.command("password-hash")
@click.password_option(help="The password; asked for when it is left out, so that it stays out of the shell's history.")
@click.option("--scram", is_flag=True, help="Print the SCRAM verifiers too, as lines for the file.")
def password_hash(password: str, *, scram: bool) -> None:
    """Print the Argon2 hash of a password, for [users.NAME] in the configuration file."""
    known_hash = HASHER.hash(password)
    if not scram:
        click.echo(known_hash)
        return
    click.echo(f'password_hash = "{known_hash}"')
    for mechanism in DIGESTS:
        click.echo(f'{mechanism.lower().replace("-", "_")} = "{derive_verifier(mechanism, password)}"')
