"""AMQP 1.0 over TLS and every way to log in: Qpid Proton and rhea against a broker process of their own.

Debian's Proton is built without Cyrus SASL and so knows no SCRAM: its frames are written by hand here, with a client's
side of RFC 5802 of the tests' own. rhea's SCRAM is in test_amqp10_refusals.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.clients.amqp10 import Client, Connection, data, texts
from tests.clients.conftest import Drivers
from tests.clients.driven import Refused
from tests.clients.raw10 import (
    AMQP_HEADER,
    OPEN,
    SASL_CHALLENGE,
    SASL_HEADER,
    SASL_INIT,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    SASL_RESPONSE,
    Composite,
    RawAmqp10,
    Symbol,
    Uint,
    encode,
    frame,
    performative,
)
from tests.clients.support import Peer
from tests.scram_client import ScramClient

pytestmark = pytest.mark.usefixtures("ours")

SETTINGS = """
[listeners]
amqps = "127.0.0.1:{port}"
[tls]
certificate = "{certificate}"
key = "{key}"
client_ca = "{authority}"
verify = "optional"
[limits]
login_delay_first = 0.01
"""


class Site:
    """A broker process with TLS, and the certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        (port,) = free_ports(1)
        self.address = f"localhost:{port}"
        file = folder / "annulet.toml"
        file.write_text(
            SETTINGS.format(
                port=port,
                certificate=self.certificates.certificate,
                key=self.certificates.key,
                authority=self.certificates.authority_file,
            )
        )
        self.process = BrokerProcess(folder / "data", "--config", str(file), log_file=folder / "broker.log")

    def trust(self, certificate: str = "") -> dict[str, str]:
        """Return a driver's files: whom it trusts, and the certificate that names it."""
        files = {"authority": str(self.certificates.authority_file)}
        if certificate:
            pair = self.certificates.issue(certificate, common_name=certificate)
            files |= {"certificate": str(pair[0]), "key": str(pair[1])}
        return files

    def by_password(self, client: Client, password: str = "guest", **options: object) -> Connection:
        return client.connect(f"amqps://guest:{password}@{self.address}", tls=self.trust(), **options)

    def by_certificate(self, client: Client, name: str) -> Connection:
        return client.connect(f"amqps://{self.address}", tls=self.trust(name), allowed_mechs="EXTERNAL")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("tls"))
    with made.process:
        yield made


@pytest.fixture(params=[pytest.param("proton", marks=pytest.mark.debian), pytest.param("rhea", marks=pytest.mark.node)])
def secured(request: pytest.FixtureRequest, drivers: Drivers, site: Site) -> Iterator[Client]:
    """Each client in turn."""
    client = Client(drivers.get(request.param), site.process.amqp_url)
    yield client
    client.close()


def round_trip(connection: Connection) -> None:
    name = f"q-{time.time_ns()}"
    bodies = [b"%d" % number * 50_000 for number in range(3)]  # several TLS records each
    connection.sender(name).accepted(*map(data, bodies))
    assert texts(connection.receiver(name).take(3)) == bodies


def test_messages_over_tls(secured: Client, site: Site) -> None:
    connection = site.by_password(secured)
    assert connection.facts["tls"].startswith("TLSv1")
    round_trip(connection)


def test_a_client_certificate_is_a_login(secured: Client, site: Site) -> None:
    round_trip(site.by_certificate(secured, "guest"))


def test_a_certificate_of_nobody_we_know_is_no_login(secured: Client, site: Site) -> None:
    with pytest.raises(Refused) as caught:
        site.by_certificate(secured, "mallory")
    assert caught.value.condition == "amqp:unauthorized-access"
    site.process.wait_for_log("user=mallory")
    round_trip(site.by_password(secured))


def test_a_certificate_of_another_authority_ends_the_handshake(secured: Client, site: Site, tmp_path: Path) -> None:
    stranger = Certificates(tmp_path).issue("guest", common_name="guest")
    files = {**site.trust(), "certificate": str(stranger[0]), "key": str(stranger[1])}
    with pytest.raises(Refused):
        secured.connect(f"amqps://{site.address}", tls=files, allowed_mechs="EXTERNAL", seconds=5)
    site.process.wait_for_log("TLS handshake failed")


