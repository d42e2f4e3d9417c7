"""The page of rooms repeats what the packages say of themselves."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "rooms.md").read_text()
CONTRACTS = [
    contract
    for contract in tomllib.loads((ROOT / "scripts" / "runtime_imports.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if contract["type"] == "layers"
]


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["id"])
def test_the_page_has_the_rooms_in_their_order_with_their_docstrings(contract):
    (package,) = contract["containers"]
    folder = ROOT / "src" / package.replace(".", "/")
    name = folder.relative_to(ROOT / "src" / "annulet").as_posix()
    section = re.search(rf"^## `{name}/`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/internals/rooms.md has no section on {name}/"
    expected = []
    for room in contract["layers"]:
        place = folder / room / "__init__.py"
        text = ast.get_docstring(ast.parse((place if place.is_file() else folder / f"{room}.py").read_text())) or ""
        expected.append((room, " ".join(text.split("\n\n")[0].split())))
    assert re.findall(r"^\| `(\w+)` \| ([^|]*) \|$", section[1], re.MULTILINE) == expected
