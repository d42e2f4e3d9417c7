"""D32: what is handed out has its licence, its types and its metadata, and the repository holds what belongs there."""

from __future__ import annotations

import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests import test_tidy

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel that users install."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(built)


def part_of_metadata(wheel: zipfile.ZipFile, name: str) -> str:
    """Return the path of a file of the wheel's own folder."""
    (path,) = [
        path for path in wheel.namelist() if path.split("/", 1)[0].endswith(".dist-info") and path.endswith(name)
    ]
    return path


def test_the_licence_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """D32: there was none."""
    assert wheel.read(part_of_metadata(wheel, "licenses/LICENSE")) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("package", ["annulet", "pyspark_annulet", "pytest_annulet"])
def test_type_checkers_read_the_packages(wheel: zipfile.ZipFile, package: str) -> None:
    """D32: without the mark of PEP 561 they take everything for Any."""
    assert f"{package}/py.typed" in wheel.namelist()


def test_the_metadata_is_complete(wheel: zipfile.ZipFile) -> None:
    """D32: what a package index shows."""
    metadata = Parser().parsestr(wheel.read(part_of_metadata(wheel, "METADATA")).decode())
    assert (metadata["Name"], metadata["License-Expression"], metadata["License-File"]) == (
        "annulet", "Apache-2.0", "LICENSE",
    )  # fmt: skip
    for field in ("Summary", "Author", "Keywords", "Requires-Python", "Classifier", "Description-Content-Type"):
        assert metadata[field], field
    assert metadata.get_payload(), "the description"


def test_nothing_else_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """D32: a folder ``archive`` lay in the root, as a run of a test had left it."""
    places = {path.split("/", 1)[0] for path in wheel.namelist()}
    assert {place for place in places if not place.endswith(".dist-info")} == {
        "annulet", "pyspark_annulet", "pytest_annulet",
    }  # fmt: skip


def test_the_house_rule_finds_a_stray_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """D32: the rule that keeps it out."""
    files = [*test_tidy.repository_files(), ROOT / "archive" / "part-0.parquet"]
    monkeypatch.setattr(test_tidy, "repository_files", lambda: files)
    with pytest.raises(AssertionError, match="delete these entries"):
        test_tidy.test_the_root_holds_only_what_belongs_there()
