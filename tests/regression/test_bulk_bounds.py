"""What one user, and a stranger, may take of the broker by bulk transfer (issue 30, A7)."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from annulet.broker.settings.limits import Limits
from annulet.bulk.bounds import call_bounds
from annulet.bulk.bounds.message_meter import STRANGER_STREAMS_MAX
from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.bulk.protocol.url import parse_url
from tests.bulk.helpers import Bench, away, bench, bulk_client, stage_name

MEBIBYTE = 2**20


async def test_stages_of_one_user_are_bounded_and_counted(tmp_path: Path) -> None:
    """A7: the stages of one user filled the disk."""
    async with bench(tmp_path, limits=Limits(max_stage_bytes_per_user=2 * MEBIBYTE)) as here:
        here.declare("q")
        rows = pa.record_batch({"body": [b"x" * (MEBIBYTE - 8192)]})

        def work() -> None:
            client = bulk_client(here)
            for _ in range(2):
                client.put(protocol.PutStage(query="x", stage=stage_name()), rows.schema, [rows])
            with pytest.raises(InvalidRequestError, match="max_stage_bytes_per_user"):
                client.put(protocol.PutStage(query="x", stage=stage_name()), rows.schema, [rows])

        await away(work)
        count, size = here.broker.staged.figures()
        assert (count, 2 * rows.nbytes <= size <= 2 * MEBIBYTE) == (2, True)
        assert here.broker.admission.limit_hits["bulk transfer", "max_stage_bytes_per_user"] == 1


async def refusal(here: Bench, work: Callable[[], object], limit: str) -> str:
    """Do what is refused; return what the client is told, when the refusal was counted."""
    with pytest.raises(pa.ArrowException) as caught:
        await away(work)
    while not here.broker.admission.limit_hits["bulk transfer", limit]:  # noqa: ASYNC110 - told by another thread
        await asyncio.sleep(0.01)
    return str(caught.value)


async def test_a_large_action_before_the_login_is_not_read(tmp_path: Path) -> None:
    """A7: an action of 600 MiB by a stranger was read whole: 2.2 GB of memory."""
    async with bench(tmp_path) as here:
        raw = flight.connect(parse_url(here.url).location)
        action = flight.Action("login", b" " * (64 * MEBIBYTE))
        text = await refusal(here, lambda: list(raw.do_action(action)), "request_bytes_max")
        assert "4194304 are allowed (request_bytes_max)" in text


async def test_no_more_than_the_limit_comes_in_before_the_login(tmp_path: Path) -> None:
    """A7: each message of a stranger below the limit of its kind, all of them above that of strangers."""
    async with bench(tmp_path, handshake_timeout=0.5) as here:
        raw = flight.connect(parse_url(here.url).location)
        action = flight.Action("login", b" " * (2 * MEBIBYTE))
        text = await refusal(here, lambda: list(raw.do_action(action)), "max_unauthenticated_bytes")
        assert "65536 octets before authentication" in text


def _empty_message(stream: int) -> bytes:
    """Return a frame with the one message of a call, an empty one."""
    return b"\0\0\x05\0\x01" + stream.to_bytes(4, "big") + bytes(5)


def _headers(stream: int, *more: bytes, path: bytes = b"DoPut") -> bytes:
    """Return a frame that begins a call, without any message. ``more``: name and value of a further header."""
    further = (more,) if more else ()
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/arrow.flight.protocol.FlightService/" + path),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *further,
    )
    block = b"".join(b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value for name, value in fields)
    return len(block).to_bytes(3, "big") + b"\x01\x04" + stream.to_bytes(4, "big") + block


async def test_a_stranger_takes_few_threads(tmp_path: Path) -> None:
    """A7: 255 calls of DoPut with headers only, before a login, took a thread of the server each."""
    async with bench(tmp_path, handshake_timeout=2.0) as here:
        await away(lambda: bulk_client(here).act(protocol.ListLeases()))
        before = _threads()
        reader, writer = await asyncio.open_connection("127.0.0.1", here.service.port)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
        writer.write(b"".join(_headers(2 * number + 1) for number in range(255)))
        most = before
        reading = asyncio.ensure_future(reader.read())
        while not reading.done():
            most = max(most, _threads())
            await asyncio.sleep(0.02)
        assert b"bulk_stranger_streams_max" in await reading
        writer.close()
        assert most - before < 64, "four calls, and the server's own threads"
        assert here.broker.admission.limit_hits["bulk transfer", "bulk_stranger_streams_max"] == 1


async def test_strangers_on_many_connections_take_few_threads_and_let_others_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A7: each of the connections that one address may have took four threads for ``handshake_timeout``."""
    served, connections = 8, 50
    monkeypatch.setattr(call_bounds, "SERVED_STRANGERS_MAX", served)
    async with bench(tmp_path, handshake_timeout=10.0) as here:
        await away(lambda: bulk_client(here).act(protocol.ListLeases()))
        before = _threads()
        made = [await asyncio.open_connection("127.0.0.1", here.service.port) for _ in range(connections)]
        for _, writer in made:
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            writer.write(b"".join(_headers(2 * number + 1) for number in range(STRANGER_STREAMS_MAX)))
        login = asyncio.ensure_future(away(lambda: bulk_client(here).act(protocol.ListLeases())))
        most = before
        while not login.done():
            most = max(most, _threads())
            await asyncio.sleep(0.02)
        await login
        # twice: the threads of those that gave way end a little later; the server has some of its own
        assert 0 < most - before < 2 * served * STRANGER_STREAMS_MAX + 64 < connections * STRANGER_STREAMS_MAX
        assert here.broker.admission.handshakes_timed_out == 0, "the login had its turn before"
        assert here.broker.admission.limit_hits["bulk transfer", "bulk_strangers_max"] >= connections - 2 * served
        for _, writer in made:
            writer.close()


