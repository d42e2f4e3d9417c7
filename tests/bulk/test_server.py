"""The listener and the client together, over real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from annulet.broker.security.password_hashes import HASHER
from annulet.broker.settings.configuration import PermissionDeclaration, StartError, UserDeclaration
from annulet.broker.settings.limits import Limits
from annulet.bulk import server
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import (
    InvalidRequestError,
    LeaseGoneError,
    NotFoundError,
)
from annulet.bulk.protocol.schema import COLUMNS
from annulet.bulk.protocol.url import parse_url
from tests.bulk.helpers import away, bench, bulk_client, stage_name


async def test_a_lease_over_the_wire(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")
        await here.publish("q", [b"%05d" % number for number in range(12_000)])

        def work() -> list[bytes]:
            client = bulk_client(here)
            answer = client.act(protocol.OpenLease(queue="q", lease="l", owner="o", fresh=True))
            end = client.act(protocol.ExtendLease(lease="l", generation=answer["generation"], start=0))["position"]
            batches = list(client.get(protocol.FetchTicket(lease="l", owner="o", after=0, upto=end)))
            assert len(batches) >= 3
            assert batches[0].schema.names == list(COLUMNS)
            client.act(protocol.RenewLease(lease="l", generation=answer["generation"]))
            client.act(protocol.AcknowledgeLease(lease="l", generation=answer["generation"], upto=2000))
            status = client.act(protocol.LeaseStatus(lease="l"))
            assert (status["held"], status["acknowledged"]) == (10_000, 2000)
            assert [lease["name"] for lease in client.act(protocol.ListLeases())["leases"]] == ["l"]
            assert client.act(protocol.ReleaseLease(lease="l")) == {"returned": 10_000}
            client.close()
            return [body for batch in batches for body in batch.column("body").to_pylist()]

        assert await away(work) == [b"%05d" % number for number in range(12_000)]


async def test_browse_and_publish_over_the_wire(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")

        def work() -> list[Any]:
            client = bulk_client(here)
            rows = pa.record_batch({"body": ["a", "b", "c"]})
            name = stage_name()
            assert client.put(protocol.PutStage(query="x", stage=name), rows.schema, [rows])["rows"] == 3
            commit = protocol.CommitPublish(query="x", batch=0, stages=[name], address="q")
            assert client.act(commit)["messages"] == 3
            client.act(protocol.AbortPublish(query="x", stages=[stage_name()]))
            client.act(protocol.ForgetPublish(query="x"))
            status = client.act(protocol.QueueStatus(queue="q"))
            assert status.pop("lag_milliseconds") >= 0
            assert status == {"last_sequence": 3, "pending": 3}
            view = client.act(protocol.OpenBrowse(queue="q"))["snapshot"]
            ticket = protocol.BrowseTicket(snapshot=view, after=0, upto=3, skip=1, columns=["position", "body"])
            return [row for batch in client.get(ticket) for row in batch.to_pylist()]

        assert await away(work) == [{"position": 2, "body": b"b"}, {"position": 3, "body": b"c"}]


async def test_errors_arrive_with_kind_and_text(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        here.declare("q")

        def work() -> None:
            client = bulk_client(here)
            with pytest.raises(NotFoundError, match="no queue 'nope' in virtual host '/'"):
                client.act(protocol.OpenBrowse(queue="nope"))
            with pytest.raises(LeaseGoneError, match="'nope' does not exist"):
                client.act(protocol.LeaseStatus(lease="nope"))
            with pytest.raises(LeaseGoneError):
                list(client.get(protocol.FetchTicket(lease="nope", owner="o", after=0, upto=1)))
            with pytest.raises(NotFoundError, match="Read the queue again"):
                list(client.get(protocol.BrowseTicket(snapshot="x", after=0, upto=1)))
            with pytest.raises(InvalidRequestError, match="column 'bodi' is unknown"):
                list(client.get(protocol.BrowseTicket(snapshot="x", after=0, upto=1, columns=["bodi"])))
            with pytest.raises(InvalidRequestError, match="are not a range"):
                list(client.get(protocol.BrowseTicket(snapshot="x", after=2, upto=1)))
            with pytest.raises(InvalidRequestError, match="not a batch id"):
                client.act(protocol.CommitPublish(query="x", batch=-1, stages=[stage_name()]))
            with pytest.raises(InvalidRequestError, match="one stage at least"):
                client.act(protocol.CommitPublish(query="x", batch=0, stages=[]))
            with pytest.raises(InvalidRequestError, match="query id is empty"):
                client.put(protocol.PutStage(query="", stage=stage_name()), pa.schema({"body": pa.string()}), [])
            rows = pa.record_batch({"value": [1]})
            with pytest.raises(InvalidRequestError, match="column 'value' is unknown"):
                client.put(protocol.PutStage(query="x", stage=stage_name()), rows.schema, [rows])
            with pytest.raises(InvalidRequestError, match="is not batch-partition-attempt-nonce"):
                client.put(protocol.PutStage(query="x", stage="../x"), pa.schema({"body": pa.string()}), [])

        await away(work)


async def test_a_message_larger_than_any_sender_may_send_is_refused_and_counted(tmp_path: Path) -> None:
    async with bench(tmp_path, limits=Limits(max_message_bytes=1000)) as here:
        here.declare("q")

        def work() -> None:
            client = bulk_client(here)
            stage = stage_name()
            rows = pa.record_batch({"body": pa.array([b"x" * 1001], pa.binary())})
            client.put(protocol.PutStage(query="x", stage=stage), rows.schema, [rows])
            with pytest.raises(InvalidRequestError, match="row 0: its body need 1001 bytes, 1000 are allowed"):
                client.act(protocol.CommitPublish(query="x", batch=0, stages=[stage], address="q"))
            client.close()

        await away(work)
        assert here.broker.admission.limit_hits == {("bulk transfer", "max_message_bytes"): 1}
        assert here.bodies("q") == []


async def test_raw_requests_that_are_none(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:

        def work() -> None:
            raw = flight.connect(parse_url(here.url).location)
            bearer = [(b"authorization", b"Bearer " + token(raw).encode())]
            options = flight.FlightCallOptions(headers=bearer, timeout=30)
            with pytest.raises(flight.FlightServerError, match=r"lease\.open: "):
                list(raw.do_action(flight.Action("lease.open", b"{"), options))
            with pytest.raises(flight.FlightServerError, match="ticket"):
                raw.do_get(flight.Ticket(b'{"type":"steal"}'), options).read_all()
            for header in (b"Bearer nonsense", b"Basic !!!", b""):
                action = flight.Action("lease.list", b'{"type":"lease.list"}')
                credentials = flight.FlightCallOptions(headers=[(b"authorization", header)], timeout=30)
                with pytest.raises(flight.FlightUnauthenticatedError):
                    list(raw.do_action(action, credentials))
            names = [action.type for action in raw.list_actions(options)]
            assert {"login", "lease.open", "publish.commit"} <= set(names)
            raw.close()

        def token(raw: Any) -> str:
            basic = b"Basic " + base64.b64encode(b"guest:guest")
            options = flight.FlightCallOptions(headers=[(b"authorization", basic)], timeout=30)
            (answer,) = raw.do_action(flight.Action("login", b'{"type":"login"}'), options)
            return str(json.loads(answer.body.to_pybytes())["token"])

        await away(work)


async def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(StartError, match=f"bulk listener: cannot listen on 127.0.0.1:{port}.*set --bulk HOST:PORT"):
            async with bench(bulk_port=port):
                pytest.fail("it cannot listen there")


async def test_upkeep_ends_what_is_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UPKEEP_SECONDS", 0.0)
    now = [1_000_000]
    async with bench(tmp_path, clock=lambda: now[0]) as here:
        here.declare("q")
        client = bulk_client(here)
        opening = protocol.OpenLease(queue="q", lease="l", owner="o", fresh=True, generated=True)
        await away(lambda: client.act(opening))
        now[0] += 10**12
        while here.service.leases.statistics():  # noqa: ASYNC110 - upkeep runs in its own time
            await asyncio.sleep(0)


async def test_upkeep_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UPKEEP_SECONDS", 0.0)
    async with bench(tmp_path) as here:
        rounds: list[int] = []

        def fail(*_: object) -> int:
            rounds.append(0)
            raise FileNotFoundError("a stage went away")

        monkeypatch.setattr(here.service.stages, "drop_old", fail)
        while len(rounds) < 3:  # noqa: ASYNC110 - upkeep runs in its own time
            await asyncio.sleep(0)


async def test_a_stage_that_was_cut_off_is_no_stage(tmp_path: Path) -> None:
    """Flight ends the stream of a client that vanished as if it had been whole."""
    async with bench(tmp_path) as here:
        client = bulk_client(here)
        rows = pa.record_batch({"body": ["a"]})

        def cut() -> None:
            client.act(protocol.ListLeases())
            request = protocol.PutStage(query="x", stage=stage_name())
            descriptor = flight.FlightDescriptor.for_command(msgspec.json.encode(request))
            writer, answers = client._client_now().do_put(descriptor, rows.schema, client._options())
            writer.write_batch(rows)
            writer.done_writing()
            answers.read()
            writer.close()

        with pytest.raises(flight.FlightUnavailableError, match="broke off"):
            await away(cut)
        assert here.service.stages.count() == 0


async def test_a_write_id_belongs_to_its_virtual_host(tmp_path: Path) -> None:
    hosts = {"/": PermissionDeclaration(".*", ".*", ".*"), "other": PermissionDeclaration(".*", ".*", ".*")}
    guest = UserDeclaration(HASHER.hash("guest"), (), hosts)
    async with bench(tmp_path, users={"guest": guest}) as here:
        if "other" not in here.broker.hosts:
            here.broker.create_host("other")
        here.declare("q")
        here.broker.hosts["other"].declare_queue("q", now=0)
        rows = pa.record_batch({"body": ["a"]})

        def write(virtual_host: str) -> dict[str, Any]:
            client = bulk_client(here)
            query, name = "write:nightly", stage_name()
            client.put(protocol.PutStage(virtual_host=virtual_host, query=query, stage=name), rows.schema, [rows])
            return client.act(
                protocol.CommitPublish(virtual_host=virtual_host, query=query, batch=0, stages=[name], address="q")
            )

        assert (await away(lambda: write("other")))["messages"] == 1
        assert (await away(lambda: write("/")))["messages"] == 1
        assert (await away(lambda: write("/")))["repeated"] == 1
        assert here.bodies("q") == [b"a"]
