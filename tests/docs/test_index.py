"""The pages can be found, and what they point to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
AT_THE_ROOT = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in AT_THE_ROOT)])
LINK = re.compile(r"\[[^\]]*\]\((?!https?://|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[tuple[str, str | None]]:
    for match in LINK.finditer(CODE.sub("", page.read_text())):
        yield match["path"], match["anchor"]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("index", sorted(DOCS.rglob("index.md")), ids=lambda index: index.parent.name)
def test_an_index_lists_every_page_once(index: Path) -> None:
    folder = index.parent
    others = [other.parent for other in DOCS.rglob("index.md") if folder in other.parent.parents]
    pages = [page for page in folder.rglob("*.md") if page != index and page.parent not in others]
    pages += [other / "index.md" for other in others]
    listed = [path for path, _ in links(index) if path and not path.startswith("..")]
    assert sorted(listed) == sorted(str(page.relative_to(folder)) for page in pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.name}: ({path}#{anchor})" if anchor else f"{page.name}: ({path})")
    assert broken == []


def test_the_readme_is_the_same_outside_the_repository() -> None:
    assert list(links(ROOT / "README.md")) == [], (
        "a package index has no docs folder: name the page, or link absolutely"
    )


def test_every_page_has_one_title() -> None:
    for page in PAGES:
        text = CODE.sub("", page.read_text())
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page.name
