"""Crashes, reconnects, silence and TLS over AMQP 1.0: brokers of their own, with Qpid Proton and rhea."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.clients.amqp10 import Client, Connection, data, proton_missing, proton_process, rhea_missing, texts
from tests.clients.conftest import HEARTBEAT_SECONDS, Drivers
from tests.clients.driven import Refused
from tests.clients.support import Peer, Scene

pytestmark = pytest.mark.usefixtures("ours")

MISSING = {"proton": proton_missing, "rhea": rhea_missing}


@pytest.fixture(params=[pytest.param("proton", marks=pytest.mark.debian), pytest.param("rhea", marks=pytest.mark.node)])
def survivor(request: pytest.FixtureRequest, drivers: Drivers, mortal: BrokerProcess) -> Iterator[Client]:
    """Each client in turn, for the broker that is killed."""
    client = Client(drivers.get(request.param), mortal.amqp_url)
    yield client
    client.close()


def test_durable_messages_and_subscriptions_survive_a_kill(survivor: Client, mortal: BrokerProcess) -> None:
    name = f"kept-{time.time_ns()}"
    connection = survivor.connect(container_id=name)
    subscription = {"link_name": "s", "durability": 2, "expiry_policy": "never", "capabilities": ["topic"]}
    connection.receiver(f"news-{name}", **subscription)
    connection.sender(f"news-{name}", capabilities=["topic"]).accepted(data(b"news", durable=True))
    connection.sender(name).accepted(
        *[data(b"%d" % number, durable=True, message_id=str(number)) for number in range(20)]
    )
    receiver = connection.receiver(name)
    receiver.settle(receiver.receive(5), "accepted")
    receiver.receive(3)
    # the outcome of a settled receiver is not answered: the next accepted message is in the log after it
    connection.sender(name).accepted(data(b"last", durable=True))
    mortal.restart()
    connection = survivor.connect(container_id=name)
    left = connection.receiver(name).take(16)
    assert texts(left) == [b"%d" % number for number in range(5, 20)] + [b"last"]
    assert left[0]["message_id"] == "5"
    assert texts(connection.receiver(f"news-{name}", **subscription).take()) == [b"news"]


def test_a_client_reconnects_by_itself(survivor: Client, mortal: BrokerProcess) -> None:
    name = f"again-{time.time_ns()}"
    reconnect = [0.05] * 200 if survivor.driver.process.args[0] != "node" else True
    connection = survivor.connect(reconnect=reconnect)
    sender, receiver = connection.sender(name), connection.receiver(name)
    sender.accepted(data(b"before", durable=True))
    mortal.restart()
    connection.wait_opens(2)
    sender.accepted(data(b"after", durable=True))
    assert texts(receiver.take(2)) == [b"before", b"after"]


def test_idle_clients_are_kept_by_the_heartbeats_of_either_side(drivers: Drivers, mortal: BrokerProcess) -> None:
    present = [name for name, missing in MISSING.items() if not missing()]
    if not present:
        pytest.skip("no client of AMQP 1.0 is installed")
    clients = [Client(drivers.get(name), mortal.amqp_url) for name in present]
    idle = [client.connect() for client in clients]
    receivers = [connection.receiver(dynamic=True) for connection in idle]
    wanting = [client.connect(heartbeat=0.6) for client in clients]
    time.sleep(HEARTBEAT_SECONDS * 2.5)  # one wait for all of them: the broker's patience, and four times theirs
    for connection, receiver in zip(idle, receivers, strict=True):
        assert 0 < connection.facts["idle_time_out"] <= HEARTBEAT_SECONDS
        connection.sender(receiver.address).accepted(data(b"still here"))
        assert texts(receiver.take()) == [b"still here"]
    for connection in wanting:
        connection.sender(f"beats-{time.time_ns()}").accepted(data(b"x"))
    for client in clients:
        client.close()


@pytest.mark.debian
def test_a_stopped_client_loses_what_it_held(mortal: BrokerProcess) -> None:
    """A half-open peer: no end of the stream, no answer."""
    if proton_missing():
        pytest.skip(proton_missing())
    name = f"stopped-{time.time_ns()}"
    with proton_process() as stopped, proton_process() as other:
        connection = Client(stopped, mortal.amqp_url).connect()
        connection.sender(name).accepted(data(b"1"), data(b"2"))
        assert len(connection.receiver(name).receive(2)) == 2
        os.kill(stopped.process.pid, signal.SIGSTOP)
        try:
            assert texts(Client(other, mortal.amqp_url).connect().receiver(name).take(2)) == [b"1", b"2"]
        finally:
            os.kill(stopped.process.pid, signal.SIGCONT)


@pytest.mark.debian
def test_a_killed_client_loses_what_it_held(proton: Client, scene: Scene, peer: Peer) -> None:
    queue = scene.name()
    with proton_process() as killed:
        connection = Client(killed, peer.url).connect()
        connection.sender(queue).accepted(data(b"1"), data(b"2"))
        connection.receiver(queue).receive(2)
        killed.kill()
    assert texts(proton.connect().receiver(queue).take(2)) == [b"1", b"2"]


def test_nobody_listens(client: Client) -> None:
    (port,) = free_ports(1)
    with pytest.raises(Refused) as caught:
        client.connect(url=f"amqp://guest:guest@127.0.0.1:{port}", seconds=10)
    assert "refused" in caught.value.text.lower()


def test_an_unknown_host(rhea: Client) -> None:
    """Proton raises out of its event loop instead; see test_proton.py."""
    with pytest.raises(Refused, match=r"ENOTFOUND|EAI_AGAIN"):
        rhea.connect(url="amqp://guest:guest@unknown.invalid:5672", seconds=15)


def test_stopping_the_broker_closes_with_a_reason(survivor: Client, mortal: BrokerProcess) -> None:
    connection: Connection = survivor.connect()
    connection.receiver(f"waiting-{time.time_ns()}").grant(1)
    try:
        assert mortal.terminate() == 0
        error = connection.wait_closed()
    finally:
        mortal.start()
    assert error["condition"] == "amqp:connection:forced", error
