"""Real clients of each protocol while an operator takes their rights away over HTTP; and RabbitMQ's own tool."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
from stomp.exception import ConnectFailedException
from wsproto import ConnectionType, WSConnection, events

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import AuthenticationError
from annulet.bulk.protocol.url import parse_url
from tests.broker_process import BrokerProcess
from tests.clients.amqp10 import Client, proton_missing, proton_process, rhea_missing, rhea_process
from tests.clients.stomp_client import PATIENCE_SECONDS, StompClient

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
RABBITMQADMIN = "/usr/bin/rabbitmqadmin"


class Place:
    """A broker process, and the operator's requests to it."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.http = httpx.Client(base_url=process.http_url, auth=("guest", "guest"), timeout=30)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def make(self, name: str, host: str = "/") -> None:
        self.ask("PUT", f"/api/users/{name}", {"tags": "", "password": "secret"})
        self.ask("PUT", f"/api/permissions/{host.replace('/', '%2F')}/{name}", ALL)

    def drop(self, name: str) -> None:
        self.ask("DELETE", f"/api/users/{name}")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("access") / "data", bulk=True) as process:
        yield process


@pytest.fixture
def place(process: BrokerProcess) -> Iterator[Place]:
    place = Place(process)
    yield place
    place.http.close()


def pika_parameters(process: BrokerProcess, name: str, password: str = "secret") -> pika.ConnectionParameters:
    credentials = pika.PlainCredentials(name, password)
    return pika.ConnectionParameters("127.0.0.1", process.amqp_port, credentials=credentials)


def test_pika(place: Place) -> None:
    place.make("pika")
    connection = pika.BlockingConnection(pika_parameters(place.process, "pika"))
    channel = connection.channel()
    channel.queue_declare("of-pika")
    channel.basic_publish("", "of-pika", b"before")
    place.drop("pika")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(PATIENCE_SECONDS)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - user 'pika' is deleted")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika_parameters(place.process, "pika"))


@pytest.mark.parametrize(
    ("missing", "start"), [(proton_missing, proton_process), (rhea_missing, rhea_process)], ids=["proton", "rhea"]
)
def test_amqp_1_0(place: Place, missing: Callable[[], str], start: Callable[[], Any]) -> None:
    if missing():
        pytest.skip(missing())
    place.make("ten")
    with start() as driver:
        client = Client(driver, f"amqp://ten:secret@127.0.0.1:{place.process.amqp_port}")
        connection = client.connect()
        connection.receiver("of-ten")
        place.drop("ten")
        closed = connection.wait_closed()
        assert closed["condition"] == "amqp:connection:forced"
        assert "user 'ten' is deleted" in str(closed)


def test_stomp_py(place: Place) -> None:
    place.make("stomp")
    client = StompClient(place.process.stomp_port).connect("stomp", "secret")
    client.subscribe("/queue/of-stomp")
    place.drop("stomp")
    error = client.errors.get(timeout=PATIENCE_SECONDS)
    assert "user 'stomp' is deleted" in f"{error.headers} {error.body}"
    assert client.disconnected.wait(PATIENCE_SECONDS)
    refused = StompClient(place.process.stomp_port)
    with pytest.raises(ConnectFailedException):
        refused.connect("stomp", "secret")
    refused.close()
    client.close()


def test_a_web_socket(place: Place) -> None:
    place.make("web")
    engine = WSConnection(ConnectionType.CLIENT)
    with socket.create_connection(("127.0.0.1", place.process.http_port), timeout=PATIENCE_SECONDS) as line:

        def next_event() -> Any:
            while True:
                for event in engine.events():
                    return event
                engine.receive_data(line.recv(65_536))

        line.sendall(engine.send(events.Request(host=f"localhost:{place.process.http_port}", target="/ws")))
        assert isinstance(next_event(), events.AcceptConnection)
        frame = "CONNECT\naccept-version:1.2\nhost:/\nlogin:web\npasscode:secret\n\n\0"
        line.sendall(engine.send(events.TextMessage(frame)))
        assert next_event().data.startswith("CONNECTED")
        place.drop("web")
        error = next_event().data
        assert error.startswith("ERROR")
        assert "user 'web' is deleted" in error


def test_bulk_transfer(place: Place) -> None:
    place.make("spark")
    connection = pika.BlockingConnection(pika_parameters(place.process, "spark"))
    connection.channel().queue_declare("of-spark", durable=True)
    connection.close()
    client = BulkClient(parse_url(f"annulet://spark:secret@127.0.0.1:{place.process.bulk_port}/"))
    client.act(protocol.QueueStatus(virtual_host="/", queue="of-spark"))
    opened = protocol.OpenLease(virtual_host="/", queue="of-spark", lease="hers", owner="o", fresh=True)
    client.act(opened)
    place.ask("PUT", "/api/permissions/%2F/spark", {**ALL, "read": ""})
    with pytest.raises(Exception, match="may not read queue 'of-spark'"):
        client.act(protocol.QueueStatus(virtual_host="/", queue="of-spark"))
    place.drop("spark")
    with pytest.raises(AuthenticationError, match="login refused for user 'spark'"):
        client.act(protocol.QueueStatus(virtual_host="/", queue="of-spark"))
    client.close()
    assert place.process.get("/api/v1/queues/%2F/of-spark")["leases"] == []


