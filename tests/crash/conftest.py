"""A broker with a data directory of its own for each crash test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import Peer, Scene
from tests.crash.test_marked_points import MortalBrokers


@pytest.fixture(scope="module")
def brokers() -> Iterator[MortalBrokers]:
    """Who starts brokers that die, one after the other, in one module's tests."""
    brokers = MortalBrokers()
    yield brokers
    brokers.close()


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
