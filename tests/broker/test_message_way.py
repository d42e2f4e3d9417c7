"""A message's way touches few files: each is a place to know for a reader, and a call for the processor.

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


@pytest.fixture(scope="module")
def traced() -> dict[str, dict[str, int]]:
    environment = os.environ | {"ANNULET_PURE": "1"}  # compiled functions cannot be traced
    command = [sys.executable, "-m", "tests.broker.message_way"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, dict[str, int]] = json.loads(run.stdout)
    return figures


def test_each_step_touches_few_files(traced: dict[str, dict[str, int]]) -> None:
    assert traced.keys() == FILES_MAX.keys()
    assert {step: figures["files"] for step, figures in traced.items() if figures["files"] > FILES_MAX[step]} == {}
    assert min(figures["files"] for figures in traced.values()) > 1, "nothing was traced"


def test_a_pager_pass_with_nothing_to_do_calls_few_other_rooms(traced: dict[str, dict[str, int]]) -> None:
    for step, most in MOVES_MAX.items():
        assert 0 < traced[step]["moves"] <= most
