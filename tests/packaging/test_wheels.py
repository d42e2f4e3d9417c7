"""The wheels of this Python: each is installed into an empty environment and serves from there."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pika
import pytest

from annulet import __version__, _build
from scripts import wheels
from tests.broker_process import BrokerProcess

pytestmark = pytest.mark.skipif(not _build.usable(), reason="there is no compiled build to put into a wheel")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The pure wheel and the compiled one."""
    target = tmp_path_factory.mktemp("wheels")
    pure = wheels.pure_wheel(target)
    return pure, wheels.compiled_wheel(pure, target)


def _installed(wheel: Path, folder: Path) -> Path:
    """Install a wheel into an environment of its own, with the libraries of ours; return its ``annulet``."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))  # no .pth file in there counts: not ours
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps"]
    subprocess.run([*command, "--quiet", str(wheel)], check=True, timeout=300)
    return folder / "bin" / "annulet"


def _ask(program: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "ANNULET_PURE"}}
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    return done.stdout.strip()


@pytest.mark.parametrize(("number", "mode"), [(0, "pure Python"), (1, "compiled")])
def test_a_wheel_serves_from_an_empty_environment(
    made: tuple[Path, Path], number: int, mode: str, tmp_path: Path
) -> None:
    program = _installed(made[number], tmp_path / "environment")
    assert _ask(program, "--version").startswith(f"annulet {__version__} ({mode}")
    process = BrokerProcess(tmp_path / "data")
    del process.environment["PYTHONPATH"]
    process.program = [str(program)]
    with process:
        connection = pika.BlockingConnection(pika.URLParameters(process.amqp_url))
        channel = connection.channel()
        channel.queue_declare("wheel", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "wheel", b"from a wheel")
        assert channel.basic_get("wheel", auto_ack=True)[2] == b"from a wheel"
        connection.close()
        assert process.terminate() == 0


def test_the_compiled_wheel_has_the_pure_one_within_it(made: tuple[Path, Path]) -> None:
    pure, compiled = (set(zipfile.ZipFile(wheel).namelist()) for wheel in made)
    more = {name for name in compiled - pure if ".dist-info/" not in name}
    assert more == {name for name in compiled if name.startswith("annulet/_compiled/")}
    assert f"annulet/_compiled/{_build.MANIFEST.name}" in more
    assert {name for name in pure - compiled if ".dist-info/" not in name} == set()
    assert wheels.tag() in made[1].name