async def test_calls_of_all_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A7, a brother: a user could have 256 calls, each with a thread, on every connection."""
    monkeypatch.setattr(call_bounds, "CALLS_MAX", 100)
    async with bench(tmp_path) as here:
        token = await away(lambda: _token(bulk_client(here)))
        made = []
        for calls in (80, 20, 20):
            reader, writer = await asyncio.open_connection("127.0.0.1", here.service.port)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            writer.write(_headers(1, b"authorization", b"Bearer " + token.encode(), path=b"DoGet") + _empty_message(1))
            await reader.readuntil(b"grpc-status")
            writer.write(b"".join(_headers(2 * number + 1) for number in range(1, calls + 1)))
            made.append((reader, writer))
        assert b"(bulk_calls_max)" in await made[0][0].read()
        assert here.broker.admission.limit_hits["bulk transfer", "bulk_calls_max"] == 1
        assert not made[2][0].at_eof()
        for _, writer in made:
            writer.close()


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


async def test_a_cancelled_call_gives_its_thread_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A7: calls that the client reset were not counted, and kept their threads until their wait ended."""
    async with bench(tmp_path) as here:
        answer = asyncio.Event()

        async def no_answer(*_: object) -> None:
            await answer.wait()

        def work() -> None:
            token = _token(bulk_client(here))
            raw = flight.connect(parse_url(here.url).location)
            monkeypatch.setattr(here.service._server._handler, "act", no_answer)
            options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())], timeout=0.3)
            with pytest.raises(flight.FlightTimedOutError):
                list(raw.do_action(flight.Action("lease.list", msgspec.json.encode(protocol.ListLeases())), options))
            relays = here.service._door.relays()
            while any(relay.running for relay in relays):
                time.sleep(0.02)
            raw.close()

        await asyncio.wait_for(away(work), 30)
        answer.set()


async def test_a_stranger_who_says_nothing_is_cut(tmp_path: Path) -> None:
    """A7, a brother: connections of strangers had no end."""
    async with bench(tmp_path, handshake_timeout=0.1) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.service.port)
        await reader.read()
        writer.close()
        assert here.broker.admission.handshakes_timed_out == 1


async def test_a_client_with_a_token_may_begin_with_a_large_stage(tmp_path: Path) -> None:
    """A connection made anew, with the token of the first one: what it sends waits until the token is checked."""
    async with bench(tmp_path) as here:
        rows = pa.record_batch({"body": [b"x" * MEBIBYTE] * 8})

        def work() -> dict[str, int]:
            token = _token(bulk_client(here))
            raw = flight.connect(parse_url(here.url).location)
            request = msgspec.json.encode(protocol.PutStage(query="x", stage=stage_name()))
            options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())], timeout=30)
            writer, answers = raw.do_put(flight.FlightDescriptor.for_command(request), rows.schema, options)
            writer.write_batch(rows)
            writer.write_metadata(pa.py_buffer(protocol.END_OF_STAGE))
            writer.done_writing()
            counts: dict[str, int] = msgspec.json.decode(answers.read().to_pybytes())
            writer.close()
            return counts

        assert (await away(work))["rows"] == 8


