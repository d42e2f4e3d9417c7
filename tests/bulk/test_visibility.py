"""A committed batch is visible at once or not at all: to AMQP clients, leases, snapshots and figures."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from annulet.bulk.protocol.protocol import PlanSequences
from annulet.bulk.reading.adoption import LeaseRequest
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.live_changes import revise_delivering
from annulet.store.files.errors import StoreError
from tests.bulk.commit_stops import appended, committing, disk_stopped, staged, stop_between_turns
from tests.bulk.helpers import Bench, away, bench, crash_image


class Client:
    """An AMQP connection of a real client, in a thread of the test."""

    def __init__(self, here: Bench) -> None:
        self._port = here.broker.amqp_address[1]
        self.received: list[bytes] = []
        self._ended = threading.Event()
        self.consuming = threading.Event()

    def connect(self) -> tuple[pika.BlockingConnection, BlockingChannel]:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port))
        return connection, connection.channel()

    def consume(self, queue: str, count: int) -> None:
        """Take everything, with credit for all of it, until so many messages came."""
        connection, channel = self.connect()

        def take(*delivery: Any) -> None:
            self.received.append(delivery[3])

        channel.basic_consume(queue, take, auto_ack=True)
        self.consuming.set()
        while len(self.received) < count and not self._ended.is_set():
            connection.process_data_events(0.05)
        connection.close()

    def end(self) -> None:
        self._ended.set()

    def look(self, *queues: str) -> list[tuple[int, bytes | None]]:
        """Return of each queue how many messages it says it has, and the one it gives, which goes back."""
        connection, channel = self.connect()
        found = []
        for queue in queues:
            count = channel.queue_declare(queue, passive=True).method.message_count
            method, _, body = channel.basic_get(queue)
            found.append((count, body))
            if method is not None:
                channel.basic_nack(method.delivery_tag)
        connection.close()
        return found


@pytest.mark.parametrize("count", [6_000, pytest.param(120_000, marks=pytest.mark.soak)])
async def test_amqp_clients_see_nothing_before_the_commit_is_durable_and_then_all_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("consumed")
        looked_at = here.declare("looked at")
        here.declare("priorities", arguments={"x-max-priority": 5})
        await here.publish("looked at", [b"before"])
        client = Client(here)
        consuming = asyncio.ensure_future(away(lambda: client.consume("consumed", count)))
        await away(client.consuming.wait)
        names = "consumed", "looked at", "priorities"
        bodies = [b"%06d" % number for number in range(count)]
        request = staged(here, {"looked at": [b"x"] * 500, "priorities": [b"x"] * 500, "consumed": bodies})
        turns = stop_between_turns(queue, monkeypatch, 1000)
        try:
            async with disk_stopped(here):
                commit = committing(here, request)
                await turns.stopped.wait()
                assert looked_at.order.count == 501
                assert await away(lambda: client.look(*names)) == [(0, None), (1, b"before"), (0, None)]
                turns.go_on.set()
                await appended(here)
                assert queue.order.count == count
                assert await away(lambda: client.look(*names)) == [(0, None), (1, b"before"), (0, None)]
                assert client.received == []
                assert not commit.done()
            assert (await commit)["messages"] == count + 1000
            await consuming
        finally:
            client.end()
        assert client.received == bodies
        assert [found for found, _ in await away(lambda: client.look(*names))] == [0, 501, 500]


async def test_leases_streams_and_snapshots_see_nothing_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        await here.publish("q", [b"before"])
        leases, sequences = here.service.leases, here.service.sequences
        generation = (await leases.open(LeaseRequest("/", "l", "q", "owner", fresh=True)))["generation"]
        request = staged(here, {"q": [b"%d" % number for number in range(9)]})
        turns = stop_between_turns(queue, monkeypatch, 4)
        commit = committing(here, request)
        await turns.stopped.wait()
        check_invariants(queue)
        assert here.bodies("q") == [b"before"]
        plan = PlanSequences(virtual_host="/", queue="q", reader="r", start=-1)
        assert (await sequences.plan(plan))["sequence"] == 1
        assert await leases.extend("/", "l", generation, 0, messages_max=-1) == 1
        assert queue.purge(here.broker.clock()) == 0
        turns.go_on.set()
        assert (await commit)["messages"] == 9
        assert await leases.extend("/", "l", generation, 0, messages_max=-1) == 10
        check_invariants(queue)


async def test_a_crash_before_the_commit_is_durable_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with bench(data) as here:
        queue = here.declare("q")
        request = staged(here, {"q": [b"a", b"b"]})
        async with disk_stopped(here):
            commit = committing(here, request)
            await appended(here)
            assert (queue.order.count, here.bodies("q")) == (2, [])
            image = crash_image(data, tmp_path / "image")
        await commit
        assert here.bodies("q") == [b"a", b"b"]
    async with bench(image) as here:
        assert here.bodies("q") == []
        assert (await committing(here, request))["messages"] == 2
        assert here.bodies("q") == [b"a", b"b"]


async def test_who_gave_up_waiting_for_the_answer_does_not_keep_it_hidden(tmp_path: Path) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        async with disk_stopped(here):
            commit = committing(here, staged(here, {"q": [b"a"]}))
            await appended(here)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            assert here.bodies("q") == []
        await here.broker.commit.durable()
        assert here.bodies("q") == [b"a"]
        check_invariants(queue)


async def test_what_is_cancelled_between_two_turns_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q", arguments={"x-last-value-key": "key", "x-ring-size": 50})
        await here.publish("q", [b"before"])
        request = staged(here, {"q": [b"%d" % number for number in range(9)]})
        with monkeypatch.context() as patch:
            turns = stop_between_turns(queue, patch, 4)
            commit = committing(here, request)
            await turns.stopped.wait()
            await here.publish("q", [b"between"])
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
        while queue.hidden:  # noqa: ASYNC110 - slices of the loop
            await asyncio.sleep(0)
        assert here.bodies("q") == [b"before", b"between"]
        check_invariants(queue)
        assert (await committing(here, request))["messages"] == 9
        assert len(here.bodies("q")) == 11


async def test_queues_that_are_made_meanwhile_get_no_end_without_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        stays, gone = here.declare("stays"), here.declare("gone")
        for queue in (stays, gone):
            here.host.bind_queue(queue, "amq.fanout", "", {})
        request = staged(here, {"amq.fanout": [b"%d" % number for number in range(9)]})
        turns = stop_between_turns(stays, monkeypatch, 4)
        commit = committing(here, request)
        await turns.stopped.wait()
        here.host.delete_queue(gone, here.broker.clock())
        for name in ("gone", "bound late"):
            here.host.bind_queue(here.declare(name), "amq.fanout", "", {})
        turns.go_on.set()
        assert await commit == {"messages": 9, "unroutable": 0, "repeated": 0}
        assert len(here.bodies("stays")) == 9
        assert here.bodies("gone") == here.bodies("bound late") == []


async def test_dead_letters_that_a_batch_causes_come_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {
        "x-max-length": 2,
        "x-overflow": "ring",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "d",
    }
    async with bench(tmp_path) as here:
        queue = here.declare("q", arguments=arguments)
        here.declare("d")
        turns = stop_between_turns(queue, monkeypatch, 4)
        commit = committing(here, staged(here, {"q": [b"%d" % number for number in range(9)]}))
        await turns.stopped.wait()
        assert (bool(queue.hidden), here.bodies("d")) == (True, [])
        turns.go_on.set()
        await commit
        assert (len(here.bodies("d")), here.bodies("q")) == (7, [b"7", b"8"])


async def test_two_queries_write_to_one_queue_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(tmp_path) as here:
        queue = here.declare("q")
        large = staged(here, {"q": [b"large"] * 9})
        small = staged(here, {"q": [b"small"] * 2}, query="other")
        turns = stop_between_turns(queue, monkeypatch, 4)
        commits = [committing(here, large)]
        await turns.stopped.wait()
        commits.append(committing(here, small))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert (queue.order.count, here.bodies("q")) == (4, [])
        turns.go_on.set()
        assert [answer["messages"] for answer in await asyncio.gather(*commits)] == [9, 2]
        assert here.bodies("q") == [b"large"] * 9 + [b"small"] * 2


async def test_a_disk_that_refuses_the_commit_leaves_the_batch_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    async with bench(data) as here:
        queue = here.declare("q")
        await here.publish("q", [b"before"])
        request = staged(here, {"q": [b"a", b"b"]})
        image = crash_image(data, tmp_path / "image")

        def refuse(*_: Any) -> None:
            raise StoreError("no such disk")

        monkeypatch.setattr(here.broker.commit, "_write", refuse)
        monkeypatch.setattr(here.broker.commit, "on_failure", None)  # it would end the broker
        with pytest.raises(StoreError):
            await committing(here, request)
        assert (queue.order.count, here.bodies("q")) == (3, [b"before"])
    async with bench(image) as here:
        assert here.bodies("q") == [b"before"]
        assert (await committing(here, request))["messages"] == 2


async def test_a_stop_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    async with bench(data) as here:
        queue = here.declare("q")
        request = staged(here, {"q": [b"%d" % number for number in range(9)]})
        with monkeypatch.context() as patch:
            turns = stop_between_turns(queue, patch, 4)
            commit = committing(here, request)
            await turns.stopped.wait()
            await here.publish("q", [b"confirmed"])
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    async with bench(data) as here:
        assert here.bodies("q") == [b"confirmed"]
        assert (await committing(here, request))["messages"] == 9


async def test_a_broker_in_memory_shows_it_when_the_commit_returns() -> None:
    async with bench() as here:
        queue = here.declare("q", durable=False)
        assert (await committing(here, staged(here, {"q": [b"a", b"b"]})))["messages"] == 2
        assert here.bodies("q") == [b"a", b"b"]
        check_invariants(queue)


async def test_a_purge_leaves_what_is_hidden_in_the_log_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    rows = [b"%d" % number for number in range(9)]
    async with bench(data) as here:
        queue = here.declare("q")
        await here.publish("q", [b"revised", b"before"])
        turns = stop_between_turns(queue, monkeypatch, 4)
        commit = committing(here, staged(here, {"q": rows}))
        await turns.stopped.wait()
        now = here.broker.clock()
        taken = queue.acquire(1, -1, now)
        revise_delivering(taken[0], {"annotated": True})  # stored anew, behind the first rows
        queue.return_entries(taken, now)
        await here.broker.commit.durable()
        async with disk_stopped(here):
            turns.go_on.set()
            await appended(here)
            assert queue.purge(now) == 2
        await commit
        assert here.bodies("q") == rows
    async with bench(data) as here:
        assert here.bodies("q") == rows
