"""The broker that the client tests talk to.

Ours, as a process of its own; or, to check the tests themselves, any other broker::

    ANNULET_TEST_PEER=amqp://guest:guest@127.0.0.1:5672/ make test
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess
from tests.clients.amqp10 import Client, proton_missing, proton_process, rhea_missing, rhea_process
from tests.clients.driven import DriverProcess
from tests.clients.hostile import Bystander, Fortress
from tests.clients.support import Peer, Scene

PEER_VARIABLE = "ANNULET_TEST_PEER"
HEARTBEAT_SECONDS = 2


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """One broker for all tests of this folder that do not kill it."""
    url = os.environ.get(PEER_VARIABLE, "")
    if url:
        yield Peer(url, ours=False)
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield Peer(process.amqp_url, ours=True, stomp_port=process.stomp_port)


@pytest.fixture(scope="session")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that tests kill and start again, impatient with silent clients."""
    folder = tmp_path_factory.mktemp("mortal")
    configuration = folder / "annulet.toml"
    configuration.write_text(f"heartbeat = {HEARTBEAT_SECONDS}\n")
    with BrokerProcess(folder / "data", "--config", str(configuration)) as process:
        yield process


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


class Drivers:
    """The clients of AMQP 1.0 in processes of their own, started when first asked for and again when they ended."""

    def __init__(self) -> None:
        self._processes: dict[str, DriverProcess] = {}

    def get(self, name: str) -> DriverProcess:
        """Return the driver of ``proton`` or ``rhea``; skips the test where that client is not installed."""
        missing = {"proton": proton_missing, "rhea": rhea_missing}[name]()
        if missing:
            pytest.skip(missing)
        process = self._processes.get(name)
        if process is None or process.process.poll() is not None:
            process = {"proton": proton_process, "rhea": rhea_process}[name]()
            self._processes[name] = process
        return process

    def close(self) -> None:
        """End all."""
        for process in self._processes.values():
            process.__exit__(None, None, None)


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    """One process of each client for all tests that do not kill it."""
    drivers = Drivers()
    yield drivers
    drivers.close()


@pytest.fixture
def proton(drivers: Drivers, peer: Peer, scene: Scene) -> Iterator[Client]:
    """Qpid Proton, connected to nothing yet; closed before the scene deletes its queues."""
    client = Client(drivers.get("proton"), peer.url)
    yield client
    client.close()


@pytest.fixture
def rhea(drivers: Drivers, peer: Peer, scene: Scene) -> Iterator[Client]:
    """The Node.js client rhea, connected to nothing yet; closed before the scene deletes its queues."""
    client = Client(drivers.get("rhea"), peer.url)
    yield client
    client.close()


@pytest.fixture(params=[pytest.param("proton", marks=pytest.mark.debian), pytest.param("rhea", marks=pytest.mark.node)])
def client(request: pytest.FixtureRequest) -> Client:
    """Each client of AMQP 1.0 in turn."""
    client: Client = request.getfixturevalue(request.param)
    return client


@pytest.fixture
def fortress(process: BrokerProcess) -> Iterator[Fortress]:
    """The module's own ``process``, which must have stayed within its bounds after each test."""
    fortress = Fortress(process)
    yield fortress
    fortress.check()


@pytest.fixture
def bystander(fortress: Fortress) -> Iterator[Bystander]:
    """A client that must notice nothing."""
    bystander = Bystander(fortress.peer)
    yield bystander
    bystander.finish()
