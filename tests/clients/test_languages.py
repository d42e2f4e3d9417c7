"""Real clients in other languages: each program does the same with its own library and prints the same lines.

Declare, bind, publish with confirms, consume, acknowledge and return, get, the text of an error, a clean end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.support import Peer, Scene

FOLDER = Path(__file__).parent / "languages"
JAVA = [Path("/usr/share/java/amqp-client.jar"), Path("/usr/share/java/slf4j-api.jar")]
GO = Path("/usr/share/gocode")
GO_LIBRARY = GO / "src/github.com/rabbitmq/amqp091-go"
SECONDS = 100
"""A program's time: Go compiles its library first."""


@dataclass(frozen=True)
class Language:
    """How a program is run, which Debian packages it takes, and whether they are there."""

    program: str
    command: list[str]
    packages: str
    installed: Callable[[], bool]
    environment: dict[str, str]


def runs(*command: str) -> bool:
    """Say whether a command is there and succeeds: interpreters tell so whether they have a library."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=SECONDS, check=False).returncode == 0


def go_is_there() -> bool:
    return shutil.which("go") is not None and GO_LIBRARY.is_dir()


def java_is_there() -> bool:
    return shutil.which("javac") is not None and all(jar.is_file() for jar in JAVA)


LANGUAGES = {
    "Java": Language(
        "Program.java", ["java", "-cp", ":".join(map(str, JAVA))],
        "librabbitmq-client-java and openjdk-17-jdk-headless", java_is_there, {},
    ),
    "Go": Language(
        "program.go", ["go", "run"], "golang-github-rabbitmq-amqp091-go-dev and golang-go", go_is_there,
        {"GOPATH": str(GO), "GO111MODULE": "off", "GOFLAGS": "", "GOPROXY": "off"},
    ),
    "PHP": Language(
        "program.php", ["php"], "php-amqplib and php-cli",
        lambda: runs("php", "-r", "require 'PhpAmqpLib/autoload.php';"), {},
    ),
    "Ruby": Language("program.rb", ["ruby"], "ruby-bunny", lambda: runs("ruby", "-e", "require 'bunny'"), {}),
    "Perl": Language(
        "program.pl", ["perl"], "libanyevent-rabbitmq-perl", lambda: runs("perl", "-MAnyEvent::RabbitMQ", "-e", "1"), {}
    ),
}  # fmt: skip


@pytest.mark.debian
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("name", LANGUAGES)
def test_a_client_in_another_language(name: str, peer: Peer, scene: Scene, tmp_path: Path) -> None:
    language = LANGUAGES[name]
    if not language.installed():
        pytest.skip(f"{name}: Debian's {language.packages} are not installed")
    prefix = scene.name(name.lower())
    done = subprocess.run(
        [*language.command, str(FOLDER / language.program), peer.host, str(peer.port), prefix],
        env={**os.environ, "GOCACHE": str(tmp_path / "go"), **language.environment},
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "declared and bound",
        "confirmed",
        "consumed a b c",
        "got d, then nothing",
        f"refused 404 NOT_FOUND - no queue '{prefix}-missing' in vhost '/'",
        "closed",
    ]
