"""What the package says of itself: licence, authors, types."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the text at https://www.apache.org/licenses/LICENSE-2.0.txt."""


def test_the_licence_is_that_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_0


def test_the_metadata_is_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert project["authors"] == [{"name": "The Annulet developers"}]
    assert "Typing :: Typed" in project["classifiers"]
    assert not [name for name in project["classifiers"] if name.startswith("License ::")], "PEP 639 has the expression"


def test_every_package_of_the_wheel_is_marked_as_typed() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in document["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (ROOT / package / "py.typed").read_bytes() == b"", package
