"""Reads the checklists of CONTRIBUTING.md: which files each names, and how an example that follows one changes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
PACKAGE = "src/annulet"
CONDITION = "If "
"""An item that begins with it applies to some additions only."""
CHOICE = "One of "
"""An item that begins with it names several files; an addition changes at least one of them."""

_TITLE = re.compile(r"(?:An?|The) (.*)")
_MODEL = re.compile(r"\b(?:as|through) `([^`]+)`")
_FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml)|(?:[\w.-]+/)+)`")
_CHANGED = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Checklist:
    """One checklist. Paths are relative to the root; a path that ends with a slash stands for new files below it."""

    title: str
    always: set[str] = field(default_factory=set)
    sometimes: set[str] = field(default_factory=set)  # of items that begin with a condition
    choices: list[set[str]] = field(default_factory=list)  # of each item that begins with a choice
    models: set[str] = field(default_factory=set)  # named to be imitated or used

    @property
    def name(self) -> str:
        """The name of its example: the title without article, as the name of a file."""
        found = _TITLE.fullmatch(self.title)
        assert found, f"checklist {self.title!r}: begin the title with an article"
        return re.sub(r"\W+", "_", found[1]).lower()

    @property
    def patch(self) -> Path:
        """The throw-away example: a difference in the unified form."""
        return HERE / f"{self.name}.patch"

    @property
    def example(self) -> Path:
        """A program that succeeds with the patched sources only."""
        return HERE / "examples" / f"{self.name}.py"

    @property
    def named(self) -> set[str]:
        """Every file that an addition may change."""
        return self.always.union(self.sometimes, *self.choices)

    def changed(self) -> set[str]:
        """Return the files that the patch changes or adds."""
        return set(_CHANGED.findall(self.patch.read_text()))


def path_of(name: str) -> str:
    """Return a name of a checklist as a path below the root: those without a folder of the root are of the package."""
    first = name.partition("/")[0]
    if "/" in name and first in {"src", "docs", "tests", "scripts", "benchmarks"}:
        return name
    if (ROOT / PACKAGE / name.replace("NAME", "")).exists() or not (ROOT / name).exists():
        return f"{PACKAGE}/{name}"
    return name


def checklists(text: str) -> list[Checklist]:
    """Return the checklists of the text of CONTRIBUTING.md."""
    found: list[Checklist] = []
    _, _, section = text.partition("\n## Checklists\n")
    for part in re.split(r"^### ", section, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        checklist = Checklist(title.strip())
        for item in re.findall(r"^- \[ \] (.*(?:\n +.*)*)", body, re.MULTILINE):
            text = " ".join(item.split())
            checklist.models.update(path_of(name) for name in _MODEL.findall(text))
            names = {path_of(name) for name in _FILE.findall(_MODEL.sub("", text))}
            if text.startswith(CHOICE):
                checklist.choices.append(names)
            else:
                (checklist.sometimes if text.startswith(CONDITION) else checklist.always).update(names)
        found.append(checklist)
    return found


def is_named(path: str, names: set[str]) -> bool:
    """Return whether a changed file is one of the named ones; ``NAME`` in a name stands for any word."""
    patterns = [re.escape(name).replace("NAME", r"\w+") + (".+" if name.endswith("/") else "") for name in names]
    return any(re.fullmatch(pattern, path) for pattern in patterns)


def copy_sources(target: Path) -> Path:
    """Copy the package into ``target``, with its byte code: times of files stay, so it is not compiled again."""
    shutil.copytree(ROOT / PACKAGE, target / PACKAGE)
    return target / "src"


def apply_patch(checklist: Checklist, target: Path, *, leave_out: str = "") -> None:
    """Apply the patch to the copied sources, but for one file. Lines may have moved; their text may not be another."""
    command = ["git", "apply", "-C1", "--whitespace=nowarn", str(checklist.patch)]
    if leave_out:
        command.insert(2, f"--exclude={leave_out}")
    # in a folder of a repository git would apply the parts of that folder only
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(target.parent)}
    done = subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"{checklist.patch.name} does not fit the sources any more: {done.stderr}\nFollow the checklist "
        f"{checklist.title!r} of CONTRIBUTING.md again, mend it where it is wrong, and save the outcome: "
        f"git diff -U1 -- src > {checklist.patch.relative_to(ROOT)}"
    )
