"""The profiles, each in a run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = """
from hypothesis import settings
from tests.hypothesis_profiles import load_profile, state_machine_settings
load_profile()
machine = state_machine_settings(examples=300, steps=50)
print(settings.get_current_profile_name(), settings().max_examples, settings().derandomize, settings().print_blob)
print(machine.max_examples, machine.stateful_step_count, machine.derandomize, machine.deadline)
"""


def run(profile: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HYPOTHESIS_PROFILE": profile}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("profile", "lines"),
    [
        ("", ["test 25 True True", "300 50 True None"]),
        ("test", ["test 25 True True", "300 50 True None"]),
        ("again", ["again 8 True True", "100 50 True None"]),
        ("soak", ["soak 2000 False True", "2000 50 False None"]),
    ],
)
def test_a_profile_decides_examples_and_chance(profile: str, lines: list[str]) -> None:
    assert run(profile).stdout.splitlines() == lines


def test_an_unknown_profile_ends_the_run() -> None:
    finished = run("sok")
    assert finished.returncode != 0
    assert "'sok'" in finished.stderr
