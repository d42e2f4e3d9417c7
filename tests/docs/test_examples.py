"""The examples of the documentation work: Python blocks marked ``<!-- test: broker -->`` run against a real broker.

They run as pasted: nothing is defined for them, only the default addresses are replaced by the broker's. A block that
is followed by a ``text`` block must print exactly that. ``<!-- test: broker with PACKAGE -->`` runs with the system's
Python where the Debian package is installed.

All Python blocks of a page, one after the other, use no name that none of them defines.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from annulet.broker.settings.configuration import load
from tests.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = re.compile(
    r"<!-- test: broker(?: with (?P<package>[\w-]+))? -->\s*"
    r"```python\n(?P<code>.*?)```(?:\s*```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
PYTHON = re.compile(r"```python\n(?P<code>.*?)```", re.DOTALL)
DEBIAN_PYTHON = "/usr/bin/python3"
DEBIAN_MODULES = Path("/usr/lib/python3/dist-packages")
MODULES = {"python3-amqplib": "amqplib", "python3-qpid-proton": "proton"}
"""What a Debian package brings, by its name."""


class Example(NamedTuple):
    """One block: where it is, what it does, what it prints, which Debian package it needs."""

    place: str
    code: str
    output: str | None
    package: str | None


def examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text()
        for match in EXAMPLE.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            yield Example(f"{page.relative_to(ROOT)}:{line}", match["code"], match["output"], match["package"])


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("examples") / "data") as process:
        yield process


def parameters() -> Iterator[Any]:
    for example in examples():
        yield pytest.param(example, id=example.place, marks=[pytest.mark.debian] if example.package else [])


@pytest.mark.parametrize("example", list(parameters()))
def test_example(process: BrokerProcess, example: Example, tmp_path: Path) -> None:
    if example.package is not None and not (DEBIAN_MODULES / MODULES[example.package]).is_dir():
        pytest.skip(f"{example.package} is not installed")
    python = sys.executable if example.package is None else DEBIAN_PYTHON
    code = example.code.replace("127.0.0.1:5672", f"127.0.0.1:{process.amqp_port}")
    code = code.replace("127.0.0.1:8161", f"127.0.0.1:{process.http_port}")
    code = code.replace("127.0.0.1:61613", f"127.0.0.1:{process.stomp_port}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{example.place}\n{result.stderr}"
    if example.output is not None:
        assert result.stdout == example.output, example.place


GIVEN = {"spark"}
"""What PySpark's shell and notebooks define."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_use_no_name_that_none_of_their_page_defines(page: Path) -> None:
    text = page.read_text()
    assert re.search(r"^```[a-z]+[^a-z\n]", text, re.MULTILINE) is None, "code in the line that begins a block"
    defined = {*dir(builtins), *GIVEN}
    for match in PYTHON.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        tree = ast.parse("\n" * line + match["code"], filename=page.name)  # a syntax error names page and line
        defined |= names(tree, ast.Store)
        unknown = names(tree, ast.Load) - defined
        assert not unknown, (
            f"{page.relative_to(ROOT)}:{line + 1}: a reader who pastes this has no {', '.join(sorted(unknown))}"
        )


GIVING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
"""Nodes that give a name beside assignments, imports and arguments."""


def names(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Return the names a block uses, or those it gives: by assignment, import, definition or argument."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            found.add(node.id)
        elif context is ast.Store and isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif context is ast.Store and isinstance(node, GIVING) and node.name:
            found.add(node.name)
        elif context is ast.Store and isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def test_the_check_of_names_finds_what_is_missing() -> None:
    tree = ast.parse("import a.b\ndef f(c): return c\nfor d in f(a): print(d, missing)\n")
    assert names(tree, ast.Load) - names(tree, ast.Store) - set(dir(builtins)) == {"missing"}


CONFIGURATION = re.compile(r"```toml\n(?P<text>.*?)```", re.DOTALL)
OTHER_FILES = ("[pipeline]",)
"""What begins a file of another kind."""

LEFT_OUT = "$..."
"""Where a page shows the beginning of a hash only."""


def test_configuration_files_are_accepted_as_pasted(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    seen = 0
    for page in PAGES:
        for match in CONFIGURATION.finditer(page.read_text()):
            text = match["text"]
            if text.startswith(OTHER_FILES) or LEFT_OUT in text:
                continue
            file.write_text(text)
            load(file)  # the error names the setting
            seen += 1
    assert seen >= 4


def test_pages_that_show_a_client_have_an_example() -> None:
    assert any(example.place.startswith("docs/amqp-0-9-1.md:") for example in examples())
