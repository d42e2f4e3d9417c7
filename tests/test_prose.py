"""Plain technical English: a sentence has a subject that names a thing, in docstrings, comments and documents.

``What is left waits``, ``whoever publishes`` and ``nobody reads it`` make readers look for the thing that is meant.
They are rare in every room and on every group of pages: at most one sentence in 200, or one where there are fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from scripts.prose import indirect, prose_of_module, prose_of_page, sentences

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "annulet"
ROOMS: Final = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists())
PAGES: Final = ["docs", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").iterdir() if path.is_dir())]
ROOT_PAGES: Final = sorted(path.name for path in ROOT.glob("*.md"))

SENTENCES_FOR_EACH: Final = 200  # sentences to a room, or a group of pages, for each indirect one that it may have


def assert_plain(texts: Iterator[tuple[Path, str]]) -> None:
    """Fail with the indirect sentences of these texts when they are more than allowed."""
    count = 0
    found: list[str] = []
    for path, text in texts:
        for sentence in sentences(text):
            count += 1
            if indirect(sentence):
                found.append(f"{path.relative_to(ROOT)}: {sentence}")
    allowed = max(1, count // SENTENCES_FOR_EACH)
    assert len(found) <= allowed, "\n".join(
        [f"{len(found)} of {count} sentences, at most {allowed}; name the subject, and what it does to what:", *found]
    )


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_comments_of_a_room_name_their_subjects(room: str) -> None:
    paths = sorted((SOURCE / room).rglob("*.py"))
    assert_plain((path, text) for path in paths for text in prose_of_module(path.read_text()))


def test_docstrings_and_comments_beside_the_rooms_name_their_subjects() -> None:
    paths = sorted(SOURCE.glob("*.py"))
    assert_plain((path, text) for path in paths for text in prose_of_module(path.read_text()))


@pytest.mark.parametrize("folder", PAGES)
def test_pages_of_a_folder_name_their_subjects(folder: str) -> None:
    assert_plain((path, prose_of_page(path.read_text())) for path in sorted((ROOT / folder).glob("*.md")))


@pytest.mark.parametrize("name", ROOT_PAGES)
def test_a_page_at_the_root_names_its_subjects(name: str) -> None:
    path = ROOT / name
    assert_plain(iter([(path, prose_of_page(path.read_text()))]))


@pytest.mark.parametrize(
    "sentence",
    [
        "What came back goes first.",
        "Who publishes is told of it.",
        "The queue is read by nobody else.",
        "It removes what is left in the queue.",
    ],
)
def test_an_indirect_sentence_is_found(sentence: str) -> None:
    assert indirect(sentence)
    assert list(sentences(f"One message is kept. {sentence}")) == ["One message is kept.", sentence]


@pytest.mark.parametrize(
    "sentence",
    ["Returned messages go first.", "The page tells what happens at a limit.", "A client that publishes is told."],
)
def test_a_sentence_with_its_subject_is_not(sentence: str) -> None:
    assert not indirect(sentence)


def test_literals_code_and_headings_do_not_count() -> None:
    page = "# Who may read it, and when\n\nThe value `what is left` ends it.\n\n```python\nwho = what_is_it(1)\n```\n"
    assert [sentence for sentence in sentences(prose_of_page(page)) if indirect(sentence)] == []


def test_docstrings_and_comments_of_a_module_are_read() -> None:
    source = (
        '"""Text of the module."""\nLIMIT = 1\n"""Text of the limit."""\n# first line\n# second line\nx = 2  # end\n'
    )
    assert [text for text in prose_of_module(source) if text] == [
        "Text of the module.", "Text of the limit.", "first line second line", "end",
    ]  # fmt: skip


def test_more_indirect_sentences_than_allowed_fail() -> None:
    plain = "The queue keeps its messages. " * 150
    assert_plain(iter([(ROOT / "page.md", plain + "What came back goes first.")]))
    with pytest.raises(AssertionError, match=r"^2 of 152 sentences, at most 1;.*\n +page\.md: What"):
        assert_plain(iter([(ROOT / "page.md", plain + "What came back goes first. Who reads it is told.")]))
