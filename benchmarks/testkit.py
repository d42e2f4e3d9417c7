"""Measure the test kit: start of the first broker, of each next one, and 200 tests with a fresh broker each.

    .venv/bin/python -m benchmarks.testkit

The goals: ready within 150 ms, 5 ms between tests, 200 tests in at most 10 s. Each test declares a queue and publishes
a message with pika. Wall time stands beside processor time, which other programs disturb less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import annulet
from annulet.testing.session import BrokerSession

TESTS: Final = 200
ROUNDS: Final = 50

SUITE: Final = """
import pika
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_one(annulet, number):
    connection = pika.BlockingConnection(pika.URLParameters(annulet.amqp_url))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    annulet.require_published("q", count=1)
    connection.close()
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall and processor time in milliseconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - processor) * 1000


def line(name: str, goal: str, figures: list[tuple[float, float]]) -> str:
    """Return a line of the report: medians, and the slowest."""
    walls, processors = zip(*figures, strict=True)
    return (
        f"{name:42} {statistics.median(walls):8.1f} ms wall, {max(walls):8.1f} at most, "
        f"{statistics.median(processors):6.1f} ms processor time; goal {goal}"
    )


def between_tests() -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the times of first brokers, and those of replacing one by the next."""
    first, following = [], []
    for _ in range(5):
        made: list[BrokerSession] = []
        first.append(timed(lambda made=made: made.append(BrokerSession()) or made[0].start().stop()))  # type: ignore[misc]
        following += [timed(lambda made=made: made[0].start().stop()) for _ in range(ROUNDS)]  # type: ignore[misc]
        made[0].close()
    return first, following


def suite() -> tuple[float, float]:
    """Run the tests in a process of their own; returns its times in seconds, with the start of Python and pytest."""
    with tempfile.TemporaryDirectory(prefix="annulet-testkit-") as folder:
        (Path(folder) / "test_it.py").write_text(SUITE.format(tests=TESTS))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_annulet", "-p", "no:cacheprovider"]
        environment = {"PYTHONPATH": str(Path(annulet.__file__).parents[1])}
        before = os.times()
        subprocess.run([*command, "-p", "no:asyncio"], cwd=folder, env=environment, check=True, capture_output=True)
        after = os.times()
    processor = sum(after[2:4]) - sum(before[2:4])  # of child processes
    return after.elapsed - before.elapsed, processor


def main() -> None:
    """Print the report."""
    BrokerSession().close()  # imports
    first, following = between_tests()
    print(line("first broker, modules imported", "150", first))
    print(line("stop one broker and start the next", "5", following))
    wall, processor = suite()
    name = f"{TESTS} tests with a fresh broker each"
    print(f"{name:42} {wall:8.2f} s wall, {processor:6.2f} s processor time, start of Python included; goal 10")


if __name__ == "__main__":
    main()
