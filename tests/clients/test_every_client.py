"""Each client of the list over TLS, with a wrong password, after the broker was away, and in silence of either side.

A duty is tested here or elsewhere, or the client has it not, for a reason: the table says which. What takes time, a
restart and silence, all clients go through at once.
"""

from __future__ import annotations

import re
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import aiormq.connection
import pika
import pytest

from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.clients import matrix_clients
from tests.clients.amqp10 import proton_process, rhea_process
from tests.clients.celery_client import CeleryWorker
from tests.clients.every_client import (
    HEARTBEAT_SECONDS,
    AioPika,
    Amqp10,
    Amqplib,
    AmqpTools,
    Declined,
    EveryClient,
    Kombu,
    Pika,
    Place,
    PythonAmqplib,
    Stompjs,
    StompPy,
)
from tests.clients.silent_proxy import SilentProxy
from tests.clients.support import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("ours")

TLS, WRONG_PASSWORD, RECONNECT = "TLS", "wrong password", "reconnect"
SILENT_CLIENT, SILENT_BROKER = "silent client", "silent broker"
DUTIES = (TLS, WRONG_PASSWORD, RECONNECT, SILENT_CLIENT, SILENT_BROKER)

CLIENTS: dict[str, Callable[[], EveryClient]] = {
    "pika": Pika, "aio-pika": AioPika, "kombu": Kombu, "celery": CeleryWorker, "amqplib": Amqplib,
    "python3-amqplib": PythonAmqplib, "amqp-tools": AmqpTools, "proton": lambda: Amqp10(proton_process),
    "rhea": lambda: Amqp10(rhea_process), "stomp.py": StompPy, "stompjs": Stompjs,
}  # fmt: skip

MARKS = {
    "amqplib": pytest.mark.node, "rhea": pytest.mark.node, "stompjs": pytest.mark.node,
    "python3-amqplib": pytest.mark.debian, "amqp-tools": pytest.mark.debian, "proton": pytest.mark.debian,
}  # fmt: skip

HERE = {
    TLS: ("kombu", "celery", "amqplib", "python3-amqplib", "amqp-tools", "stompjs"),
    WRONG_PASSWORD: ("aio-pika", "kombu", "celery", "amqplib", "amqp-tools"),
    RECONNECT: ("pika", "kombu", "celery", "amqplib", "stompjs"),
    SILENT_CLIENT: tuple(name for name in CLIENTS if name != "python3-amqplib"),
    SILENT_BROKER: tuple(name for name in CLIENTS if name != "python3-amqplib"),
}
"""Duties that the tests below try."""

ELSEWHERE = {
    ("pika", TLS): "test_tls.py: test_a_server_certificate_is_enough",
    ("pika", WRONG_PASSWORD): "test_connections.py: test_a_wrong_password_is_refused",
    ("aio-pika", TLS): "test_tls.py: test_aio_pika_over_tls",
    ("aio-pika", RECONNECT): "test_aio_pika.py: test_a_robust_connection_survives_a_restart",
    ("python3-amqplib", WRONG_PASSWORD): "test_python3_amqplib.py: test_a_wrong_password_ends_the_connection",
    ("python3-amqplib", RECONNECT): "test_python3_amqplib.py: "
    "test_a_broker_that_stops_says_so_and_what_was_delivered_is_there_after_a_restart",
    ("proton", TLS): "test_amqp10_tls.py: test_messages_over_tls",
    ("proton", WRONG_PASSWORD): "test_amqp10_refusals.py: test_a_wrong_password",
    ("proton", RECONNECT): "test_amqp10_lifecycle.py: test_a_client_reconnects_by_itself",
    ("rhea", TLS): "test_amqp10_tls.py: test_messages_over_tls",
    ("rhea", WRONG_PASSWORD): "test_amqp10_refusals.py: test_a_wrong_password",
    ("rhea", RECONNECT): "test_amqp10_lifecycle.py: test_a_client_reconnects_by_itself",
    ("stomp.py", TLS): "test_stomp_tls.py: test_messages_over_tls",
    ("stomp.py", WRONG_PASSWORD): "test_stomp_py.py: test_a_wrong_password_is_told",
    ("stomp.py", RECONNECT): "test_stomp_py.py: test_a_client_that_reconnects_goes_on",
    ("stompjs", WRONG_PASSWORD): "../node/stomp.test.mjs: a wrong password is told in an ERROR frame",
}
"""Duties with tests of their own: the file, and the name of the test there."""

