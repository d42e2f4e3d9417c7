from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
from click.testing import CliRunner

from annulet.cli.commands import COMMANDS
from annulet.cli.main import main
from annulet.cli.remote.failures import EXIT_ABORTED, EXIT_UNREACHABLE
from annulet.cli.remote.options import Remote, remote_options
from annulet.demo.ports import free_ports

COMMON = {"vhost", "as_json", "yes", "url", "context_name", "login_user", "password_file", "ca_file"}
LOCAL = {"serve", "demo", "doctor", "backup", "lease", "pipeline", "password-hash", "metrics", "completion", "context"}


def commands(group: click.Command, names: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        return [(names, group)]
    context = click.Context(group)
    return [
        found
        for name in group.list_commands(context)
        if names or name not in LOCAL
        for found in commands(group.get_command(context, name), (*names, name))
    ]


def test_every_command_against_a_broker_has_the_same_options() -> None:
    found = commands(main)
    assert len(found) > len(COMMANDS) - len(LOCAL)
    for names, command in found:
        assert {parameter.name for parameter in command.params} >= COMMON, names
        assert command.help, names


def test_control_c_has_its_exit_code() -> None:
    @click.command()
    @remote_options
    def interrupted(_remote: Remote) -> None:
        raise KeyboardInterrupt

    result = CliRunner().invoke(interrupted, [])
    assert (result.exit_code, result.stderr) == (EXIT_ABORTED, "annulet: aborted\n")


def test_a_process_without_a_broker_says_where_it_looked() -> None:
    (port,) = free_ports(1)
    done: Any = subprocess.run(
        [sys.executable, "-c", "from annulet.cli.main import main; main()", "status", "--url", str(port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (EXIT_UNREACHABLE, "")
    assert f"http://localhost:{port}" in done.stderr
    assert done.stderr.count("\n") == 1
