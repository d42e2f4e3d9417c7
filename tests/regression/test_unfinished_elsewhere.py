"""A6: what HTTP, WebSocket and bulk transfer have in hand counts as unfinished work too, and commits have a bound."""

from __future__ import annotations

import asyncio
import base64
import gc
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from annulet import testing
from annulet.broker.settings.limits import Limits
from annulet.bulk.bounds.arriving import TOLD_BYTES
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError, OverLimitError, UnavailableError
from annulet.bulk.protocol.url import parse_url
from annulet.bulk.writing.commit_room import PROPERTY_BYTES, commit_bytes
from annulet.bulk.writing.stages import StageKey
from annulet.testing.in_process import RunningBroker
from tests.broker.conftest import until
from tests.bulk.helpers import away, bench, bulk_client, stage_name
from tests.regression.blocking_clients import HttpClient, WebSocketClient

LIMIT = 1 << 20
PART = 400_000
SECONDS = 20.0


@pytest.fixture
async def running() -> AsyncIterator[RunningBroker]:
    limits = Limits(max_unfinished_bytes=LIMIT)
    async with testing.broker(http=True, limits=limits) as broker:
        broker.broker.hosts["/"].declare_queue("q", now=0)
        yield broker


def http_address(running: RunningBroker) -> tuple[str, int]:
    host, port = running.http_url.removeprefix("http://").split(":")
    return host, int(port)


