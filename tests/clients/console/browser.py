"""Chromium and Firefox at the console of a real broker, driven by programs of ``tests/node``."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shutil import which
from typing import Any, Final

from tests.clients.amqp10 import NODE
from tests.clients.driven import DriverProcess

CHROMIUM: Final = "/usr/bin/chromium"
FIREFOX: Final = "/usr/bin/firefox-esr"


@cache
def missing() -> str:
    """Return why there is no browser, or an empty text."""
    if which("node") is None:
        return "no node"
    if not (NODE / "node_modules" / "playwright-core").is_dir():
        return "no playwright-core in tests/node: run scripts/node_packages"
    return "" if Path(CHROMIUM).exists() else f"no {CHROMIUM}: install the package chromium"


@cache
def firefox_missing() -> str:
    """Return why there is no Firefox, or an empty text."""
    if which("node") is None or not (NODE / "node_modules" / "ws").is_dir():
        return "no ws in tests/node: run scripts/node_packages"
    return "" if Path(FIREFOX).exists() else f"no {FIREFOX}: install the package firefox-esr"


class Browser:
    """One page. Elements are named by ``role`` and ``name``, by ``label``, ``text`` or ``selector``."""

    def __init__(self, program: str = "browser_driver.mjs", executable: str = CHROMIUM) -> None:
        self.driver = DriverProcess(["node", str(NODE / program)], folder=NODE)
        self.driver.ask("launch", executable=executable)

    def __getattr__(self, name: str) -> Any:
        def ask(**given: Any) -> Any:
            return self.driver.ask(name, **given)

        return ask

    def sign_in(self, url: str, user: str = "guest", password: str = "guest", **look: Any) -> None:
        """Open the console as a user, in a new window."""
        self.open(url=url, **look)
        self.fill(label="User", value=user)
        self.fill(label="Password", value=password)
        self.click(role="button", name="Sign in")
        self.wait(role="heading", name="Overview")

    def visit(self, hash_: str, heading: str) -> None:
        """Go to a place of the console and wait for its page."""
        self.go(hash=hash_)
        self.wait(selector="main h1", state="visible")
        self.wait(role="heading", name=heading)

    def told(self, text: str) -> None:
        """Wait for a notice with a text."""
        self.wait(selector=f".notice:has-text({text!r})")

    def sound(self) -> None:
        """Fail for errors of scripts, refusals of the content security policy, and dialogs that a script opened."""
        found = self.driver.ask("complaints")
        assert found == {"complaints": [], "dialogs": 0}, found

    def accessible(self) -> None:
        """Fail for violations that axe finds, and for a page that is wider than its window."""
        for look in ("axe", "overflow"):
            found = self.driver.ask(look)
            assert not found, f"{self.driver.ask('evaluate', script='location.hash')}: {look}: {found}"
