"""Tests that are written in JavaScript: they run with Node's own runner against a broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NODE = Path(__file__).resolve().parent.parent / "node"

SECONDS = 100.0
"""How long one file may take."""


def needs(package: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a module whose JavaScript imports an npm package."""
    return [
        pytest.mark.node,
        pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
        pytest.mark.skipif(not (NODE / "node_modules" / package).is_dir(), reason="npm ci was not run in tests/node"),
    ]


def run_file(name: str, environment: dict[str, str], *, may_skip: bool = False) -> None:
    """Run a file of tests/node; expect that each test in it passed or, with ``may_skip``, was skipped."""
    path = NODE / name
    written = len(re.findall(r"^test\(", path.read_text(), re.MULTILINE))
    result = subprocess.run(
        ["node", "--test", "--test-reporter=tap", str(path)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    report = result.stdout + result.stderr
    assert result.returncode == 0, report
    passed = sum(int(count) for count in re.findall(r"^# (?:pass|skipped) (\d+)$", report, re.MULTILINE))
    assert passed == written, report
    assert may_skip or "# skipped 0" in report, report
