"""What opens and closes in bulk transfer: connections, leases, transfers, uploads, views, streams. Enters the kinds."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import BulkError
from annulet.bulk.protocol.url import parse_url
from tests.regression.blocking_clients import Amqp091Client, BlockingClient
from tests.regression.cycle_kinds import Places, kind

ROWS = pa.record_batch({"body": [b"x"] * 3})
ADDRESS = "uploaded"


@contextlib.contextmanager
def bulk_client(places: Places, password: str = "guest") -> Iterator[BulkClient]:
    """A client that does not repeat what failed."""
    client = BulkClient(parse_url(places.bulk.replace("guest:guest", f"guest:{password}")), retry_seconds=0)
    try:
        yield client
    finally:
        client.close()


def stage_name() -> str:
    """Name a stage as a new attempt of a task does."""
    return f"0-0-0-{uuid.uuid4().hex}"


def fill(places: Places, queue: str, **arguments: str | int | bool) -> None:
    """Put three messages into a queue."""
    with Amqp091Client(places.amqp).open() as client:
        client.call(1, "channel.open")
        client.call(1, "queue.declare", {"queue": queue, "durable": True, "arguments": dict(arguments)})
        client.call(1, "confirm.select")
        for _ in range(3):
            client.publish(1, queue, b"x", mode=2)
            client.next_method()


@kind
def bulk_connections(places: Places, count: int) -> None:
    for _ in range(count):
        with bulk_client(places) as client:
            client.act(protocol.ListLeases())


@kind
def bulk_logins_refused(places: Places, count: int) -> None:
    for _ in range(count):
        with bulk_client(places, "wrong") as client, pytest.raises(BulkError, match="login refused"):
            client.act(protocol.ListLeases())


@kind
def bulk_connections_cut(places: Places, count: int) -> None:
    for number in range(count):
        client = BlockingClient(places.bulk_address)
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if number % 2 else b"GET / HTTP/1.1\r\n\r\n")
        if number % 3:
            client.reset()
        elif number % 2:
            client.until(b"\x04")  # the settings of the server: Flight has the connection
            client.socket.close()
        else:
            client.wait_for_end()
            client.socket.close()


@kind
def bulk_connections_over_tls_cut(places: Places, count: int) -> None:
    for number in range(count):
        if number % 2:
            client = BlockingClient(places.bulks, tls=places.tls)
            client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        else:
            client = BlockingClient(places.bulks)
            client.send(b"no hand-shake")
        client.reset()


@kind
def bulk_requests_in_error(places: Places, count: int) -> None:
    with bulk_client(places) as client:
        for _ in range(count):
            with pytest.raises(BulkError):
                client.act(protocol.LeaseStatus(lease="missing"))
            with pytest.raises(BulkError):
                list(client.get(protocol.BrowseTicket(snapshot="missing", after=0, upto=1)))


@kind
def bulk_transfers(places: Places, count: int) -> None:
    fill(places, "transferred")
    with bulk_client(places) as client:
        for number in range(count):
            lease = f"l{number}"
            opened = client.act(protocol.OpenLease(queue="transferred", lease=lease, owner="o", fresh=True))
            generation = int(opened["generation"])
            end = client.act(protocol.ExtendLease(lease=lease, generation=generation, start=0))["position"]
            ticket = protocol.FetchTicket(lease=lease, owner="o", after=0, upto=int(end))
            assert sum(batch.num_rows for batch in client.get(ticket)) >= 3
            client.act(protocol.ReleaseLease(lease=lease))


@kind
def bulk_transfers_left_in_the_middle(places: Places, count: int) -> None:
    fill(places, "left")
    for number in range(count):
        with bulk_client(places) as client:
            opened = client.act(protocol.OpenBrowse(queue="left", selector="" if number % 2 else "a IS NULL"))
            ticket = protocol.BrowseTicket(
                snapshot=opened["snapshot"], after=int(opened["after"]), upto=int(opened["upto"])
            )
            batches = client.get(ticket)
            next(batches)
            batches.close()  # type: ignore[attr-defined] # it is a generator


@kind
def bulk_uploads(places: Places, count: int) -> None:
    fill(places, ADDRESS, **{"x-ring-size": 3})
    with bulk_client(places) as client:
        for number in range(count):
            query, stage = f"q{number}", stage_name()
            client.put(protocol.PutStage(query=query, stage=stage), ROWS.schema, [ROWS])
            if number % 2:
                client.act(protocol.CommitPublish(query=query, batch=0, stages=[stage], address=ADDRESS))
                client.act(protocol.ForgetPublish(query=query))
            else:
                client.act(protocol.AbortPublish(query=query, stages=[stage]))


@kind
def bulk_uploads_cut(places: Places, count: int) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield ROWS
        raise ValueError("the task failed")

    for _ in range(count):
        with bulk_client(places) as client, pytest.raises(ValueError, match="the task failed"):
            client.put(protocol.PutStage(query="cut", stage=stage_name()), ROWS.schema, broken())


@kind
def bulk_streams(places: Places, count: int) -> None:
    fill(places, "streamed", **{"x-non-destructive": True})
    with bulk_client(places) as client:
        for number in range(count):
            reader = f"r{number}"
            planned = client.act(protocol.PlanSequences(queue="streamed", reader=reader, start=-1))
            known = {name: planned[name] for name in ("incarnation", "boot", "safe")}
            ticket = protocol.SequenceTicket(
                queue="streamed",
                reader=reader,
                after=planned["after"],
                upto=planned["sequence"],
                rows=planned["rows"],
                **known,
            )
            assert sum(batch.num_rows for batch in client.get(ticket)) == planned["rows"]
