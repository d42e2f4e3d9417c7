"""The client: a broker that comes back is waited for, what was interrupted goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from annulet.broker.settings.limits import Limits
from annulet.bulk import client as client_module
from annulet.bulk.client import BulkClient, connect
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import (
    StageInterruptedError,
    UnavailableError,
)
from annulet.bulk.protocol.url import parse_url
from annulet.demo.ports import free_ports
from tests.bulk.helpers import away, bench, bulk_client, stage_name


async def test_a_client_waits_for_a_broker_that_restarts(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with bench(tmp_path, bulk_port=port) as here:
        here.declare("q")
        await here.publish("q", [b"a"])
        client = BulkClient(parse_url(here.url))
        await away(lambda: client.act(protocol.QueueStatus(queue="q")))
    waiting = asyncio.create_task(away(lambda: client.act(protocol.QueueStatus(queue="q"))))
    async with bench(tmp_path, bulk_port=port):
        answer = await waiting  # with a new token, as the old ones are gone
        assert answer.pop("lag_milliseconds") >= 0
        assert answer == {"last_sequence": 1, "pending": 1}


def test_nobody_there_ends_after_the_patience_given() -> None:
    (port,) = free_ports(1)
    now = [0.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    client = BulkClient(parse_url(f"annulet://127.0.0.1:{port}"), retry_seconds=5, clock=lambda: now[0], sleep=sleep)
    with pytest.raises(UnavailableError, match=r"no answer .* within 5 seconds"):
        client.act(protocol.ListLeases())
    assert slept[:3] == [0.1, 0.2, 0.4]
    assert max(slept) <= client_module.BACKOFF_MAX_SECONDS
    assert 3 < sum(slept) <= 5


async def test_an_interrupted_stream_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        bodies = [b"%05d" % number for number in range(12_000)]
        await here.publish("q", bodies)
        client = BulkClient(parse_url(here.url), sleep=lambda _: None)
        chunks = client._chunks
        failures = [2, 1]

        def interrupted(reader: Any) -> Iterator[pa.RecordBatch]:
            left = failures.pop() if failures else -1
            for batch in chunks(reader):
                if left == 0:
                    raise UnavailableError("connection reset")
                left -= 1
                yield batch

        monkeypatch.setattr(client, "_chunks", interrupted)

        def work() -> list[bytes]:
            view = client.act(protocol.OpenBrowse(queue="q"))["snapshot"]
            ticket = protocol.BrowseTicket(snapshot=view, after=0, upto=12_000)
            return [body for batch in client.get(ticket) for body in batch.column("body").to_pylist()]

        assert await away(work) == bodies
        assert failures == []


@pytest.mark.parametrize("kept", [True, False])
async def test_an_interrupted_stage_is_sent_again_when_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    async with bench(tmp_path) as here:
        client = BulkClient(parse_url(here.url), sleep=lambda _: None)
        rows = pa.record_batch({"body": ["a"]})
        if not kept:
            monkeypatch.setattr(client_module, "REPEATABLE_PUT_BYTES_MAX", rows.nbytes)
        send = client._put
        attempts: list[int] = []

        def interrupted(request: Any, schema: Any, batches: Iterator[pa.RecordBatch]) -> dict[str, int]:
            attempts.append(0)
            if len(attempts) == 1:
                next(batches), next(batches)
                raise UnavailableError("connection reset")
            return send(request, schema, batches)

        monkeypatch.setattr(client, "_put", interrupted)
        request = protocol.PutStage(query="x", stage=stage_name())
        if kept:
            assert (await away(lambda: client.put(request, rows.schema, [rows] * 3)))["rows"] == 3
        else:
            with pytest.raises(StageInterruptedError, match=r"connection reset.*repeat the write"):
                await away(lambda: client.put(request, rows.schema, [rows] * 3))


def test_connections_are_kept_per_process_and_address() -> None:
    url = parse_url("annulet://127.0.0.1:1")
    assert connect(url) is connect(parse_url("annulet://127.0.0.1:1/"))
    assert connect(url) is not connect(parse_url("annulet://127.0.0.1:2"))
    assert connect(url) is not connect(url, retry_seconds=1)


async def test_rows_that_take_long_to_compute_do_not_use_up_the_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        now = [0.0]
        client = BulkClient(parse_url(here.url), retry_seconds=5, clock=lambda: now[0], sleep=lambda _: None)
        rows = pa.record_batch({"body": ["a"]})

        def slow() -> Iterator[pa.RecordBatch]:
            for _ in range(3):
                now[0] += 1000
                yield rows

        send = client._put
        failures = [1, 2]

        def interrupted(request: Any, schema: Any, batches: Iterator[pa.RecordBatch]) -> dict[str, int]:
            if failures:
                for _ in range(failures.pop()):
                    next(batches)
                raise UnavailableError("connection reset")
            return send(request, schema, batches)

        monkeypatch.setattr(client, "_put", interrupted)
        request = protocol.PutStage(query="x", stage=stage_name())
        assert (await away(lambda: client.put(request, rows.schema, slow())))["rows"] == 3
        assert failures == []


def test_batches_are_sent_in_messages_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark counts rows of a batch, whatever their size; the broker takes messages of a bounded size only."""
    monkeypatch.setattr(client_module, "MESSAGE_BYTES_MAX", 1000)
    small = pa.record_batch({"body": [b"x" * 100] * 3})
    assert list(client_module.split(small)) == [small]
    bodies = [b"x" * length for length in (900, 10, 10, 5000, 300, 300, 300, 300)]
    parts = list(client_module.split(pa.record_batch({"body": bodies})))
    assert [body for part in parts for body in part.column("body").to_pylist()] == bodies
    assert all(part.nbytes <= 1000 or part.num_rows == 1 for part in parts)
    assert len(parts) < len(bodies)


async def test_a_batch_larger_than_a_message_may_be_arrives_whole(tmp_path: Path) -> None:
    async with bench(tmp_path, limits=Limits(max_message_bytes=2**20)) as here:
        here.declare("q")
        rows = pa.record_batch({"body": [bytes([number]) * 2**20 for number in range(80)]})

        def work() -> None:
            sender, name = bulk_client(here), stage_name()
            assert sender.put(protocol.PutStage(query="x", stage=name), rows.schema, [rows])["rows"] == 80
            sender.act(protocol.CommitPublish(query="x", batch=0, stages=[name], address="q", persistent=False))

        await away(work)
        assert [body[:1] for body in here.bodies("q")] == [bytes([number]) for number in range(80)]
