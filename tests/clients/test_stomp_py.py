"""stomp.py against a real broker process: every version, settlement, transactions, subscriptions, restarts."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stomp.exception import ConnectFailedException

from tests.broker_process import BrokerProcess
from tests.clients.stomp_client import PATIENCE_SECONDS, StompClient

Connect = Callable[..., StompClient]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("stomp") / "data") as process:
        yield process


@pytest.fixture
def connect(process: BrokerProcess) -> Iterator[Connect]:
    """Returns connected clients, and closes them."""
    clients: list[StompClient] = []

    def make(version: str = "1.2", *, headers: dict[str, str] | None = None, **settings: Any) -> StompClient:
        client = StompClient(process.stomp_port, version, **settings)
        clients.append(client)
        return client.connect(**(headers or {}))

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def destination() -> str:
    return f"/queue/q-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic() -> str:
    return f"/topic/t-{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_message_goes_through_in_every_version(connect: Connect, destination: str, version: str) -> None:
    client = connect(version)
    client.subscribe(destination, ack="client")
    client.send(destination, "hällo\n€", content_type="text/plain", mine="a:b")
    frame = client.next()
    assert frame.body == "hällo\n€"
    assert (frame.headers["mine"], frame.headers["destination"]) == ("a:b", destination)
    client.acknowledge(frame)
    client.nothing_more("end-of-" + destination.rpartition("/")[2])


def test_bodies_with_nuls_and_no_text(connect: Connect, destination: str) -> None:
    client = connect(auto_decode=False)
    client.subscribe(destination)
    for body in (b"\0", b"a\0b\n\0", bytes(range(256)), b"\n", b"x" * 300_000):
        client.send(destination, body)
        assert client.next().body == body


def test_a_wrong_password_is_told(process: BrokerProcess) -> None:
    client = StompClient(process.stomp_port)
    with pytest.raises(ConnectFailedException):
        client.connect(passcode="wrong")
    assert client.error().startswith("login refused: user name or password is wrong")
    assert process.log_file is not None
    process.wait_for_log("guest")


def test_a_frame_that_is_wrong_ends_only_its_own_connection(connect: Connect, destination: str) -> None:
    other = connect()
    other.subscribe(destination)
    client = connect()
    client.connection.send(destination, "x", headers={"priority": "high"})
    assert client.error() == "header 'priority' is 'high'; give the priority, a whole number from 0 to 255"
    other.send(destination, "still here")
    assert other.next().body == "still here"


def test_settlement_modes(connect: Connect, destination: str) -> None:
    client = connect()
    client.subscribe(destination, ack="client")
    for number in range(4):
        client.send(destination, str(number))
    frames = [client.next() for _ in range(4)]
    client.acknowledge(frames[1])
    client.close()
    again = connect()
    again.subscribe(destination, ack="client-individual")
    left = [again.next(), again.next()]
    assert [frame.body for frame in left] == ["2", "3"]
    assert [frame.headers["redelivered"] for frame in left] == ["true", "true"]
    again.acknowledge(left[1])
    again.close()
    last = connect()
    last.subscribe(destination)
    assert last.next().body == "2"


def test_nack_requeues_and_lets_die(connect: Connect, destination: str) -> None:
    client = connect()
    dead = f"{destination}-dead"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.rpartition("/")[2]}
    client.subscribe(destination, ack="client-individual", **arguments)
    client.subscribe(dead, "dead")
    client.send(destination, "work")
    first = client.next()
    client.connection.nack(first.headers["ack"])
    second = client.next()
    assert (second.body, second.headers["x-delivery-count"]) == ("work", "1")
    client.connection.nack(second.headers["ack"], requeue="false")
    died = client.next()
    assert (died.headers["subscription"], died.headers["x-first-death-reason"]) == ("dead", "rejected")


def test_transactions(connect: Connect, destination: str) -> None:
    client = connect()
    client.subscribe(destination, ack="client-individual")
    client.send(destination, "first")
    first = client.next()
    transaction = client.connection.begin()
    client.send(destination, "second", transaction=transaction, persistent="true")
    client.acknowledge(first, transaction=transaction)
    aborted = client.connection.begin()
    client.send(destination, "never", transaction=aborted)
    client.connection.abort(aborted)
    client.connection.commit(transaction)
    second = client.next()
    assert second.body == "second"
    client.acknowledge(second)
    client.nothing_more("end-of-" + destination.rpartition("/")[2])


def test_a_lost_connection_returns_everything_and_aborts(connect: Connect, destination: str) -> None:
    client = connect()
    client.subscribe(destination, ack="client-individual")
    for number in range(3):
        client.send(destination, str(number))
    frames = [client.next() for _ in range(3)]
    transaction = client.connection.begin()
    client.acknowledge(frames[0], transaction=transaction)
    client.send(destination, "never", transaction=transaction)
    client.connection.transport.socket.shutdown(socket.SHUT_RDWR)
    assert client.disconnected.wait(PATIENCE_SECONDS)
    other = connect()
    other.subscribe(destination)
    assert other.bodies(3) == ["0", "1", "2"]
    other.nothing_more("end-of-" + destination.rpartition("/")[2])


def test_prefetch_bounds_what_a_slow_client_holds(connect: Connect, destination: str) -> None:
    slow, fast = connect(), connect()
    for number in range(6):
        slow.send(destination, str(number))
    slow.subscribe(destination, ack="client-individual", prefetch_count=2)
    held = [slow.next(), slow.next()]
    fast.subscribe(destination)
    assert fast.bodies(4) == ["2", "3", "4", "5"]
    assert [frame.body for frame in held] == ["0", "1"]


def test_selectors(connect: Connect, destination: str, topic: str) -> None:
    client = connect()
    client.subscribe(destination, "q", selector="colour = 'red' AND JMSPriority > 5")
    client.subscribe(topic, "t", selector="colour IS NULL")
    for colour, priority in (("red", 1), ("blue", 9), ("red", 9)):
        client.send(destination, f"{colour}{priority}", colour=colour, priority=priority)
        client.send(topic, "coloured", colour=colour)
    client.send(topic, "plain")
    assert sorted(client.bodies(2)) == ["plain", "red9"]


def test_priorities(connect: Connect, destination: str) -> None:
    client = connect()
    for priority in (1, 9, 5):
        client.send(destination, str(priority), priority=priority, **{"x-priorities": "10"})
    client.subscribe(destination, **{"x-priorities": "10"})
    assert client.bodies(3) == ["9", "5", "1"]


def test_expiry_and_schedule(connect: Connect, destination: str) -> None:
    client = connect()
    client.send(destination, "short-lived", expiration=1)
    client.send(destination, "gone", expires=1000)
    client.send(destination, "for ever", expires=0)
    client.send(destination, "later", AMQ_SCHEDULED_DELAY=400)
    client.send(destination, "much later", **{"x-delay": 600_000})
    time.sleep(0.05)
    client.subscribe(destination)
    assert client.bodies(2) == ["for ever", "later"]


def test_topics_and_a_browser(connect: Connect, destination: str, topic: str) -> None:
    one, two = connect(), connect("1.1")
    one.subscribe(topic)
    two.subscribe(f"{topic}")
    one.send(topic, "news")
    assert (one.next().body, two.next().body) == ("news", "news")
    for body in ("1", "2"):
        one.send(destination, body)
    one.subscribe(destination, "b", browser="true")
    assert one.bodies(2) == ["1", "2"]
    assert one.next().headers["browser"] == "end"
    two.subscribe(destination, "taking")
    assert two.bodies(2) == ["1", "2"]


def test_a_reply_comes_over_a_temporary_queue(connect: Connect, destination: str) -> None:
    asking, serving = connect(), connect()
    serving.subscribe(destination)
    asking.send(destination, "question", reply_to="/temp-queue/mine", correlation_id="7")
    question = serving.next()
    serving.send(question.headers["reply-to"], "answer", correlation_id=question.headers["correlation-id"])
    answer = asking.next()
    assert (answer.body, answer.headers["correlation-id"]) == ("answer", "7")
    assert answer.headers["subscription"] == "/temp-queue/mine"


def test_heartbeats_keep_a_quiet_connection_and_silence_ends_it(process: BrokerProcess, connect: Connect) -> None:
    client = connect(heartbeats=(500, 500))
    silent = socket.create_connection(("127.0.0.1", process.stomp_port))
    silent.settimeout(PATIENCE_SECONDS)
    silent.sendall(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\nheart-beat:500,0\n\n\0")
    received = b""
    while data := silent.recv(1000):
        received += data
    silent.close()
    assert received.startswith(b"CONNECTED")
    process.wait_for_log("missed heartbeats")
    assert client.connection.is_connected()  # it was as quiet, but for its heart-beats
    assert not client.heartbeat_lost.is_set()


def test_what_is_durable_survives_a_kill(
    process: BrokerProcess, connect: Connect, destination: str, topic: str
) -> None:
    headers = {"durable-subscription-name": "n", "ack": "client"}
    client = connect(headers={"client-id": "c"})
    client.subscribe(topic, **headers)
    client.connection.unsubscribe("s")
    client.send(destination, "sent\0", persistent="true", priority=7, mine="a:b")
    client.send(destination, "lost")
    client.send(topic, "news", persistent="true")
    process.restart()
    assert client.disconnected.wait(PATIENCE_SECONDS)
    again = connect(headers={"client-id": "c"})
    again.subscribe(destination, "q")
    frame = again.next()
    assert (frame.body, frame.headers["mine"], frame.headers["priority"]) == ("sent\0", "a:b", "7")
    assert frame.headers["destination"] == destination
    again.subscribe(topic, **headers)
    assert again.next().body == "news"
    again.nothing_more("end")


def test_a_client_that_reconnects_goes_on(process: BrokerProcess, connect: Connect, destination: str) -> None:
    client = connect(reconnect_attempts_max=5)
    client.send(destination, "before", persistent="true")
    process.restart()
    assert client.disconnected.wait(PATIENCE_SECONDS)
    client.connect()
    client.subscribe(destination)
    assert client.next().body == "before"
    client.send(destination, "after")
    assert client.next().body == "after"
