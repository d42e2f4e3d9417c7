"""The examples of the documentation work: Python blocks marked ``<!-- test: broker -->`` run against a real broker.

``amqp_url`` and ``http_url`` are given; the default addresses written out in a block are replaced by the broker's. A
block that is followed by a ``text`` block must print exactly that. ``<!-- test: broker with PACKAGE -->`` runs with the
system's Python where the Debian package is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = re.compile(
    r"<!-- test: broker(?: with (?P<package>[\w-]+))? -->\s*"
    r"```python\n(?P<code>.*?)```(?:\s*```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
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
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text()
        for match in EXAMPLE.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            yield Example(f"docs/{page.name}:{line}", match["code"], match["output"], match["package"])


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
    code = f"amqp_url = {process.amqp_url!r}\nhttp_url = {process.http_url!r}\n{code}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{example.place}\n{result.stderr}"
    if example.output is not None:
        assert result.stdout == example.output, example.place


def test_pages_that_show_a_client_have_an_example() -> None:
    assert any(example.place.startswith("docs/amqp-0-9-1.md:") for example in examples())