def request_head(length: int, user: str = "guest:guest") -> bytes:
    """Return the head of a request whose body has ``length`` octets."""
    lines = ["POST /api/v1/queues/%2F/q/operations HTTP/1.1", "Host: localhost", f"Content-Length: {length}"]
    lines.append(f"Authorization: Basic {base64.b64encode(user.encode()).decode()}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def test_bodies_of_requests_count_and_the_largest_is_refused(running: RunningBroker) -> None:
    """A6: 100 bodies of 4 MiB at once were outside the bound."""
    unfinished = running.broker.unfinished
    address = http_address(running)
    small, large = await asyncio.to_thread(lambda: (HttpClient(address), HttpClient(address)))
    with small, large:
        await asyncio.to_thread(small.send, request_head(PART + 1) + b" " * PART)
        await until(lambda: unfinished.total == PART, SECONDS)
        await asyncio.to_thread(large.send, request_head(2 * PART) + b" " * (LIMIT - PART))
        await until(lambda: unfinished.total == LIMIT, SECONDS)
        await asyncio.to_thread(large.send, b" ")
        answer = await asyncio.to_thread(large.until, b"}")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"max_unfinished_bytes" in answer
        assert unfinished.total == PART
        await asyncio.to_thread(small.send, b" ")
        assert (await asyncio.to_thread(small.until, b"\r\n")).startswith(b"HTTP/1.1 400"), "it is served"
    assert (unfinished.total, unfinished.refused) == (0, 1)
    assert running.broker.admission.limit_hits["HTTP", "max_unfinished_bytes"] == 1


async def test_nothing_of_a_body_is_read_before_the_login(running: RunningBroker) -> None:
    """A6: of strangers only what fits into buffers below the application is taken."""
    with await asyncio.to_thread(HttpClient, http_address(running)) as stranger:
        await asyncio.to_thread(stranger.send, request_head(4 << 20, "guest:wrong") + b" " * (64 << 10))
        answer = await asyncio.to_thread(stranger.until, b"\r\n")
        assert answer.startswith(b"HTTP/1.1 401")
        assert running.broker.unfinished.total == 0


async def test_a_frame_over_web_socket_counts(running: RunningBroker) -> None:
    """A6, a brother: a WebSocket carries STOMP, whose unfinished frames count."""

    def work() -> bytes:
        with WebSocketClient(http_address(running)).open() as client:
            client.message(b"SEND\ndestination:/queue/q\ncontent-length:9000000\n\n" + bytes(LIMIT + 1))
            return client.until(b"max_unfinished_bytes")

    assert b"ERROR" in await away(work)
    await until(lambda: not running.broker.connections, SECONDS)
    assert (running.broker.unfinished.total, running.broker.unfinished.refused) == (0, 1)


class Stream:
    """A stage that is sent and not ended, on a connection of its own."""

    def __init__(self, url: str) -> None:
        client = BulkClient(parse_url(url), retry_seconds=0)
        client.act(protocol.ListLeases())
        request = msgspec.json.encode(protocol.PutStage(query="x", stage=stage_name()))
        headers = [(b"authorization", b"Bearer " + client._token.encode())]
        own = [("annulet.channel", stage_name())]  # else clients of a process share connections
        self.connection = flight.connect(parse_url(url).location, generic_options=own)
        self.schema = pa.schema([("body", pa.binary())])
        descriptor = flight.FlightDescriptor.for_command(request)
        options = flight.FlightCallOptions(headers=headers, timeout=3 * SECONDS)
        self.writer: Any
        self.writer, self.answers = self.connection.do_put(descriptor, self.schema, options)

    def send(self, size: int) -> None:
        """Send one row of so many bytes."""
        self.writer.write_batch(pa.record_batch({"body": [bytes(size)]}))

    def end(self) -> dict[str, int]:
        """End the stage and return the answer."""
        self.writer.write_metadata(pa.py_buffer(protocol.END_OF_STAGE))
        self.writer.done_writing()
        answer = self.answers.read()
        self.writer.close()  # raises what ended the call
        counts: dict[str, int] = msgspec.json.decode(answer.to_pybytes())
        return counts


async def test_messages_of_bulk_transfer_count_and_the_largest_connection_ends(tmp_path: Path) -> None:
    """A6: the messages of a connection had a bound, those of all had none."""
    limit = 16 << 20
    async with bench(tmp_path, limits=Limits(max_unfinished_bytes=limit)) as here:
        here.declare("q")
        unfinished = here.broker.unfinished
        small, large = await away(lambda: (Stream(here.url), Stream(here.url)))
        await away(lambda: small.send(limit // 8))
        await until(lambda: unfinished.total >= limit // 4 - TOLD_BYTES, SECONDS)
        await away(lambda: large.send(limit // 4))
        await until(lambda: unfinished.total >= limit * 3 // 4 - TOLD_BYTES, SECONDS)

        def more() -> None:
            large.send(limit // 4)
            large.end()

        with pytest.raises(pa.ArrowException, match="max_unfinished_bytes"):
            await away(more)
        assert (await away(small.end))["rows"] == 1, "the other goes on"
        await until(lambda: unfinished.total == 0, SECONDS)
        assert unfinished.refused == 1
        assert here.broker.admission.limit_hits["bulk transfer", "max_unfinished_bytes"] == 1


async def test_a_batch_beyond_the_bound_of_commits_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A6, a brother: a commit has its batch in memory; only the bytes of each stage had a bound, 2 GiB."""
    async with bench(tmp_path, limits=Limits(max_commit_bytes=LIMIT)) as here:
        here.declare("q")
        client = bulk_client(here)
        rows = pa.record_batch({"body": [bytes(PART)]})

        def publish(batch: int, count: int) -> dict[str, Any]:
            names = [f"{batch}-{number}-0-{'0' * 32}" for number in range(count)]
            for name in names:
                client.put(protocol.PutStage(query="x", stage=name), rows.schema, [rows])
            request = protocol.CommitPublish(query="x", batch=batch, stages=names, address="q")
            answer: dict[str, Any] = client.act(request)
            return answer

        assert (await away(lambda: publish(0, 1)))["messages"] == 1
        with pytest.raises(InvalidRequestError, match=r"1048576 are allowed \(max_commit_bytes\)"):
            await away(lambda: publish(1, 2))
        assert here.broker.admission.limit_hits["bulk transfer", "max_commit_bytes"] == 1
        assert (await away(lambda: publish(2, 1)))["messages"] == 1
        assert here.service.publisher.room.used == 0


async def test_a_stage_that_was_weighed_is_not_replaced_by_a_larger_one(tmp_path: Path) -> None:
    """A6, a brother: a stage was sent again while its commit waited for room, and was read at its new size."""
    async with bench(tmp_path, limits=Limits(max_commit_bytes=LIMIT)) as here:
        here.declare("q")
        client, other = bulk_client(here), bulk_client(here)
        stage = protocol.PutStage(query="x", stage=stage_name())
        small, large = (pa.record_batch({"body": [bytes(size)]}) for size in (1, 2 * LIMIT))
        await away(lambda: client.put(stage, small.schema, [small]))

        def send_until_refused() -> None:
            refused = ""
            while not refused:
                try:
                    client.put(stage, small.schema, [small])
                except UnavailableError as error:
                    refused = str(error)
            assert "is being committed" in refused
            with pytest.raises(UnavailableError, match="is being committed"):
                client.put(stage, large.schema, [large])

        commit = protocol.CommitPublish(query="x", batch=0, stages=[stage.stage], address="q")
        async with here.service.publisher.room.taken(LIMIT):
            committed = asyncio.create_task(away(lambda: other.act(commit)))
            await away(send_until_refused)
        assert (await committed)["messages"] == 1
        assert here.bodies("q") == [b"\0"]
        assert here.service.publisher.room.used == 0
        await away(lambda: client.put(stage, small.schema, [small]))


async def test_properties_of_a_batch_count(tmp_path: Path) -> None:
    """A6, a brother: properties of some octets take two hundred bytes each while they are read, and counted as some."""
    async with bench(tmp_path, limits=Limits(max_commit_bytes=LIMIT)) as here:
        here.declare("q")
        client = bulk_client(here)

        def publish(batch: int, count: int, batches: int) -> dict[str, Any]:
            maps = pa.array([[(str(number), "v") for number in range(count)]], pa.map_(pa.string(), pa.string()))
            rows = pa.record_batch({"body": [b"x"], "properties": maps})
            name = f"{batch}-0-0-{'0' * 32}"
            client.put(protocol.PutStage(query="x", stage=name), rows.schema, [rows] * batches)
            request = protocol.CommitPublish(query="x", batch=batch, stages=[name], address="q")
            answer: dict[str, Any] = client.act(request)
            return answer

        fits = LIMIT // PROPERTY_BYTES * 4 // 5
        assert (await away(lambda: publish(0, fits, 1)))["messages"] == 1
        assert (await away(lambda: publish(1, fits // 8, 8)))["messages"] == 8, "one Arrow batch after the other"
        with pytest.raises(InvalidRequestError, match="max_commit_bytes"):
            await away(lambda: publish(2, LIMIT // PROPERTY_BYTES, 1))


async def test_destinations_of_a_batch_count(tmp_path: Path) -> None:
    """A6, a brother: a routing key of its own for each row took 1.5 times what was counted for the row."""
    rows = 1000
    batch = pa.record_batch({"body": [b"x" * 10] * rows, "routing_key": [f"k{number:06}" for number in range(rows)]})
    one_key = commit_bytes(rows, batch.nbytes, 0, 1)
    async with bench(tmp_path, limits=Limits(max_commit_bytes=one_key)) as here:
        queue = here.declare("q")
        here.host.bind_queue(queue, "amq.topic", "#")
        client = bulk_client(here)

        def publish(number: int, **destination: str) -> int:
            name = f"{number}-0-0-{'0' * 32}"
            client.put(protocol.PutStage(query="x", stage=name), batch.schema, [batch])
            answer = client.act(protocol.CommitPublish(query="x", batch=number, stages=[name], **destination))
            return int(answer["messages"])

        assert await away(lambda: publish(0, exchange="amq.topic", routing_key="k")) == rows
        with pytest.raises(InvalidRequestError, match="max_commit_bytes"):
            await away(lambda: publish(1, exchange="amq.topic"))


async def test_what_a_commit_takes_is_what_is_counted(tmp_path: Path) -> None:
    """A6: the memory of a batch by its measure, whatever the keys are."""
    rows = 10_000
    keys = [f"k{number:06}" + "\N{GRINNING FACE}" * (number % 60) for number in range(rows)]
    batch = pa.record_batch({"body": [b"x" * 10] * rows, "routing_key": keys})
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        here.host.bind_queue(queue, "amq.topic", "#")
        client, name = bulk_client(here), f"0-0-0-{'0' * 32}"
        stage = protocol.PutStage(query="x", stage=name)
        await away(lambda: client.put(stage, batch.schema, [batch]))
        commit = protocol.CommitPublish(query="x", batch=0, stages=[name], exchange="amq.topic")
        gc.collect()
        tracemalloc.start()
        try:
            assert (await away(lambda: client.act(commit)))["messages"] == rows
            taken = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    counted = commit_bytes(rows, batch.nbytes, 0, rows)
    assert counted / 2 < taken < counted


async def test_stages_in_memory_take_a_quarter_of_the_memory_limit() -> None:
    """A6: without a data directory stages are in memory, and their limits were those of a disk."""
    async with bench(memory_limit_bytes=4 << 20) as here:
        batch = pa.record_batch({"body": [bytes(PART)]})

        def write() -> None:
            here.service.stages.write(StageKey("x", stage_name()), batch.schema, [batch])

        write()
        write()
        with pytest.raises(OverLimitError, match=r"1048576 are allowed .* give the broker a data directory"):
            write()
