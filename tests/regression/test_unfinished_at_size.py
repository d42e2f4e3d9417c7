"""A6 at the size of the issue: a broker process, its memory limit, and what its resident set is meanwhile.

The same at small sizes, and of each protocol, is in ``test_unfinished_work`` and ``test_unfinished_elsewhere``.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.url import parse_url
from annulet.wire.amqp091.types.constants import PROTOCOL_HEADER
from tests.broker_process import BrokerProcess
from tests.regression.blocking_clients import Amqp091Client, BlockingClient, HttpClient
from tests.regression.test_unfinished_elsewhere import Stream, request_head

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

MEBIBYTE = 1 << 20
SECONDS = 60.0


class Watched:
    """A broker whose resident set is looked at a hundred times a second."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.peak = 0
        self.idle = self.resident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.broker.amqp_port

    @property
    def http_address(self) -> tuple[str, int]:
        return "127.0.0.1", self.broker.http_port

    def resident(self) -> int:
        """Return the resident set in MiB."""
        pages = int(Path(f"/proc/{self.broker.pid}/statm").read_text().split()[1])
        return pages * 4096 // MEBIBYTE

    def end(self, what: str) -> None:
        """Say what was seen."""
        self._ended.set()
        self._thread.join()
        print(f"{what}: resident set idle {self.idle} MiB, highest {self.peak} MiB, afterwards {self.resident()} MiB")

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.peak = max(self.peak, self.resident())


@contextlib.contextmanager
def watched(what: str, tmp_path: Path, limit: int, *arguments: str, bulk: bool = False) -> Iterator[Watched]:
    """Run a broker with a memory limit in MiB."""
    with BrokerProcess(tmp_path / "data", "--memory-limit", f"{limit}MiB", *arguments, bulk=bulk) as broker:
        seen = Watched(broker)
        try:
            yield seen
        finally:
            seen.end(what)


def opened(address: tuple[str, int], queue: str = "q") -> Amqp091Client:
    client = Amqp091Client(address).open()
    client.call(1, "channel.open")
    client.call(1, "queue.declare", {"queue": queue, "durable": True})
    return client


def publishers_go_on(seen: Watched) -> None:
    """Publish with confirms; each call has its time-out."""
    with opened(seen.address, "after") as client:
        client.call(1, "confirm.select")
        for _ in range(10):
            client.publish(1, "after", bytes(1000))
            assert client.next_method().specification.name == "basic.ack"


def together(count: int, work: Callable[[int], None]) -> None:
    """Do something in threads, all at once."""
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "it hangs"


def test_a_transaction_of_240_mb_at_300_mib(tmp_path: Path) -> None:
    """A6: it stopped all publishers for good. It is refused, as it would take more than a half, or it is committed."""
    with watched("transaction of 240 MB at 300 MiB", tmp_path, 300) as seen:
        with opened(seen.address) as client:
            client.call(1, "tx.select")
            with contextlib.suppress(OSError):
                for _ in range(240):
                    client.publish(1, "q", bytes(1_000_000))
            close = client.next_method()
            assert (close.specification.name, close.integer("reply_code")) == ("connection.close", 506)
            assert "max_unfinished_bytes" in close.text("reply_text")
        publishers_go_on(seen)
    assert seen.peak < 300


def test_the_same_transaction_where_the_limit_has_room_for_it(tmp_path: Path) -> None:
    """A6: it is honest, and the operator may say so. Publishers are held back, and go on when it has ended."""
    configuration = tmp_path / "annulet.toml"
    configuration.write_text(f"[limits]\nmax_unfinished_bytes = {280 * MEBIBYTE}\n")
    with watched("allowed transaction of 240 MB at 300 MiB", tmp_path, 300, "--config", str(configuration)) as seen:
        with opened(seen.address) as client:
            client.socket.settimeout(SECONDS)
            client.call(1, "tx.select")
            for _ in range(240):
                client.publish(1, "q", bytes(1_000_000))
            assert client.call(1, "tx.commit").specification.name == "tx.commit-ok"
        publishers_go_on(seen)
        assert seen.broker.get("/api/v1/queues/%2F/q")["message_count"] == 240