def _token(client: BulkClient) -> str:
    client.act(protocol.ListLeases())
    return client._token


def _put(here: Bench, batch: pa.RecordBatch, **write_options: Any) -> object:
    token = _token(bulk_client(here))
    raw = flight.connect(parse_url(here.url).location)
    request = msgspec.json.encode(protocol.PutStage(query="x", stage=stage_name()))
    options = flight.FlightCallOptions(
        headers=[(b"authorization", b"Bearer " + token.encode())],
        timeout=60,
        write_options=pa.ipc.IpcWriteOptions(**write_options),
    )
    writer, answers = raw.do_put(flight.FlightDescriptor.for_command(request), batch.schema, options)
    writer.write_batch(batch)
    writer.done_writing()
    answers.read()
    writer.close()
    return None


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
async def test_compressed_batches_are_refused_before_they_are_inflated(tmp_path: Path, codec: str) -> None:
    """A7: 700 MiB of zeros in some kilobytes."""
    async with bench(tmp_path) as here:
        batch = pa.record_batch({"body": [bytes(32 * MEBIBYTE)]})
        text = await refusal(here, lambda: _put(here, batch, compression=codec), "bulk_compression")
        assert "without compression" in text
        while here.service.stages.figures() != (0, 0):  # noqa: ASYNC110 - the thread that wrote the stage takes it back
            await asyncio.sleep(0.01)


async def test_a_message_of_rows_is_bounded(tmp_path: Path) -> None:
    """A7: a message may be as large as the largest body and 64 MiB of others, and not a byte larger."""
    async with bench(tmp_path, limits=Limits(max_message_bytes=MEBIBYTE)) as here:
        fits = pa.record_batch({"body": [bytes(MEBIBYTE)] * 64})
        client = bulk_client(here)
        stage = protocol.PutStage(query="x", stage=stage_name())
        assert (await away(lambda: client.put(stage, fits.schema, [fits])))["rows"] == 64
        batch = pa.record_batch({"body": [bytes(MEBIBYTE)] * 65})
        text = await refusal(here, lambda: _put(here, batch), "bulk_message_bytes_max")
        assert "68157440 are allowed" in text
        assert here.service.stages.count() == 1


async def test_a_batch_whose_buffers_do_not_fit_is_refused(tmp_path: Path) -> None:
    """A7, a brother: offsets beyond the values were read, with whatever is in memory there."""
    async with bench(tmp_path) as here:
        offsets, values = pa.py_buffer(struct.pack("<3i", 0, 1 << 20, 5)), pa.py_buffer(b"short")
        body = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, values])
        batch = pa.RecordBatch.from_arrays([body], ["body"])

        def work() -> None:
            with pytest.raises(InvalidRequestError, match="record batch is malformed"):
                bulk_client(here).put(protocol.PutStage(query="x", stage=stage_name()), batch.schema, [batch])

        await away(work)
        assert here.service.stages.figures() == (0, 0)


async def test_a_column_with_a_dictionary_is_refused(tmp_path: Path) -> None:
    """A7, a brother: new dictionaries of an ignored column were stored, and not counted."""
    async with bench(tmp_path, limits=Limits(max_stage_bytes_per_user=2 * MEBIBYTE)) as here:
        kind = pa.dictionary(pa.int32(), pa.binary())
        schema = pa.schema({"body": pa.binary(), "queue": kind})

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(3):
                values = pa.array([bytes([number]) * MEBIBYTE])
                queue = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), values)
                yield pa.record_batch([pa.array([b"x"]), queue], schema=schema)

        def work() -> None:
            with pytest.raises(InvalidRequestError, match="column 'queue' has type dictionary"):
                bulk_client(here).put(protocol.PutStage(query="x", stage=stage_name()), schema, batches())

        await away(work)
        assert here.service.stages.figures() == (0, 0)


async def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """A7, a brother: the commit failed inside the broker."""
    async with bench(tmp_path) as here:
        batch = pa.RecordBatch.from_arrays([pa.array([b"x"]), pa.array([b"y"])], ["body", "body"])

        def work() -> None:
            with pytest.raises(InvalidRequestError, match="column 'body' is named twice"):
                bulk_client(here).put(protocol.PutStage(query="x", stage=stage_name()), batch.schema, [batch])

        await away(work)
        assert here.service.stages.figures() == (0, 0)
