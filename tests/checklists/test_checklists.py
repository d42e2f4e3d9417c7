"""Each checklist of CONTRIBUTING.md was followed once: the throw-away example is a patch, and it works.

The patch is applied to a copy of the sources. A program in a process of its own then uses the addition.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checklists.checklist import (
    HERE,
    PACKAGE,
    ROOT,
    Checklist,
    apply_patch,
    checklists,
    copy_sources,
    is_named,
)

CHECKLISTS = checklists((ROOT / "CONTRIBUTING.md").read_text())
EXAMPLE_SECONDS = 240
"""An example takes one or two on an idle machine, one that starts Spark six; the suite's parts share its cores."""

pytestmark = pytest.mark.timeout(EXAMPLE_SECONDS + 60)

EXAMPLES = [
    pytest.param(each, marks=pytest.mark.spark if each.name.startswith("spark") else (), id=each.name)
    for each in CHECKLISTS
]


def run_example(checklist: Checklist, sources: Path) -> subprocess.CompletedProcess[str]:
    """Run the program of a checklist with these sources."""
    environment = {**os.environ, "PYTHONPATH": str(sources), "ANNULET_PURE": "1"}
    command = [sys.executable, "-P", str(checklist.example)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=EXAMPLE_SECONDS, check=False
    )


def test_there_is_an_example_for_each_checklist_and_no_other() -> None:
    assert len(CHECKLISTS) == 8
    names = sorted(checklist.name for checklist in CHECKLISTS)
    assert sorted(path.stem for path in HERE.glob("*.patch")) == names
    assert sorted(path.stem for path in (HERE / "examples").glob("*.py")) == names


@pytest.mark.parametrize("checklist", CHECKLISTS, ids=lambda checklist: checklist.name)
def test_each_named_file_exists(checklist: Checklist) -> None:
    for name in sorted(checklist.named | checklist.models):
        path = name.partition("NAME")[0]
        assert (ROOT / path).exists(), f"CONTRIBUTING.md, {checklist.title!r}: there is no {name}; name today's file"


@pytest.mark.parametrize("checklist", CHECKLISTS, ids=lambda checklist: checklist.name)
def test_the_example_changes_the_named_sources(checklist: Checklist) -> None:
    changed = checklist.changed()
    expected = [{name} for name in sorted(checklist.always) if name.startswith(PACKAGE)] + checklist.choices
    for path in sorted(changed):
        assert is_named(path, checklist.named), (
            f"the example of {checklist.title!r} needs {path}; the checklist does not name it"
        )
    for names in expected:
        assert any(is_named(path, names) for path in changed), (
            f"the example of {checklist.title!r} does without {', '.join(sorted(names))}; begin the item with its "
            "condition, or drop it"
        )


@pytest.mark.parametrize("checklist", EXAMPLES)
def test_the_example_works(checklist: Checklist, tmp_path: Path) -> None:
    sources = copy_sources(tmp_path)
    apply_patch(checklist, tmp_path)
    done = run_example(checklist, sources)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checklist", EXAMPLES)
def test_the_example_fails_without_the_addition(checklist: Checklist) -> None:
    assert run_example(checklist, ROOT / "src").returncode != 0


RETENTION = next(checklist for checklist in CHECKLISTS if checklist.name.startswith("retention"))
RETENTION_FILES_MAX = 8


def test_a_retention_policy_takes_few_source_files() -> None:
    assert len(RETENTION.changed()) <= RETENTION_FILES_MAX


@pytest.mark.parametrize("forgotten", sorted(RETENTION.changed()), ids=lambda path: Path(path).stem)
def test_forgetting_a_file_of_a_retention_policy_is_an_error_that_names_it(forgotten: str, tmp_path: Path) -> None:
    sources = copy_sources(tmp_path)
    apply_patch(RETENTION, tmp_path, leave_out=forgotten)
    done = run_example(RETENTION, sources)
    place = forgotten.removeprefix(f"{PACKAGE}/")
    module = place.removesuffix(".py").replace("/", ".")
    error = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert "Error" in error
    assert place in error or module in error, error
