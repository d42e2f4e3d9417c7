"""AMQP over TLS and logins, with pika and aio-pika against a broker process of their own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker, ProbableAuthenticationError

from annulet.broker.security.password_hashes import HASHER
from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates

EVERYTHING = '{ "/" = { configure = ".*", write = ".*", read = ".*" } }'
SETTINGS = """
[listeners]
amqps = "127.0.0.1:{port}"
[tls]
certificate = "{certificate}"
key = "{key}"
client_ca = "{authority}"
verify = "optional"
[limits]
max_connections_per_user = 3
[users.guest]
password_hash = "{guest}"
tags = ["administrator"]
permissions = {everything}
[users.alice]
password_hash = "{alice}"
permissions = {everything}
"""


class Site:
    """A broker process with TLS, and the certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        (self.port,) = free_ports(1)
        file = folder / "annulet.toml"
        file.write_text(
            SETTINGS.format(
                port=self.port,
                certificate=self.certificates.certificate,
                key=self.certificates.key,
                authority=self.certificates.authority_file,
                guest=HASHER.hash("guest"),
                alice=HASHER.hash("secret"),
                everything=EVERYTHING,
            )
        )
        self.process = BrokerProcess(None, "--config", str(file), log_file=folder / "broker.log")

    def parameters(
        self, context: ssl.SSLContext | None, credentials: object = None, *, port: int | None = None
    ) -> pika.ConnectionParameters:
        options = None if context is None else pika.SSLOptions(context, "localhost")
        given = credentials or pika.PlainCredentials("guest", "guest")
        return pika.ConnectionParameters("localhost", port or self.port, credentials=given, ssl_options=options)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("tls"))
    with made.process:
        yield made


def round_trip(parameters: pika.ConnectionParameters, body: bytes = b"x" * 300_000) -> None:
    connection = BlockingConnection(parameters)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", queue, body)
    assert [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)] == [body] * 3
    connection.close()


def test_a_server_certificate_is_enough(site: Site) -> None:
    round_trip(site.parameters(site.certificates.client_context()))


async def test_aio_pika_over_tls(site: Site) -> None:
    url = f"amqps://guest:guest@localhost:{site.port}/?cafile={site.certificates.authority_file}"
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"over TLS"), queue.name)
        message = await queue.get()
        assert message.body == b"over TLS"


def test_a_client_certificate_is_a_login(site: Site) -> None:
    context = site.certificates.client_context(site.certificates.issue("alice", common_name="alice"))
    round_trip(site.parameters(context, pika.credentials.ExternalCredentials()))
    connection = BlockingConnection(site.parameters(context, pika.credentials.ExternalCredentials()))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="alice"))
    connection.close()


def test_external_needs_a_certificate_of_a_user(site: Site) -> None:
    external = pika.credentials.ExternalCredentials()
    stranger = site.certificates.client_context(site.certificates.issue("mallory", common_name="mallory"))
    with pytest.raises(ProbableAuthenticationError):
        BlockingConnection(site.parameters(stranger, external))
    with pytest.raises(AMQPConnectionError):  # without a certificate the mechanism is not even offered
        BlockingConnection(site.parameters(site.certificates.client_context(), external))
    with pytest.raises(AMQPConnectionError):
        BlockingConnection(site.parameters(None, external, port=site.process.amqp_port))
    site.process.wait_for_log("mechanism=EXTERNAL")


def test_each_side_refuses_certificates_of_others(site: Site, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        BlockingConnection(site.parameters(ssl.create_default_context()))
    other = Certificates(tmp_path).issue("alice", common_name="alice")
    with pytest.raises((AMQPConnectionError, ssl.SSLError)):
        BlockingConnection(site.parameters(site.certificates.client_context(other)))
    site.process.wait_for_log("TLS handshake failed")
    round_trip(site.parameters(site.certificates.client_context()), b"others go on")


def test_plain_octets_on_the_tls_port(site: Site) -> None:
    with pytest.raises(AMQPConnectionError):
        BlockingConnection(site.parameters(None))
    round_trip(site.parameters(site.certificates.client_context()), b"others go on")


def test_wrong_passwords_are_refused_logged_and_delayed(site: Site) -> None:
    wrong = pika.PlainCredentials("nobody", "hunter2-hunter2")
    before = site.process.metric("logins_refused_total"), site.process.metric("logins_delayed_total")
    for _ in range(3):
        with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED"):
            BlockingConnection(site.parameters(None, wrong, port=site.process.amqp_port))
    assert site.process.metric("logins_refused_total") == before[0] + 3
    assert site.process.metric("logins_delayed_total") >= before[1] + 2
    site.process.wait_for_log("user=nobody")
    assert "hunter2" not in site.process.log_end(1_000_000)


async def test_a_user_has_so_many_connections(site: Site) -> None:
    url = f"amqps://alice:secret@localhost:{site.port}/?cafile={site.certificates.authority_file}"
    connections = await asyncio.gather(*(aio_pika.connect(url) for _ in range(3)))
    parameters = site.parameters(site.certificates.client_context(), pika.PlainCredentials("alice", "secret"))
    with pytest.raises((ConnectionClosedByBroker, AMQPConnectionError), match="user 'alice' has 3 connections"):
        await asyncio.to_thread(BlockingConnection, parameters)
    await connections[0].close()
    replaced = await aio_pika.connect(url)
    for connection in (*connections[1:], replaced):
        await connection.close()


# The last one: who logs in from the same address after it has to wait.
def test_a_flood_of_wrong_passwords_leaves_other_clients_alone(site: Site) -> None:
    stop = threading.Event()
    refused: list[int] = []

    def flood(number: int) -> None:
        while not stop.is_set():
            credentials = pika.PlainCredentials(f"flood-{number}", f"wrong-{len(refused)}")
            try:
                BlockingConnection(site.parameters(None, credentials, port=site.process.amqp_port))
            except AMQPConnectionError:
                refused.append(number)

    connection = BlockingConnection(site.parameters(None, port=site.process.amqp_port))
    threads = [threading.Thread(target=flood, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    published = 0
    while len(refused) < 5:
        channel.basic_publish("", queue, b"x")
        published += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert published > len(refused), "publishing goes on while logins wait"
    assert channel.queue_declare(queue, passive=True).method.message_count == published
    connection.close()