def test_twelve_connections_of_endless_bodies_at_900_mib(tmp_path: Path) -> None:
    """A6: they took 1.5 GB."""
    with watched("12 connections of endless bodies at 900 MiB", tmp_path, 900) as seen:
        codes: list[int] = []

        def endless(number: int) -> None:
            with opened(seen.address, f"q{number}") as client:
                client.publish(1, f"q{number}", b"", announced=128 * MEBIBYTE)
                with contextlib.suppress(OSError):
                    for _ in range(127 * 8):
                        client.frame(3, 1, bytes(MEBIBYTE // 8))
                with contextlib.suppress(OSError):
                    client.socket.settimeout(1.0)
                    codes.append(client.next_method().integer("reply_code"))

        together(12, endless)
        publishers_go_on(seen)
    print(f"connections ended with 506: {codes.count(506)}")
    assert seen.peak < 900


def test_strangers_with_all_they_may_send(tmp_path: Path) -> None:
    """A6: before the login, 750 connections of AMQP with unfinished frames, and of bulk transfer with all it takes."""
    with watched("750 strangers of AMQP", tmp_path, 300) as seen:
        clients = [BlockingClient(seen.address) for _ in range(750)]
        with contextlib.ExitStack() as stack:
            for client in clients:
                stack.enter_context(client)
                client.socket.settimeout(0.1)
                with contextlib.suppress(OSError):
                    client.send(PROTOCOL_HEADER + b"\x01\x00\x00\x00\x01\x00\x00" + bytes(60_000))
            time.sleep(1.0)
            print(f"with 750 strangers {seen.resident()} MiB")
        publishers_go_on(seen)
    assert seen.peak < 300


def test_streams_of_bulk_transfer_at_300_mib(tmp_path: Path) -> None:
    """A6: 16 connections, each with record batches of 24 MiB under way: 384 MiB that no bound of all counted."""
    with watched("16 streams of 24 MiB at 300 MiB", tmp_path, 300, bulk=True) as seen:
        ended: list[str] = []

        def write(_: int) -> None:
            stream = Stream(seen.broker.bulk_url)
            try:
                for _ in range(4):
                    stream.send(24 * MEBIBYTE)
                stream.end()
            except pa.ArrowException as error:
                ended.append("limit" if "max_unfinished_bytes" in str(error) else str(error))
            else:
                ended.append("written")

        together(16, write)
        publishers_go_on(seen)
    print({text: ended.count(text) for text in sorted(set(ended))})
    assert "written" in ended
    assert seen.peak < 360, "what was told a moment too late"


def test_a_batch_of_60_mib_is_published_at_300_mib(tmp_path: Path) -> None:
    """A6, a brother: it has to be in memory as a whole, and one that has no room there is refused."""
    with watched("batches of 60 and 100 MiB at 300 MiB", tmp_path, 300, bulk=True) as seen:
        with opened(seen.address):
            pass
        client = BulkClient(parse_url(seen.broker.bulk_url), retry_seconds=0)
        rows = pa.record_batch({"body": [bytes(MEBIBYTE)] * 10})

        def publish(batch: int, count: int) -> None:
            name = f"{batch}-0-0-{'0' * 32}"
            client.put(protocol.PutStage(query="x", stage=name), rows.schema, [rows] * (count // 10))
            client.act(protocol.CommitPublish(query="x", batch=batch, stages=[name], address="q"))

        publish(0, 60)
        with pytest.raises(InvalidRequestError, match="max_commit_bytes"):
            publish(1, 100)
        publishers_go_on(seen)
        assert seen.broker.get("/api/v1/queues/%2F/q")["message_count"] == 60
    assert seen.peak < 300


@pytest.mark.parametrize("user", ["guest:guest", "guest:wrong"])
def test_a_hundred_bodies_of_4_mib_at_256_mib(tmp_path: Path, user: str) -> None:
    """A6: they were outside the bound; with the password and without."""
    with watched(f"100 HTTP bodies of 4 MiB as {user}", tmp_path, 256) as seen:
        with opened(seen.address):
            pass
        statuses: list[bytes] = []

        def post(_: int) -> None:
            with HttpClient(seen.http_address) as client:
                client.socket.settimeout(5.0)
                with contextlib.suppress(OSError):
                    client.send(request_head(4 * MEBIBYTE, user))
                    for _ in range(4 * 16 - 1):
                        client.send(b" " * (MEBIBYTE // 16))
                with contextlib.suppress(OSError):
                    statuses.append(client.until(b"\r\n")[9:12])

        together(100, post)
        publishers_go_on(seen)
    print({status.decode(): statuses.count(status) for status in sorted(set(statuses))})
    assert seen.peak < 256
