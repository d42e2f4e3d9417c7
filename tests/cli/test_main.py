from __future__ import annotations

import platform
import subprocess
import sys

import click
import pytest
from click.shell_completion import CompletionItem
from click.testing import CliRunner

from annulet import __version__
from annulet.cli.main import main


def test_version_says_how_it_was_built() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith(f"annulet {__version__} (")
    assert ("compiled" in result.output) != ("pure Python" in result.output)
    assert platform.python_version() in result.output


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(main, ["-h"])
    assert result.exit_code == 0
    assert "serve" in result.output
    assert "password-hash" in result.output


def test_help_and_completion_import_no_command() -> None:
    program = (
        "import sys, click; from annulet.cli.main import main\n"
        "main(['--help'], standalone_mode=False); main.shell_complete(click.Context(main), 'q')\n"
        "print(sorted(name for name in sys.modules if name.startswith('annulet.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    ours = ["annulet._build", "annulet.cli", "annulet.cli.commands", "annulet.cli.lean_imports", "annulet.cli.main"]
    assert done.stdout.splitlines()[-1] == str(ours)


def test_commands_and_options_are_completed() -> None:
    def found(start: str) -> list[CompletionItem]:
        return main.shell_complete(click.Context(main), start)

    assert [item.value for item in found("queue")] == ["queues", "queue"]
    assert [item.value for item in found("--v")] == ["--version"]


def test_unknown_options_are_an_error_with_the_nearest_name() -> None:
    result = CliRunner().invoke(main, ["serve", "--amqq", "x"])
    assert result.exit_code == 2
    assert "--amqp" in result.output


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["export"], "did you mean definitions export?"),
        (["queus"], "did you mean queues"),
        (["nothing-like-it"], "annulet --help lists them"),
        (["queue", "set", "q"], "there are change, create, delete, purge, show, why-not"),
        (["queue", "create", "q", "--ring-size", "3"], "-a ring-size=1000"),
        (["permission", "set", "app", ".*", ".*", ".*"], "--configure REGEX"),
        (["user", "create", "app", "secret"], "--new-password-file"),
    ],
)
def test_wrong_guesses_are_told_the_right_form(words: list[str], hint: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert hint in " ".join(result.output.split())
