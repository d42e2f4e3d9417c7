"""A broker with a data directory of its own for each crash test, and the seed of its random moments."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import Peer, Scene

SEED_VARIABLE = "ANNULET_TEST_SEED"


@pytest.fixture
def moments() -> random.Random:
    """Random moments. The seed is printed with a failing test; set ANNULET_TEST_SEED to repeat it."""
    seed = int(os.environ.get(SEED_VARIABLE, "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"{SEED_VARIABLE}={seed}")
    return random.Random(seed)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running broker."""
    with BrokerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture
def scene(process: BrokerProcess) -> Iterator[Scene]:
    """Names and connections; queues need no clean-up, since the broker goes with the test."""
    scene = Scene(Peer(process.amqp_url, ours=True))
    yield scene
    scene.close_connections()