IMPOSSIBLE = {
    ("python3-amqplib", SILENT_CLIENT): "The library answers every offer of heartbeats with 0, none, and sends none.",
    ("python3-amqplib", SILENT_BROKER): "The library asks for no heartbeats, so it cannot miss any.",
    ("amqp-tools", RECONNECT): "Each program is one connection, and ends with it; its user starts it again.",
}
"""Duties that a client cannot have, and why not."""


def missing(name: str) -> str:
    """Return why a client cannot be used, empty when it can."""
    if name == "amqp-tools":
        return "" if shutil.which("amqp-publish") else "amqp-tools is not installed"
    return matrix_clients.missing("amqplib" if name == "stompjs" else name)


SETTINGS = """
heartbeat = {heartbeat}
[listeners]
amqps = "127.0.0.1:{amqps}"
https = "127.0.0.1:{https}"
[tls]
certificate = "{certificate}"
key = "{key}"
[limits]
login_delay_first = 0.01
"""


class Site:
    """A broker process with TLS and short heartbeats, and the test's own way to it."""

    def __init__(self, folder: Path) -> None:
        certificates = Certificates(folder)
        amqps, https = free_ports(2)
        file = folder / "annulet.toml"
        file.write_text(
            SETTINGS.format(
                heartbeat=HEARTBEAT_SECONDS,
                amqps=amqps,
                https=https,
                certificate=certificates.certificate,
                key=certificates.key,
            )
        )
        self.process = BrokerProcess(folder / "data", "--config", str(file), log_file=folder / "broker.log")
        self.plain = Place(self.process.amqp_port, self.process.stomp_port, self.process.http_port)
        self.secured = Place(amqps, 0, https, authority=str(certificates.authority_file))

    def make(self, name: str, duty: str) -> EveryClient:
        """Return a client, not yet connected, with a queue of its own for the duty."""
        client = CLIENTS[name]()
        client.queue = f"{duty} of {name}"
        with self.connect() as connection:
            connection.channel().queue_declare(client.queue, durable=True)
        return client

    def connect(self) -> pika.BlockingConnection:
        """Connect with a client that is not the one under test."""
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.process.amqp_port, heartbeat=0))

    def refused(self) -> int:
        """Return how many logins were refused."""
        with urllib.request.urlopen(f"{self.process.http_url}/metrics") as response:
            text = response.read().decode()
        (count,) = re.findall(r"^annulet_logins_refused_total (\S+)$", text, re.MULTILINE)
        return int(float(count))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("every-client"))
    with made.process:
        yield made


class Together:
    """Clients that do the same at the same time, each in a thread: :meth:`result` is what one of them came to.

    ``course`` gets the client and what it has to call when it is ready for what all of them wait for.
    """

    def __init__(self, site: Site, duty: str, course: Callable[[EveryClient, Callable[[], None]], str]) -> None:
        self.site = site
        self.duty = duty
        self.course = course
        self.stack = ExitStack()
        names = [name for name in HERE[duty] if not missing(name)]
        self.ready = {name: threading.Event() for name in names}
        self.pool = self.stack.enter_context(ThreadPoolExecutor(len(names)))
        self.ends = {name: self.pool.submit(self._run, name) for name in names}
        for event in self.ready.values():
            assert event.wait(PATIENCE_SECONDS)

    def _run(self, name: str) -> str:
        try:
            client = self.site.make(name, self.duty)
            try:
                return self.course(client, self.ready[name].set)
            finally:
                client.close()
        finally:
            self.ready[name].set()  # who fails before keeps nobody waiting

    def result(self, name: str) -> str:
        """Return what the course of a client returned, or raise what it raised; skips what is not installed."""
        if missing(name):
            pytest.skip(missing(name))
        return self.ends[name].result(2 * PATIENCE_SECONDS)  # later than its own patience ends


@pytest.fixture
def client(request: pytest.FixtureRequest, site: Site) -> Iterator[EveryClient]:
    """The client that a test names, not yet connected."""
    name, duty = request.param
    if missing(name):
        pytest.skip(missing(name))
    made = site.make(name, duty)
    yield made
    made.close()


def alone(duty: str) -> pytest.MarkDecorator:
    """Give a test each client of a duty in turn."""
    given = [pytest.param((name, duty), id=name, marks=MARKS.get(name, ())) for name in HERE[duty]]
    return pytest.mark.parametrize("client", given, indirect=True)


