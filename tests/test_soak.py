"""``make soak``: every part runs whatever became of the others, and the report says what failed with which seed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "soak"

INTERPRETER = """#!/bin/sh
echo "$HYPOTHESIS_PROFILE $*" >>"$CALLS"
case "$*" in
    *tests/crash*) printf "ANNULET_TEST_SEED=4711\\nFAILED tests/crash/test_kill.py\\n1 failed in 3.0s\\n"; exit 1 ;;
    *tests/wire*) echo "no tests ran"; exit 5 ;;
    *) echo "2 passed in 1.0s" ;;
esac
"""


def soak(folder: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """Run it with an interpreter of which only crash tests fail, and wire tests are none."""
    interpreter = folder / "python"
    interpreter.write_text(INTERPRETER)
    interpreter.chmod(0o755)
    environment = {**os.environ, "SOAK_PYTHON": str(interpreter), "SOAK_REPORT": str(folder / "report")}
    environment |= {"CALLS": str(folder / "calls"), "DEEP": "--count 20000", "PYTEST": "-k ring"}
    environment.pop("HYPOTHESIS_PROFILE", None)
    return subprocess.run(["/bin/sh", SCRIPT, *parts], env=environment, capture_output=True, text=True, check=False)


def test_a_part_that_fails_keeps_no_other_from_running(tmp_path: Path) -> None:
    result = soak(tmp_path, "crash", "wire", "deep")
    assert result.returncode == 1
    assert result.stderr == "soak: failed: crash\n"
    assert "part 1 of 3: crash" in result.stdout
    assert "crash FAILED in 0 min: 1 failed in 3.0s" in result.stdout or "crash FAILED in 1 min" in result.stdout
    report = (tmp_path / "report" / "report.md").read_text()
    assert [line.split("|")[1:3] for line in report.splitlines() if line.startswith("| ")][2:] == [
        [" crash ", " FAILED "], [" wire ", " passed "], [" deep ", " passed "],
    ]  # fmt: skip
    assert "ANNULET_TEST_SEED=4711" in report
    calls = (tmp_path / "calls").read_text().splitlines()
    assert all(
        call.startswith("soak -m pytest -m soak or hypothesis ") and call.endswith("-k ring") for call in calls[:2]
    )
    assert calls[2].endswith("-m benchmarks.deep --strict --count 20000")


def test_make_soak_runs_it() -> None:
    planned = subprocess.run(["make", "--dry-run", "soak"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "sh scripts/soak" in planned


def test_the_parts_are_named_and_together_they_are_all_tests(tmp_path: Path) -> None:
    listed = dict(line.split(": ", 1) for line in soak(tmp_path, "--list").stdout.splitlines())
    named = [folder for part, text in listed.items() if part not in ("rest", "deep") for folder in text.split()]
    assert all((ROOT / folder).is_dir() for folder in named)
    assert len(set(named)) == len(named)
    assert listed["rest"].split() == ["tests", *(f"--ignore={folder}" for folder in named)]
    result = soak(tmp_path, "sparc")
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is no part sparc" in result.stderr
