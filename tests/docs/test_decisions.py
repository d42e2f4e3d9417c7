"""Pages of decisions have one form, so that a reader finds the rejected alternatives at the same place in each."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parent.parent.parent / "docs" / "decisions"
PAGES = sorted(page for page in DECISIONS.glob("*.md") if page.name != "index.md")
SECTIONS = ["Context", "Decision", "Rejected"]
BYTES_MAX = 4096


def test_numbers_follow_each_other() -> None:
    assert [page.name[:5] for page in PAGES] == [f"{number:04}-" for number in range(1, len(PAGES) + 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_form_of_a_decision(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {int(page.name[:4])}. ")
    dated = re.search(r"^Date: (\S+)$", text, re.MULTILINE)
    assert dated, "a decision has a date"
    date.fromisoformat(dated[1])
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[:3] == SECTIONS
    assert len(text.encode()) <= BYTES_MAX, "a decision is one short page"


def test_the_index_shows_the_titles_of_the_pages() -> None:
    index = (DECISIONS / "index.md").read_text()
    for page in PAGES:
        title = page.read_text().partition("\n")[0].removeprefix("# ")
        assert f"[{title}]({page.name})" in index
