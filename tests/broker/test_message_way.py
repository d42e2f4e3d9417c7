"""A message's way touches few files and makes few calls: each is a place to know for a reader, and work.

Before the rooms it was 23 files for a publish over AMQP 0-9-1, 31 for one that is handed over and 21 for an
acknowledgement (over AMQP 1.0: 31, 41 and 29), and a pass of the pager with nothing to do made 15 calls of other rooms.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from annulet import _build

ROOT = Path(__file__).parents[2]
FILES_MAX = {
    "publish": 18,
    "hand-over": 25,
    "acknowledgement": 17,
    "1.0 publish": 30,
    "1.0 hand-over": 41,
    "1.0 acceptance": 28,
    "idle pager pass": 4,
}
MOVES_MAX = {"idle pager pass": 3}
CALLS_MAX = {
    "publish": 42,
    "hand-over": 66,
    "acknowledgement": 42,
    "1.0 publish": 119,
    "1.0 hand-over": 166,
    "1.0 acceptance": 88,
    "idle pager pass": 6,
}
INTERPRETED_MAX = {
    "publish": 5,
    "hand-over": 5,
    "acknowledgement": 4,
    "1.0 publish": 9,
    "1.0 hand-over": 9,
    "1.0 acceptance": 7,
    "idle pager pass": 5,
}
"""Calls in the compiled build of functions that are not compiled. A late turn makes one or two more."""


def trace(pure: str) -> dict[str, dict[str, int]]:
    """Trace in a process of its own, as modules are compiled or pure for all of it."""
    environment = os.environ | {"ANNULET_PURE": pure}
    command = [sys.executable, "-m", "tests.broker.message_way"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, dict[str, int]] = json.loads(run.stdout)
    return figures


@pytest.fixture(scope="module")
def traced() -> dict[str, dict[str, int]]:
    return trace("1")


def test_each_step_touches_few_files(traced: dict[str, dict[str, int]]) -> None:
    assert traced.keys() == FILES_MAX.keys()
    assert {step: figures["files"] for step, figures in traced.items() if figures["files"] > FILES_MAX[step]} == {}
    assert min(figures["files"] for figures in traced.values()) > 1, "nothing was traced"


def test_a_pager_pass_with_nothing_to_do_calls_few_other_rooms(traced: dict[str, dict[str, int]]) -> None:
    for step, most in MOVES_MAX.items():
        assert 0 < traced[step]["moves"] <= most


def test_each_step_makes_few_calls(traced: dict[str, dict[str, int]]) -> None:
    """The pure build costs what its calls cost."""
    assert traced.keys() == CALLS_MAX.keys()
    assert {step: figures["calls"] for step, figures in traced.items() if figures["calls"] > CALLS_MAX[step]} == {}


@pytest.mark.skipif(not _build.usable(), reason="nothing is compiled; make setup with a C compiler")
def test_compiled_steps_leave_few_calls_to_the_interpreter() -> None:
    traced = trace("0")
    assert {
        step: figures["calls"] for step, figures in traced.items() if figures["calls"] > INTERPRETED_MAX[step]
    } == {}
    assert traced["publish"]["calls"] < CALLS_MAX["publish"] / 2, "compiled modules were not used"
