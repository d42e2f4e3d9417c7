"""A broker that is killed while it publishes a staged batch has shown nothing of it, unless all of it is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from annulet.core.queue.invariants import check_invariants
from tests.bulk.commit_stops import committing, staged
from tests.bulk.helpers import bench
from tests.crash.dying_commit import BEFORE_DURABLE, BETWEEN_TURNS, COMMITTED

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = 400


@pytest.mark.parametrize("point", [BETWEEN_TURNS, BEFORE_DURABLE, COMMITTED])
async def test_a_kill_in_the_middle_of_a_commit(tmp_path: Path, point: str) -> None:
    data = tmp_path / "data"
    source = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ended = subprocess.run(  # noqa: ASYNC221 - nothing else is to be done meanwhile
        [sys.executable, "-m", "tests.crash.dying_commit", str(data), point, str(ROWS)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": source}, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL
    received = data.with_name("data.received").read_bytes().split()
    bodies = [b"%06d" % number for number in range(ROWS)]
    async with bench(data) as here:
        kept = here.host.queues["kept"]
        check_invariants(kept)
        if point == COMMITTED:
            assert here.bodies("kept") == bodies
            assert received == bodies[: len(received)]
            return
        assert received == []
        assert here.bodies("kept") == here.bodies("consumed") == []
        again = staged(here, {"consumed": bodies, "kept": bodies})
        assert await committing(here, again) == {"messages": 2 * ROWS, "unroutable": 0, "repeated": 0}
        assert here.bodies("kept") == here.bodies("consumed") == bodies