def test_a_broker_the_client_does_not_trust(secured: Client, site: Site, tmp_path: Path) -> None:
    others = {"authority": str(Certificates(tmp_path).authority_file)}
    with pytest.raises(Refused, match=r"(?i)certificate"):
        secured.connect(f"amqps://guest:guest@{site.address}", tls=others, seconds=5)


def test_a_wrong_password_over_tls(secured: Client, site: Site) -> None:
    with pytest.raises(Refused) as caught:
        site.by_password(secured, "hunter2-hunter2")
    assert caught.value.condition == "amqp:unauthorized-access"
    site.process.wait_for_log("login refused")
    assert "hunter2" not in site.process.log_end(1_000_000)


class Login:
    """A SASL exchange of which each frame is seen."""

    def __init__(self, client: RawAmqp10) -> None:
        self.client = client
        client.send(SASL_HEADER)
        assert client.read_header() == SASL_HEADER
        offered = client.read(SASL_MECHANISMS)
        assert offered is not None
        self.offered = offered.body

    def begin(self, mechanism: str, response: bytes) -> bytes:
        """Return the challenge."""
        self.client.send(frame(encode(Composite(SASL_INIT, [Symbol(mechanism), response])), kind=1))
        challenge = self.client.read(SASL_CHALLENGE)
        assert challenge is not None
        return binary_of(challenge.body)

    def respond(self, response: bytes) -> tuple[int, bytes]:
        """Return code and additional data of the outcome (§5.3.3.5)."""
        self.client.send(frame(encode(Composite(SASL_RESPONSE, [response])), kind=1))
        outcome = self.client.read(SASL_OUTCOME)
        assert outcome is not None
        code = outcome.body[outcome.body.index(b"\x50") + 1]
        return code, outcome.body


def binary_of(body: bytes) -> bytes:
    """Return the server's first message, the only binary of a challenge: all from its nonce on (RFC 5802 §7)."""
    return body[body.index(b"r=") :]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_frame_by_frame(site: Site, mechanism: str) -> None:
    with RawAmqp10(Peer(site.process.amqp_url, ours=True)) as client:
        login = Login(client)
        assert mechanism.encode() in login.offered
        scram = ScramClient(mechanism, "guest", "guest")
        code, outcome = login.respond(scram.final(login.begin(mechanism, scram.first)))
        assert code == 0
        assert outcome.endswith(scram.server_signature), "the broker proves that it knows the password"
        client.send(AMQP_HEADER)
        assert client.read_header() == AMQP_HEADER
        client.send(performative(OPEN, "raw", "localhost", Uint(65_536)))
        assert client.read(OPEN)


@pytest.mark.parametrize("name", ["guest", "nobody"])
def test_scram_with_a_wrong_password_tells_nothing_of_the_user(site: Site, name: str) -> None:
    with RawAmqp10(Peer(site.process.amqp_url, ours=True)) as client:
        login = Login(client)
        scram = ScramClient("SCRAM-SHA-256", name, "wrong")
        code, outcome = login.respond(scram.final(login.begin("SCRAM-SHA-256", scram.first)))
        assert code == 1
        assert b"v=" not in outcome
        client.expect_end()


@pytest.mark.debian
@pytest.mark.node
def test_clients_reconnect_over_tls_by_themselves(drivers: Drivers, site: Site) -> None:
    """Both clients over one restart of the broker: it is what takes the time."""
    clients = {name: Client(drivers.get(name), site.process.amqp_url) for name in ("proton", "rhea")}
    try:
        queue = f"again-{time.time_ns()}"
        connections = {
            name: site.by_password(client, reconnect=[0.05] * 400 if name == "proton" else True)
            for name, client in clients.items()
        }
        senders = {name: connection.sender(queue) for name, connection in connections.items()}
        for name, sender in senders.items():
            sender.accepted(data(b"before " + name.encode(), durable=True))
        site.process.restart()
        for name, connection in connections.items():
            connection.wait_opens(2)
            senders[name].accepted(data(b"after " + name.encode(), durable=True))
        bodies = texts(connections["proton"].receiver(queue).take(4))
        assert bodies == [b"before proton", b"before rhea", b"after proton", b"after rhea"]
    finally:
        for client in clients.values():
            client.close()
