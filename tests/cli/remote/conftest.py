"""One broker for all commands of a test module, and the commands run against it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from annulet.cli.main import main
from annulet.cli.remote.options import Remote
from annulet.cli.remote.target import Wanted
from tests.broker_process import BrokerProcess


@dataclass
class Ran:
    """What a command printed, and its exit code."""

    code: int
    output: str
    error: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@dataclass
class Annulet:
    """Runs commands in this process, as the shell would, without a terminal."""

    broker: BrokerProcess
    home: Path

    def run(self, *arguments: str, given: str | None = None, **environment: str | None) -> Ran:
        values: dict[str, str | None] = {
            "ANNULET_URL": self.broker.http_url,
            "ANNULET_USER": "guest",
            "ANNULET_PASSWORD": "guest",
            "ANNULET_CONTEXT": None,
            "XDG_CONFIG_HOME": str(self.home),
        }
        result = CliRunner().invoke(main, list(arguments), env={**values, **environment}, input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    def done(self, *arguments: str, given: str | None = None) -> Ran:
        """Run a command that has to succeed."""
        ran = self.run(*arguments, given=given)
        assert ran.code == 0, ran.error
        return ran

    def json(self, *arguments: str) -> Any:
        """Return the JSON that a command prints."""
        return self.done(*arguments, "--json").json

    def refused(self, code: int, *arguments: str) -> str:
        """Return the only line on standard error of a command that has to fail with this code."""
        ran = self.run(*arguments)
        assert ran.code == code, (ran.code, ran.output, ran.error)
        assert ran.output == ""
        return ran.error.strip()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(None) as process:
        yield process


@pytest.fixture
def annulet(broker: BrokerProcess, tmp_path: Path) -> Annulet:
    return Annulet(broker, tmp_path)


@pytest.fixture
def remote_to(broker: BrokerProcess) -> Iterator[Callable[..., Remote]]:
    """Return a function that makes what commands get, with other values of the environment."""
    made: list[Remote] = []

    def make(**environment: str) -> Remote:
        values = {"ANNULET_URL": broker.http_url, "ANNULET_USER": "guest", "ANNULET_PASSWORD": "guest"}
        made.append(Remote(Wanted(), {**values, **environment}, as_json=False, yes=True))
        return made[-1]

    yield make
    for remote in made:
        remote.close()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard input count as a terminal."""
    monkeypatch.setattr("annulet.cli.remote.confirming.at_terminal", lambda: True)
    monkeypatch.setattr("annulet.cli.remote.context_commands.at_terminal", lambda: True)
    monkeypatch.setattr("annulet.cli.remote.access_commands.at_terminal", lambda: True)