def among_all(duty: str) -> pytest.MarkDecorator:
    """Give a test the name of each client of a duty in turn."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in HERE[duty]])


@alone(TLS)
def test_messages_over_tls(site: Site, client: EveryClient) -> None:
    client.connect(site.secured)
    client.publish("over TLS")
    assert client.take() == "over TLS"


@alone(WRONG_PASSWORD)
def test_a_wrong_password_is_refused_and_the_client_says_so(site: Site, client: EveryClient) -> None:
    before = site.refused()
    with pytest.raises(Declined, match=r"(?i)access.?refused"):
        client.connect(replace(site.plain, password="hunter2-hunter2"))
    assert site.refused() > before
    assert "hunter2" not in site.process.log_end(1_000_000)


@pytest.fixture(scope="module")
def silence(site: Site) -> Iterator[Together]:
    """Clients that hold a message each, and a network that does not say that it broke."""
    proxy = SilentProxy()
    ports = [proxy.forward(port) for port in (site.plain.amqp, site.plain.stomp, site.plain.web)]
    place = Place(*ports, heartbeat=HEARTBEAT_SECONDS)
    proxy.start()

    def course(client: EveryClient, ready: Callable[[], None]) -> str:
        client.connect(place)
        client.publish("held")
        assert client.hold() == "held"
        ready()
        reason = client.wait_lost()
        assert proxy.silent.is_set(), f"lost before: {reason}"
        return reason

    with pytest.MonkeyPatch.context() as patch:  # else aio-pika gives up after six seconds
        patch.setattr(aiormq.connection.Connection, "HEARTBEAT_GRACE_MULTIPLIER", 1)
        together = Together(site, SILENT_CLIENT, course)
    proxy.fall_silent()
    with together.stack:
        yield together
    proxy.close()


@among_all(SILENT_CLIENT)
def test_a_client_that_falls_silent_loses_what_it_held(site: Site, silence: Together, name: str) -> None:
    """Nothing but missing heartbeats tells the broker, see :class:`SilentProxy`."""
    if missing(name):
        pytest.skip(missing(name))
    with site.connect() as connection:
        channel = connection.channel()
        came: list[tuple[bool, bytes]] = []
        channel.basic_consume(
            f"{SILENT_CLIENT} of {name}",
            lambda _, method, __, body: came.append((method.redelivered, body)),
            auto_ack=True,
        )
        wait_until(lambda: came, connection, f"for what {name} held")
    ((redelivered, body),) = came
    assert redelivered
    assert b"held" in body  # tasks of Celery have more around it
    site.process.wait_for_log("missed heartbeats")


@among_all(SILENT_BROKER)
def test_a_client_gives_up_a_broker_that_falls_silent(silence: Together, name: str) -> None:
    assert silence.result(name)


@pytest.fixture(scope="module")
def restart(site: Site) -> Iterator[Together]:
    """Clients of a broker that is killed and started again."""

    def course(client: EveryClient, ready: Callable[[], None]) -> str:
        client.connect(site.plain)
        client.leave("before")
        ready()
        client.reconnect(site.plain)
        before = client.take()
        client.publish("after")
        return f"{before} and {client.take()}"

    together = Together(site, RECONNECT, course)
    site.process.restart()
    with together.stack:
        yield together


@among_all(RECONNECT)
def test_a_client_comes_back_after_the_broker_was_killed(restart: Together, name: str) -> None:
    assert restart.result(name) == "before and after"


def test_every_client_has_every_duty_or_a_reason() -> None:
    for name in CLIENTS:
        for duty in DUTIES:
            found = (name in HERE[duty], (name, duty) in ELSEWHERE, (name, duty) in IMPOSSIBLE)
            assert sum(found) == 1, f"{name}, {duty}: tested here, elsewhere, or impossible: {found}"


@pytest.mark.parametrize(("name", "duty"), ELSEWHERE)
def test_what_is_tested_elsewhere_is_there(name: str, duty: str) -> None:
    file, _, test = ELSEWHERE[name, duty].partition(": ")
    written = (Path(__file__).parent / file).read_text()
    assert f"def {test}(" in written or f'test("{test}"' in written
    assert name in CLIENTS


def test_what_is_impossible_has_a_reason() -> None:
    assert set(IMPOSSIBLE) <= {(name, duty) for name in CLIENTS for duty in DUTIES}
    assert all(len(reason.split()) > 5 for reason in IMPOSSIBLE.values())
