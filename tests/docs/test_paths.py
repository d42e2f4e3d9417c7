"""Paths that pages for contributors name are there: a module that moves takes its mentions along."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", DOCS / "glossary.md",
    *sorted(DOCS.glob("internals/*.md")), *sorted(DOCS.glob("decisions/*.md")),
]  # fmt: skip
NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+(?:\.py|\.md|\.toml|/))`")


def paths(page: Path) -> set[str]:
    """Return the files and folders that a page names in code style."""
    return set(NAMED.findall(page.read_text()))


def test_the_expression_finds_files_and_folders() -> None:
    found = NAMED.findall("`core/x.py`, `docs/`, `_build.py`, `Queue.enqueue`, `wire/NAME/`, `/metrics`")
    assert found == ["core/x.py", "docs/", "_build.py", "wire/NAME/"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_paths_exist(page: Path) -> None:
    named = {path for path in paths(page) if "NAME" not in path}
    absent = {path for path in named if not (ROOT / path).exists() and not (ROOT / "src" / "annulet" / path).exists()}
    assert absent == set(), f"{page.relative_to(ROOT)} names what is not there"
