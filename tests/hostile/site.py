"""The broker under attack, its users, and what is measured of it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pika
from pika.exceptions import ChannelClosedByBroker

from annulet.broker.security.password_hashes import HASHER
from annulet.demo.ports import free_ports
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.hostile.recording import SECURED_DOORS

HOSTILE = "hostile"
"""User whose sessions are recorded and replayed. His permissions end at names that begin with ``hostile``."""

PASSWORD = "hostile-password"

RESOURCE_LOCKED = 405

END_SECONDS = 30.0
"""How long a busy broker may take to read that a connection was cut, and to delete its exclusive queues."""

BULK_QUEUE = "hostile-bulk"
"""Written and read by recorded bulk transfer."""

CONFIGURATION = f"""
handshake_timeout = 2.0
heartbeat = 0

[listeners]
amqps = "127.0.0.1:{{amqps}}"
stomps = "127.0.0.1:{{stomps}}"
https = "127.0.0.1:{{https}}"
bulks = "127.0.0.1:{{bulks}}"

[tls]
certificate = "{{certificate}}"
key = "{{key}}"

[limits]
max_message_bytes = 1048576
login_delay_first = 0.0

[users.{HOSTILE}]
password_hash = "{{hash}}"
permissions = {{{{ "/" = {{{{ configure = "^hostile", write = "^(hostile|amq\\\\.default$)", read = "^hostile" }}}} }}}}

[users.guest]
password_hash = "{{guest}}"
tags = ["administrator"]
permissions = {{{{ "/" = {{{{ configure = ".*", write = ".*", read = ".*" }}}} }}}}
"""
"""Wrong passwords are not delayed: mutated ones would be most of the time. Everything else is as by default."""


@dataclass(frozen=True)
class Progress:
    """What explains steps of the broker's size: a bounded table that fills, work that is done for the first time."""

    losses: int  # that the ledger of the virtual host ``/`` has records of: full, some 6 MB
    forgotten: int  # losses whose records its bound has pushed out
    indexes: int  # of segments of the log; the first takes some 10 MB, which the C library keeps for its thread

    @property
    def full(self) -> bool:
        """Whether each further loss takes the place of another."""
        return self.forgotten > 0

    @property
    def settled(self) -> bool:
        """Whether the thread that makes indexes has its memory, too."""
        return self.full and self.indexes > 0


NO_PROGRESS = Progress(0, 0, 0)


class Site:
    """A broker process on disk, its ports by door, and its figures."""

    def __init__(self, process: BrokerProcess, secured: Mapping[str, int], tls: ssl.SSLContext) -> None:
        self.process = process
        self.tls = tls  # trusts the broker's certificate
        self.ports: Mapping[str, int] = {
            "amqp": process.amqp_port, "stomp": process.stomp_port, "http": process.http_port,
            "bulk": process.bulk_port, **secured,
        }  # fmt: skip

    @property
    def folder(self) -> Path:
        """Return a folder on the disk of the broker's data."""
        assert self.process.data is not None
        return self.process.data.parent

    def resident(self) -> int:
        """Return the broker's resident memory in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"process {self.process.pid} has no memory")

    def descriptors(self) -> int:
        """Return how many files and sockets the broker has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def progress(self) -> Progress:
        """Return how far the broker is from its working size."""
        found = self.process.get("/api/v1/losses?vhost=%2F&page_size=1")
        return Progress(found["total_count"], found["forgotten"], int(self.process.metric("log_indexes")))

    def connect(self) -> pika.BlockingConnection:
        """Open a connection of the administrator."""
        credentials = pika.PlainCredentials("guest", "guest")
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.process.amqp_port, credentials=credentials)
        )

    def queues(self) -> list[str]:
        """Return the names of the queues on the virtual host ``/``."""
        names: list[str] = []
        page, pages = 1, 1
        while page <= pages:
            found = self.process.get(f"/api/v1/queues?vhost=%2F&page_size=500&page={page}")
            names += [entry["name"] for entry in found["items"]]
            page, pages = page + 1, found["page_count"]
        return names

    def delete_hostile_queues(self) -> int:
        """Delete what inputs left behind and return the number: memory is compared without it.

        The queue of recorded bulk transfer stays, since that cannot declare it.
        """
        names = [name for name in self.queues() if name.startswith("hostile") and name != BULK_QUEUE]
        deadline = time.monotonic() + END_SECONDS
        connection = self.connect()
        for name in names:
            while not _deleted(connection, name):  # its connection was cut, and a busy broker has not read that
                assert time.monotonic() < deadline, f"queue {name} is still locked by a connection that was cut"
        channel = connection.channel()
        channel.queue_declare(BULK_QUEUE, durable=True)
        channel.queue_purge(BULK_QUEUE)
        connection.close()
        return len(names)

    def log(self) -> str:
        """Return the whole log."""
        assert self.process.log_file is not None
        return self.process.log_file.read_text(errors="replace")


def _deleted(connection: pika.BlockingConnection, name: str) -> bool:
    channel = connection.channel()
    try:
        channel.queue_delete(name)
    except ChannelClosedByBroker as closed:
        if closed.reply_code != RESOURCE_LOCKED:
            raise
        return False
    channel.close()
    return True


@contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    """Run a broker with its data and configuration in a folder."""
    configuration = folder / "annulet.toml"
    certificates = Certificates(folder / "certificates")
    secured = dict(zip(SECURED_DOORS, free_ports(len(SECURED_DOORS)), strict=True))
    text = CONFIGURATION.format(
        hash=HASHER.hash(PASSWORD),
        guest=HASHER.hash("guest"),
        certificate=certificates.certificate,
        key=certificates.key,
        **secured,
    )
    configuration.write_text(text)
    with BrokerProcess(folder / "data", "--config", str(configuration), bulk=True) as process:
        yield Site(process, secured, certificates.client_context())