def test_a_publisher_of_each_protocol_is_asked_anew(place: Place) -> None:
    place.make("sender")
    connection = pika.BlockingConnection(pika_parameters(place.process, "sender"))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("of-sender")
    stomp = StompClient(place.process.stomp_port).connect("sender", "secret")
    channel.basic_publish("", "of-sender", b"1")
    stomp.send("/queue/of-sender", "2")
    place.ask("PUT", "/api/permissions/%2F/sender", {**ALL, "write": ""})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"write access to 'amq\.default'"):
        channel.basic_publish("", "of-sender", b"3")
    stomp.connection.send("/queue/of-sender", "4")
    assert "write access" in str(stomp.errors.get(timeout=PATIENCE_SECONDS))
    queue = place.process.get("/api/v1/queues/%2F/of-sender")
    assert queue["messages"] == 2
    stomp.close()
    connection.close()
    place.drop("sender")


def test_changes_outlive_a_kill(place: Place) -> None:
    """Each answer is durable: the process is killed right after it."""
    process = place.process
    place.make("stays")
    place.make("goes")
    place.ask("PUT", "/api/vhosts/shop", {"description": "shop"})
    place.ask("PUT", "/api/vhosts/gone", {})
    place.ask("PUT", "/api/user-limits/stays/max-connections", {"value": 7})
    token = place.ask("PUT", "/api/v1/tokens/stays/ci", {"operations": ["read"]})["token"]
    place.drop("goes")
    place.ask("DELETE", "/api/vhosts/gone")
    process.kill()
    process.start()
    assert {user["name"] for user in place.ask("GET", "/api/users")} >= {"guest", "stays"}
    assert {host["name"] for host in place.ask("GET", "/api/vhosts")} == {"/", "shop"}
    assert place.ask("GET", "/api/user-limits/stays") == [{"user": "stays", "value": {"max-connections": 7}}]
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika_parameters(process, "goes"))
    for password in ("secret", token):
        pika.BlockingConnection(pika_parameters(process, "stays", password)).close()
    place.ask("DELETE", "/api/vhosts/shop")
    place.drop("stays")


def test_a_hash_of_rabbitmq_logs_in(place: Place) -> None:
    """As ``rabbitmqctl export_definitions`` has it: ``test12``."""
    user = {
        "tags": ["management"],
        "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
        "hashing_algorithm": "rabbit_password_hashing_sha256",
    }
    place.ask("PUT", "/api/users/imported", user)
    place.ask("PUT", "/api/permissions/%2F/imported", ALL)
    pika.BlockingConnection(pika_parameters(place.process, "imported", "test12")).close()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika_parameters(place.process, "imported", "test13"))
    shown = place.ask("GET", "/api/users/imported")
    assert {name: shown[name] for name in user} == user
    place.drop("imported")


@pytest.mark.debian
@pytest.mark.skipif(not Path(RABBITMQADMIN).exists(), reason="rabbitmq-server is not installed")
def test_rabbitmqadmin(place: Place) -> None:
    """The tool of RabbitMQ 3.10, unmodified."""

    def run(*arguments: str, fails: bool = False) -> str:
        command = [RABBITMQADMIN, "-H", "127.0.0.1", "-P", str(place.process.http_port), "-f", "raw_json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("declare", "vhost", "name=tool")
    run("declare", "user", "name=tool", "password=secret", "tags=monitoring,management")
    run("declare", "permission", "vhost=tool", "user=tool", "configure=.*", "write=.*", "read=^tool")
    assert "tool" in {host["name"] for host in json.loads(run("list", "vhosts"))}
    users = {user["name"]: user for user in json.loads(run("list", "users"))}
    assert users["tool"]["tags"] == ["monitoring", "management"]
    permissions = json.loads(run("list", "permissions"))
    wanted = {"user": "tool", "vhost": "tool", "configure": ".*", "write": ".*", "read": "^tool"}
    assert wanted in permissions
    run("delete", "permission", "vhost=tool", "user=tool")
    run("delete", "user", "name=tool")
    run("delete", "vhost", "name=tool")
    assert "would be left" in run("delete", "user", "name=guest", fails=True)
    assert "tool" not in {host["name"] for host in json.loads(run("list", "vhosts"))}


def test_a_virtual_host_is_deleted_under_its_clients(place: Place) -> None:
    place.ask("PUT", "/api/vhosts/tenant", {})
    place.make("tenant", "tenant")
    parameters = pika_parameters(place.process, "tenant")
    parameters.virtual_host = "tenant"
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    for number in range(20):
        channel.queue_declare(f"q{number}", durable=True)
        channel.basic_publish("", f"q{number}", b"x" * 100, pika.BasicProperties(delivery_mode=2))
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            connection.process_data_events(PATIENCE_SECONDS)
        except pika.exceptions.AMQPError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    place.ask("DELETE", "/api/vhosts/tenant")
    waiting.join(PATIENCE_SECONDS)
    assert "vhost 'tenant'" in str(errors)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="vhost tenant not found"):
        pika.BlockingConnection(parameters)
    audit = place.process.get("/api/v1/audit?target=tenant&operation=deleted-virtual-host")
    assert json.loads(audit["items"][0]["arguments"]) == {"messages": 20}
    place.drop("tenant")
