"""Checks a wheel as its user meets it: installed into an empty environment, it serves, publishes, consumes and goes.

Used by ``python -m scripts.wheels --python ...``. Only programs of the environment are run, in an empty folder.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from annulet.demo.ports import free_ports

SECONDS_MAX: Final = 300
"""How long one command may take: a small machine compiles all sources at the first start."""

PAUSE_SECONDS: Final = 0.1

BODY: Final = "from a wheel"


class WheelError(Exception):
    """A wheel that does not what it should; the text says what was run and what came of it."""


def environment_of(folder: Path) -> dict[str, str]:
    """Return the variables of this process, without those that lead to other packages, for an environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANNULET"))}
    return {**kept, "PATH": f"{folder / 'bin'}{os.pathsep}{kept.get('PATH', '')}"}


def run(command: list[str], folder: Path, place: Path) -> str:
    """Run a program of an environment and return its output. Raises :class:`WheelError` with the output."""
    program = str(folder / "bin" / command[0])
    return output_of([program, *command[1:]], place, environment_of(folder), SECONDS_MAX)


def output_of(command: list[str], place: Path, environment: dict[str, str] | None, seconds: int) -> str:
    """Run a command in a folder and return its output. Raises :class:`WheelError` with the output of one that fails."""
    done = subprocess.run(
        command,
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        raise WheelError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def check(folder: Path, mode: str) -> str:
    """Use the installed wheel of an environment and remove it; return its version.

    ``mode``: what ``annulet --version`` has to say, ``compiled`` or ``pure Python``. Raises :class:`WheelError`.
    """
    with tempfile.TemporaryDirectory(prefix="annulet-wheel-check-") as scratch:
        place = Path(scratch)
        version = run(["annulet", "--version"], folder, place).strip()
        if f"({mode}" not in version:
            raise WheelError(f"annulet --version: {version}; wanted {mode}")
        shown = run(["annulet", "demo", "--small"], folder, place)
        if "every message is accounted for" not in shown:
            raise WheelError(f"annulet demo --small:\n{shown}")
        _serve(folder, place)
        run(["python", "-m", "pip", "uninstall", "--yes", "--quiet", "annulet"], folder, place)
        left = [str(path) for path in folder.glob("lib/python*/site-packages/*annulet*")]
        if left or (folder / "bin" / "annulet").exists():
            raise WheelError(f"pip uninstall left {', '.join(left) or 'bin/annulet'}")
        return version


def _serve(folder: Path, place: Path) -> None:
    """Start a broker on a directory, send a message through it, and end it."""
    http, amqp, stomp = free_ports(3)
    url = f"http://127.0.0.1:{http}"
    command = [str(folder / "bin" / "annulet"), "serve", "--data", str(place / "data"), "--http", f"127.0.0.1:{http}"]
    command += ["--amqp", f"127.0.0.1:{amqp}", "--stomp", f"127.0.0.1:{stomp}", "--bulk", "off"]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=place, env=environment_of(folder), stdout=log, stderr=log)
    try:
        _wait_ready(process, url, place / "log")
        run(["annulet", "queue", "create", "wheel", "--url", url], folder, place)
        run(["annulet", "publish", "wheel", BODY, "--url", url], folder, place)
        got = run(["annulet", "consume", "wheel", "--count", "1", "--url", url], folder, place)
        if BODY not in got:
            raise WheelError(f"annulet consume: {got!r}; wanted {BODY!r}")
    finally:
        process.terminate()
        code = process.wait(SECONDS_MAX)
    if code != 0:
        raise WheelError(f"annulet serve: exit status {code} after SIGTERM\n{(place / 'log').read_text()}")


def _wait_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return when clients may connect."""
    end = time.monotonic() + SECONDS_MAX
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/health/ready", timeout=10):  # noqa: S310 - of this machine
                return
        except (urllib.error.URLError, OSError):  # it does not listen yet, or is not ready
            time.sleep(PAUSE_SECONDS)
    raise WheelError(f"annulet serve was not ready, exit status {process.poll()}\n{log.read_text()}")
