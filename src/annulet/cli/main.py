"""The command group ``annulet``."""

from __future__ import annotations

import platform

import click

from annulet import __version__, _build
from annulet.cli.archive import archive, replay
from annulet.cli.backup import backup
from annulet.cli.demo import demo
from annulet.cli.doctor import doctor
from annulet.cli.lease import lease
from annulet.cli.password_hash import password_hash
from annulet.cli.pipeline import pipeline
from annulet.cli.serve import serve
from annulet.cli.what_if import report, what_if


def version_text() -> str:
    """Return what ``annulet --version`` prints: version, how the hot modules run, Python's version."""
    mode = "compiled" if _build.compiled() else "pure Python"
    return f"annulet {__version__} ({mode}, Python {platform.python_version()})"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=version_text())
def main() -> None:
    """A message broker whose queues are rings, tables and streams, and Spark DataFrames."""


main.add_command(serve)
main.add_command(demo)
main.add_command(doctor)
main.add_command(backup)
main.add_command(lease)
pipeline.add_command(archive)
pipeline.add_command(replay)
pipeline.add_command(what_if)
pipeline.add_command(report)
main.add_command(pipeline)
main.add_command(password_hash)
