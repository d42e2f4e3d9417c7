"""Named contexts: addresses and logins of brokers, in ``~/.config/annulet/contexts.toml``.

The file has the mode 0600, because it may contain passwords. A new one is written beside it and takes its place, so an
interrupted write leaves the old file.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from annulet.cli.remote.failures import Failure, usage
from annulet.cli.remote.text import printable

CONFIGURATION_HOME: Final = "XDG_CONFIG_HOME"
"""The variable that names the folder of configurations (XDG Base Directory Specification); default ``~/.config``."""

NAME_CHARACTERS_MAX: Final = 100
OTHERS: Final = 0o077
"""Bits of the mode that let other users read or write the file."""

CURRENT: Final = "current"
CONTEXTS: Final = "contexts"


@dataclass(frozen=True, slots=True)
class Context:
    """An address and a login. Empty means not said. A password is either in the file, or in ``password_file``."""

    url: str
    user: str = ""
    password: str = ""
    password_file: str = ""
    ca_file: str = ""
    vhost: str = ""


@dataclass(slots=True)
class Contexts:
    """All contexts of one file, and the name of the current one; empty for none."""

    path: Path
    current: str = ""
    items: dict[str, Context] = field(default_factory=dict)

    def named(self, name: str) -> Context:
        """Return a context. Raises :class:`Failure` (usage) with the known names."""
        known = self.items.get(name)
        if known is None:
            names = ", ".join(sorted(self.items)) or "none yet: annulet context add NAME --url URL --user USER"
            raise usage(f"no context {name!r} in {self.path}; known: {names}")
        return known

    def save(self) -> None:
        """Write the file, readable by its owner only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(self._document())
            Path(beside).replace(self.path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    def _document(self) -> str:
        lines = [f"{CURRENT} = {_quoted(self.current)}"]
        for name, context in sorted(self.items.items()):
            lines += ["", f"[{CONTEXTS}.{_quoted(name)}]"]
            lines += [f"{member} = {_quoted(value)}" for member, value in asdict(context).items() if value]
        return "\n".join(lines) + "\n"


def contexts_path(environment: Mapping[str, str]) -> Path:
    """Return where the file is."""
    home = environment.get(CONFIGURATION_HOME) or str(Path.home() / ".config")
    return Path(home) / "annulet" / "contexts.toml"


def load_contexts(path: Path) -> Contexts:
    """Read the file; one that does not exist has no contexts. Raises :class:`Failure` (usage) for a wrong one."""
    try:
        if path.stat().st_mode & OTHERS:
            raise usage(f"{path} can be read or written by other users; run: chmod 600 {path}")
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise usage(f"{path} cannot be read: {error}; mend or delete it") from error
    items = document.get(CONTEXTS, {})
    current = document.get(CURRENT, "")
    if not isinstance(items, dict) or not isinstance(current, str):
        raise usage(f"{path}: '{CONTEXTS}' has to be a table and '{CURRENT}' a text; mend or delete the file")
    return Contexts(path, current, {name: _context(path, name, members) for name, members in items.items()})


def check_context_name(name: str) -> None:
    """Raise :class:`Failure` (usage) for a name that is empty, long, or not printable."""
    if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise usage(f"context name {name!r}: give 1 to {NAME_CHARACTERS_MAX} printable characters")


def read_password_file(path: str) -> str:
    """Return the first line of a file. Raises :class:`Failure` (usage)."""
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise usage(f"password file {path!r} cannot be read: {error}") from error
    if not lines or not lines[0]:
        raise usage(f"password file {path!r} has no first line; write the password there")
    return lines[0]


def _context(path: Path, name: str, members: Any) -> Context:
    known = {each.name for each in fields(Context)}
    if not isinstance(members, dict) or not members.keys() <= known or "url" not in members:
        raise _wrong(path, name, f"needs 'url', and may have {', '.join(sorted(known - {'url'}))}")
    if not all(isinstance(value, str) for value in members.values()):
        raise _wrong(path, name, "has only texts as values")
    return Context(**members)


def _wrong(path: Path, name: str, text: str) -> Failure:
    return usage(f"{path}: context {printable(name)!r} {text}; mend it, or: annulet context remove NAME")


def _quoted(text: str) -> str:
    r"""Return a TOML basic string; TOML knows ``\uXXXX`` for all controls."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped) + '"'
