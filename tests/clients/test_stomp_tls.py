"""STOMP over TLS, plain and in a WebSocket, with and without client certificates; and wrong passwords."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stomp.exception import ConnectFailedException
from wsproto import ConnectionType, WSConnection, events

from annulet.broker.security.password_hashes import HASHER
from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.clients.stomp_client import PATIENCE_SECONDS, StompClient

pytestmark = pytest.mark.usefixtures("ours")

EVERYTHING = '{ "/" = { configure = ".*", write = ".*", read = ".*" } }'
SETTINGS = """
[listeners]
stomps = "127.0.0.1:{stomps}"
https = "127.0.0.1:{https}"
[tls]
certificate = "{certificate}"
key = "{key}"
client_ca = "{authority}"
verify = "optional"
[users.guest]
password_hash = "{guest}"
permissions = {everything}
[users.alice]
password_hash = "{alice}"
permissions = {everything}
"""


class Site:
    """A broker process with TLS, and the certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        self.stomps, self.https = free_ports(2)
        file = folder / "annulet.toml"
        file.write_text(
            SETTINGS.format(
                stomps=self.stomps,
                https=self.https,
                certificate=self.certificates.certificate,
                key=self.certificates.key,
                authority=self.certificates.authority_file,
                guest=HASHER.hash("guest"),
                alice=HASHER.hash("secret"),
                everything=EVERYTHING,
            )
        )
        self.process = BrokerProcess(folder / "data", "--config", str(file), log_file=folder / "broker.log")

    def pair(self, name: str) -> tuple[str, str]:
        """Return the files of a certificate that names a user, and of its key."""
        certificate, key = self.certificates.issue(name, common_name=name)
        return str(certificate), str(key)


Connect = Callable[..., StompClient]


def refusal(client: StompClient) -> str:
    """Return what ERROR says, and leave."""
    text: str = client.errors.get(timeout=PATIENCE_SECONDS).headers["message"]
    leave(client)
    return text


def leave(client: StompClient) -> None:
    """End what the broker has ended: over TLS stomp.py does not notice the end of the stream."""
    client.connection.transport.set_connected(False)
    client.connection.transport.disconnect_socket()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("stomp-tls"))
    with made.process:
        yield made


@pytest.fixture
def connect(site: Site) -> Iterator[Connect]:
    """Returns clients over TLS, not yet logged in, and closes them."""
    clients: list[StompClient] = []

    def make(*pair: str, **settings: Any) -> StompClient:
        client = StompClient(site.stomps, **settings)
        certificate, key = pair or (None, None)
        client.connection.set_ssl(
            for_hosts=[("127.0.0.1", site.stomps)],
            ca_certs=str(site.certificates.authority_file),
            cert_file=certificate,
            key_file=key,
            ssl_version=ssl.PROTOCOL_TLS_CLIENT,
        )
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_messages_over_tls(connect: Connect, version: str) -> None:
    client = connect(version=version, auto_decode=False, heartbeats=(500, 500)).connect("alice", "secret")
    client.subscribe("/queue/tls", ack="client")
    for body in (b"x" * 300_000, b"\0"):
        client.send("/queue/tls", body, user_id="alice")
        frame = client.next()
        assert frame.body == body
        client.acknowledge(frame)


def test_a_client_that_reconnects_after_a_kill_goes_on_over_tls(site: Site, connect: Connect) -> None:
    client = connect().connect()
    client.send("/queue/kept", "before", persistent="true")
    site.process.restart()
    leave(client)
    again = connect().connect()
    again.subscribe("/queue/kept")
    assert again.next().body == "before"


def test_a_client_certificate_is_a_login(site: Site, connect: Connect) -> None:
    client = connect(*site.pair("alice"))
    client.connection.connect(wait=True)
    client.send("/queue/external", "mine", user_id="alice")
    client.connection.send("/queue/external", "not mine", headers={"user-id": "guest"})
    assert "header 'user-id' is 'guest' but the login was 'alice'" in refusal(client)


def test_a_login_counts_before_a_certificate(site: Site, connect: Connect) -> None:
    client = connect(*site.pair("alice")).connect("guest", "guest")
    client.send("/queue/external", "mine", user_id="guest")


def test_a_certificate_of_nobody_is_no_login(site: Site, connect: Connect) -> None:
    client = connect(*site.pair("mallory"))
    with pytest.raises(ConnectFailedException):
        client.connection.connect(wait=True)
    assert refusal(client).startswith("login refused")
    site.process.wait_for_log("mechanism=EXTERNAL")


def test_a_client_certificate_is_a_login_over_a_web_socket(site: Site) -> None:
    context = site.certificates.client_context(site.certificates.issue("alice", common_name="alice"))
    raw = socket.create_connection(("127.0.0.1", site.https), timeout=PATIENCE_SECONDS)
    with context.wrap_socket(raw, server_hostname="localhost") as line:
        protocol = WSConnection(ConnectionType.CLIENT)

        def answer(event: events.Event) -> Any:
            line.sendall(protocol.send(event))
            while True:
                for found in protocol.events():
                    return found
                protocol.receive_data(line.recv(65_536))

        opening = events.Request(host=f"localhost:{site.https}", target="/ws", subprotocols=["v12.stomp"])
        assert isinstance(answer(opening), events.AcceptConnection)
        connect = events.TextMessage("CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        assert answer(connect).data.startswith("CONNECTED\nversion:1.2\n")
        send = events.TextMessage("SEND\ndestination:/queue/wss\nuser-id:alice\nreceipt:1\n\nx\0")
        assert answer(send).data.startswith("RECEIPT\n")


def test_each_side_refuses_certificates_of_others(site: Site, connect: Connect, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    # With TLS 1.3 the refusal comes after the client's handshake, and stomp.py does not notice the end of a TLS stream.
    context = site.certificates.client_context(other.issue("alice", common_name="alice"))
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", site.stomps), timeout=PATIENCE_SECONDS) as raw,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(raw, server_hostname="localhost") as line,
    ):
        line.sendall(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        answer = line.recv(65_536)
    assert answer == b""
    doubting = StompClient(site.stomps)
    doubting.connection.set_ssl(
        for_hosts=[("127.0.0.1", site.stomps)],
        ca_certs=str(other.authority_file),
        ssl_version=ssl.PROTOCOL_TLS_CLIENT,
    )
    with pytest.raises(ConnectFailedException):
        doubting.connection.connect("guest", "guest", wait=True)
    site.process.wait_for_log("TLS handshake failed")
    connect().connect().send("/queue/tls", "others go on")


def test_wrong_passwords_are_refused_logged_and_delayed(site: Site) -> None:
    before = site.process.metric("logins_refused_total"), site.process.metric("logins_delayed_total")
    for attempt in range(3):
        client = StompClient(site.process.stomp_port)
        with pytest.raises(ConnectFailedException):
            client.connect("nobody", f"hunter2-{attempt}")
        assert client.error().startswith("login refused: user name or password is wrong")
    assert site.process.metric("logins_refused_total") == before[0] + 3
    assert site.process.metric("logins_delayed_total") >= before[1] + 2
    site.process.wait_for_log("user=nobody")
    assert "hunter2" not in site.process.log_end(1_000_000)
