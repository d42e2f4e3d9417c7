"""At log level ``debug`` the log of a broker process is a protocol trace of every client, without passwords."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pika
import pytest
from pika.exceptions import ProbableAuthenticationError
from stomp.exception import ConnectFailedException

from annulet.broker.security.password_hashes import HASHER
from tests.broker_process import BrokerProcess
from tests.clients.amqp10 import Client, data, texts
from tests.clients.conftest import Drivers
from tests.clients.driven import Refused
from tests.clients.stomp_client import StompClient

pytestmark = pytest.mark.usefixtures("ours")

PASSWORD = "hunter2-tracer"
WRONG = "tr0ub4dor-tracer"
SETTINGS = """
[log]
level = "info"
[limits]
login_delay_first = 0.0
[users.tracer]
password_hash = "{hash}"
permissions = {{ "/" = {{ configure = ".*", write = ".*", read = ".*" }} }}
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("trace")
    configuration = folder / "annulet.toml"
    configuration.write_text(SETTINGS.format(hash=HASHER.hash(PASSWORD)))
    arguments = ("--config", str(configuration), "--log-level", "debug")
    with BrokerProcess(None, *arguments, log_file=folder / "broker.log") as process:
        yield process


@pytest.fixture(autouse=True)
def secrets_are_kept(process: BrokerProcess) -> Iterator[None]:
    """No form of a password is in the log, whatever a test did."""
    yield
    log = process.log_end(10_000_000)
    for secret in (PASSWORD, WRONG):
        octets = f"\0tracer\0{secret}".encode()
        forms = (secret, secret.encode().hex(), secret.encode().hex(" "), octets.hex(" "))
        for form in (*forms, base64.b64encode(octets).decode()):
            assert form not in log
    assert "Traceback" not in log


def expect_trace(process: BrokerProcess, *parts: str) -> None:
    """Expect lines of the trace that begin with these texts, in this order, with others between them."""
    process.wait_for_log(parts[-1])
    lines = [line.partition("] ")[2] for line in process.log_end(10_000_000).splitlines() if "[annulet.trace]" in line]
    left = iter(lines)
    for part in parts:
        assert any(line.startswith(part) for line in left), f"no {part!r} in its place in\n" + "\n".join(lines)


def test_amqp_0_9_1(process: BrokerProcess) -> None:
    def parameters(password: str) -> pika.ConnectionParameters:
        return pika.ConnectionParameters(
            "127.0.0.1", process.amqp_port, credentials=pika.PlainCredentials("tracer", password)
        )

    with pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(parameters(WRONG))
    with pika.BlockingConnection(parameters(PASSWORD)) as connection:
        channel = connection.channel()
        channel.queue_declare("traced-0-9-1", exclusive=True)
        channel.basic_publish("", "traced-0-9-1", b"hello 0-9-1")
        assert channel.basic_get("traced-0-9-1", auto_ack=True)[2] == b"hello 0-9-1"
    expect_trace(
        process,
        "<- protocol header b'AMQP\\x00\\x00\\t\\x01'",
        "-> #0 connection.start(",
        "<- #0 connection.start-ok(",
        "-> #0 connection.close(reply_code=403",
        "-> #0 connection.tune(channel_max=2047",
        "<- #1 queue.declare(queue='traced-0-9-1', exclusive=True)",
        "<- #1 basic.publish(exchange='', routing_key='traced-0-9-1')",
        f"<- #1 body of 11 octets {b'hello 0-9-1'.hex(' ')}",
        "-> #1 basic.get-ok(delivery_tag=1",
        f"-> #1 body of 11 octets {b'hello 0-9-1'.hex(' ')}",
        "-> #0 connection.close-ok()",
    )


@pytest.mark.debian
def test_amqp_1_0(process: BrokerProcess, drivers: Drivers) -> None:
    client = Client(drivers.get("proton"), process.amqp_url)
    with pytest.raises(Refused):
        client.connect(user="tracer", password=WRONG)
    connection = client.connect(user="tracer", password=PASSWORD)
    connection.sender("traced-1-0").accepted(data(b"hello 1.0"))
    assert texts(connection.receiver("traced-1-0").take(1)) == [b"hello 1.0"]
    client.close()
    expect_trace(
        process,
        "<- protocol header b'AMQP\\x03\\x01\\x00\\x00'",
        "<- sasl sasl-init(mechanism='PLAIN', initial_response=<",
        "-> sasl sasl-outcome(code=1)",
        "-> sasl sasl-outcome(code=0)",
        "<- #0 open(container_id=",
        "<- #0 attach(name=",
        "<- #0 transfer(handle=0, delivery_id=0",
        "-> #0 disposition(role=receiver, first=0, last=0, settled=True, state=accepted())",
        "-> #0 transfer(handle=1, delivery_id=0",
        "-> #0 close()",
    )


def test_stomp(process: BrokerProcess) -> None:
    client = StompClient(process.stomp_port)
    with pytest.raises(ConnectFailedException):
        client.connect("tracer", WRONG)
    client = StompClient(process.stomp_port).connect("tracer", PASSWORD)
    client.subscribe("/queue/traced-stomp")
    client.send("/queue/traced-stomp", "hello STOMP")
    assert client.next().body == "hello STOMP"
    client.close()
    expect_trace(
        process,
        "<- STOMP accept-version='1.2' host='127.0.0.1' login='tracer' passcode='***'",
        '-> ERROR message="login refused: user name or password is wrong',
        "-> CONNECTED version='1.2'",
        "<- SUBSCRIBE ",
        "<- SEND ",
        "-> MESSAGE subscription='s' message-id=",
        "<- DISCONNECT ",
        "-> RECEIPT ",
    )
