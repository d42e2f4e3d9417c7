"""Driver, broker and workers killed at random moments, again and again, while messages come: each arrives once."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.test_deaths import DRIVER, URL, Supervisor, same, supervised

if TYPE_CHECKING:
    import random

SECONDS = float(os.environ.get("ANNULET_KILL_SECONDS", "600"))
"""How long the killing goes on; ten minutes are what the soak suite promises."""

BETWEEN_SECONDS = 15.0
"""From one kill to the next, on average: a driver needs some ten to come to its first batch."""

MESSAGES_MAX = 300
"""Published after a kill, at most: two batches."""

ARRIVAL_SECONDS = 300.0
VICTIMS = ("driver", "broker", "worker", "driver and broker")


def kill(supervisor: Supervisor, victim: str, moments: random.Random) -> bool:
    """Kill with SIGKILL. Returns whether there was somebody."""
    if victim == "worker":
        workers = supervisor.workers()
        if workers:
            try:
                os.kill(moments.choice(workers), signal.SIGKILL)
            except ProcessLookupError:  # ended meanwhile
                return False
        return bool(workers)
    if "driver" in victim:
        supervisor.kill()
    if "broker" in victim:
        supervisor.world.broker.kill()
    return True


def look_after(supervisor: Supervisor, seconds: float) -> None:
    """Start again whatever has died, at least once, and go on for some time."""
    until = time.monotonic() + seconds
    supervisor.look_after()
    while time.monotonic() < until:
        time.sleep(0.05)
        supervisor.look_after()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(SECONDS + 3 * ARRIVAL_SECONDS)
def test_random_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, moments: random.Random) -> None:
    command = [str(DRIVER), URL, str(tmp_path / "checkpoint"), "persistent"]
    with supervised(tmp_path, command, []) as supervisor:
        world = supervisor.world
        killed: Counter[str] = Counter()
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            look_after(supervisor, moments.expovariate(1 / BETWEEN_SECONDS))
            world.publish(moments.randint(0, MESSAGES_MAX))
            victim = moments.choice(VICTIMS)
            killed[victim] += kill(supervisor, victim, moments)
        look_after(supervisor, 0.0)
        arriving = time.monotonic() + ARRIVAL_SECONDS
        while len(world.bodies("out")) < world.published and time.monotonic() < arriving:
            look_after(supervisor, 1.0)
        supervisor.wait_for(lambda: world.bodies("in") == [], "everything to be acknowledged")
        assert same(world.bodies("out"), world.published), f"of {world.published}; {killed}"
        assert killed.total() > SECONDS / BETWEEN_SECONDS / 4
        print(f"{world.published} messages moved once each, killed: {dict(killed)}")
