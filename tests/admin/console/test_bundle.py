"""The files of the console: their size, their imports, and rules that keep foreign text out of the markup."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
from pathlib import Path
from shutil import which
from typing import Final

import pytest

import annulet.admin

ASSETS: Final = Path(annulet.admin.__file__).parent / "console" / "assets"
BYTES_MAX: Final = 100 * 1024
"""Of all assets together, compressed: what the first view loads."""

UNSERVED: Final = {"LICENSES"}
FILES: Final = sorted(path for path in ASSETS.rglob("*") if path.is_file() and path.name not in UNSERVED)
OWN: Final = [path for path in FILES if path.suffix == ".js" and path.parent.name != "vendor"]
IMPORT: Final = re.compile(r"""(?:^|\s)(?:import|export)\s[^;]*?from\s+"([^"]+)";""")
NAMED: Final = re.compile(r"""import\s+\{([^}]+)\}\s+from\s+"(\.[^"]+)";""")
EXPORTED: Final = re.compile(r"export\s+(?:async\s+)?(?:const|function|class)\s+(\w+)|export\s+\{([^}]+)\}")


def test_all_assets_together_keep_their_bound() -> None:
    sizes = {path.relative_to(ASSETS).as_posix(): len(gzip.compress(path.read_bytes(), 9)) for path in FILES}
    assert sum(sizes.values()) <= BYTES_MAX, sizes


def test_vendored_files_are_those_of_the_packages() -> None:
    text = (ASSETS / "vendor" / "LICENSES").read_text()
    sums = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", text, re.MULTILINE)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (ASSETS / "vendor").glob("*.*")}
    assert sums == found
    assert all(re.search(rf"^{re.escape(name)} +@?[\w/-]+ \d", text, re.MULTILINE) for name in found)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_imports_lead_to_files_that_export_the_names(path: Path) -> None:
    text = path.read_text()
    mapped = dict(re.findall(r'"(\S+)": "/console/(\S+)"', (ASSETS / "index.html").read_text()))
    for target in IMPORT.findall(text):
        file = path.parent / target if target.startswith(".") else ASSETS / mapped[target]
        assert file.is_file(), f"{path.name} imports {target}"
    for names, target in NAMED.findall(text):
        other = (path.parent / target).read_text()
        exported = {name for pair in EXPORTED.findall(other) for part in pair for name in re.findall(r"\w+", part)}
        wanted = {name.split(" as ")[0].strip() for name in names.split(",") if name.strip()}
        assert wanted <= exported, f"{path.name} imports {sorted(wanted - exported)} from {target}"


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_names_that_a_file_imports_are_used(path: Path) -> None:
    text = path.read_text()
    for names, target in re.findall(r"""import\s+\{([^}]+)\}\s+from\s+"([^"]+)";""", text):
        rest = text.replace(f"{{{names}}}", "")
        for name in filter(None, (one.strip() for one in names.split(","))):
            assert re.search(rf"\b{name}\b", rest), f"{path.name} does not use {name} of {target}"


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_text_becomes_markup_or_code(path: Path) -> None:
    text = path.read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"):
        assert way not in text, f"{path.name} uses {way}"
    assert not re.search(r"""style=(?!\$\{\{)""", text), "a style attribute; the content security policy refuses it"


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    text = (ASSETS / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)[^>]*>", text) == ['<script type="importmap">']
    assert "<style" not in text
    assert not re.search(r"\son\w+=", text)
    assert not re.search(r"(?:src|href)=\"(?!/console/)", text)


@pytest.mark.skipif(which("node") is None, reason="needs node, to read the syntax of the modules")
def test_the_modules_have_no_errors_of_syntax() -> None:
    for path in OWN:
        done = subprocess.run(
            ["node", "--input-type=module", "--check", "-"],
            input=path.read_text(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{path.name}: {done.stderr}"
