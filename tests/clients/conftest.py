"""The broker that the client tests talk to.

Ours, as a process of its own; or, to check the tests themselves, any other broker::

    ANNULET_TEST_PEER=amqp://guest:guest@127.0.0.1:5672/ make test
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import Peer, Scene

PEER_VARIABLE = "ANNULET_TEST_PEER"


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One broker for all tests of this folder that do not kill it."""
    url = os.environ.get(PEER_VARIABLE, "")
    if url:
        yield Peer(url, ours=False)
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield Peer(process.amqp_url, ours=True)


@pytest.fixture
def scene(peer: Peer) -> Iterator[Scene]:
    """This test's connections and names."""
    scene = Scene(peer)
    yield scene
    scene.close()


@pytest.fixture
def ours(peer: Peer) -> Peer:
    """The peer, for tests of what only this broker has."""
    if not peer.ours:
        pytest.skip(f"{PEER_VARIABLE} names another broker, which does not have this feature")
    return peer
