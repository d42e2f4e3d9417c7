"""A broker in memory, and one with a disk, for tests that speak to it through a transport of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from annulet import testing
from annulet.broker.broker import Broker
from annulet.testing.clock import VirtualClock


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with testing.broker(http=False, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


@pytest.fixture
async def disk_broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with testing.broker(http=False, data_dir=tmp_path, clock=VirtualClock()) as running:
        yield running.broker
        leave(running.broker)


def leave(broker: Broker) -> None:
    """Cut what a test left open: its peers do not answer connection.close, and stopping would wait for them."""
    for connection in list(broker.connections):
        connection.abort()
