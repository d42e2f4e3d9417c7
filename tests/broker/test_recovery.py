"""What a broker finds again after a restart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import structlog
from pamqp import commands

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.history import COUNTERS_MILLISECONDS
from annulet.core.audit import AuditEntry
from annulet.core.message import Message, Origin
from annulet.core.queue import Queue
from annulet.store.errors import HistoryError
from annulet.wire.amqp091.properties import VIEW
from tests.broker.amqp091.peer import Peer, persistent, publish

QUEUE, EXCHANGE, BASIC = commands.Queue, commands.Exchange, commands.Basic


def queue_of(broker: Broker, name: str = "q") -> Queue:
    return broker.hosts["/"].queues[name]


def contents(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in queue.browse()]


async def publish_all(broker: Broker, peer: Peer, *messages: bytes) -> None:
    await peer.send(1, *messages)
    await broker.commit.durable()


async def leave(peer: Peer) -> None:
    await peer.send(0, commands.Connection.Close(200, "", 0, 0))


async def crash(broker: Broker, directory: Path, copy: Path) -> None:
    """Copy the directory as it is now: what a broker finds that was killed here."""
    await broker.commit.durable()
    shutil.copytree(directory, copy)


async def test_definitions_come_back_as_they_were(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, EXCHANGE.Declare(exchange="e", exchange_type="topic", durable=True))
        await peer.send(1, EXCHANGE.Declare(exchange="t", exchange_type="topic"))
        await peer.send(1, QUEUE.Declare(queue="ring", durable=True, arguments={"x-ring-size": 3}))
        await peer.send(1, QUEUE.Declare(queue="", durable=True), QUEUE.Declare(queue="transient"))
        await peer.send(1, QUEUE.Declare(queue="mine", durable=True, exclusive=True))
        await peer.send(1, QUEUE.Bind(queue="ring", exchange="e", routing_key="a.#"))
        await peer.send(1, QUEUE.Bind(queue="ring", exchange="t", routing_key="gone"))
        await peer.send(1, EXCHANGE.Bind(destination="e", source="amq.fanout", routing_key=""))
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        host = running.broker.hosts["/"]
        assert {name.split("gen-")[0] for name in host.queues} == {"ring", "amq."}
        assert queue_of(running.broker, "ring").settings.ring_size == 3
        assert "t" not in host.exchanges
        edges = {(binding.source.name, binding.routing_key) for binding in host.bindings()}
        assert edges == {("e", "a.#"), ("amq.fanout", "")}


async def test_messages_come_back_in_order_and_only_what_must(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True), QUEUE.Declare(queue="other", durable=True))
        await peer.send(1, *(QUEUE.Bind(queue=name, exchange="amq.fanout") for name in ("q", "other")))
        messages = [persistent(1, "k", b"%d" % number, exchange="amq.fanout") for number in range(4)]
        await publish_all(broker, peer, *messages, publish(1, "q", b"transient"))
        await peer.send(1, BASIC.Get(queue="q"), BASIC.Get(queue="q"), BASIC.Ack(1))
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        broker = running.broker
        assert contents(queue_of(broker)) == [b"1", b"2", b"3"]
        assert contents(queue_of(broker, "other")) == [b"0", b"1", b"2", b"3"]
        first, second = queue_of(broker).browse()[0], queue_of(broker, "other").browse()[1]
        assert first.message is second.message, "stored once, and once in memory"
        assert queue_of(broker).enqueue(first.message, 0).sequence > 4


async def test_redelivered_after_a_clean_stop_is_what_may_have_been_seen(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(running.broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(3)))
        await peer.send(1, BASIC.Qos(0, 2), BASIC.Consume(queue="q"))
        await leave(peer)
    for _ in range(2):  # and it is remembered over a restart in which nothing happens
        async with testing.broker(http=False, data_dir=tmp_path) as running:
            flags = [entry.redelivered for entry in queue_of(running.broker).browse()]
            assert flags == [True, True, False]


async def test_after_a_crash_everything_may_have_been_seen(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(running.broker, peer, persistent(1, "q", b"a"), persistent(1, "q", b"b"))
        await crash(running.broker, tmp_path / "live", tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        queue = queue_of(running.broker)
        assert [(entry.message.body, entry.redelivered) for entry in queue.browse()] == [(b"a", True), (b"b", True)]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [({"x-ring-size": 2}, [b"3", b"4"]), ({"x-last-value-key": "key"}, [b"3", b"4"])],
    ids=["ring", "last value"],
)
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
async def test_limits_hold_after_a_restart(
    tmp_path: Path, arguments: dict[str, Any], kept: list[bytes], clean: bool
) -> None:
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments=arguments))
        messages = [persistent(1, "q", b"%d" % number, headers={"key": number % 2}) for number in range(5)]
        await publish_all(running.broker, peer, *messages)
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=data if clean else tmp_path / "copy") as running:
        broker = running.broker
        assert contents(queue_of(broker)) == kept
        peer = await Peer(broker).open(1)
        await publish_all(broker, peer, persistent(1, "q", b"5", headers={"key": 1}))
        assert contents(queue_of(broker)) == [kept[1], b"5"]
        await leave(peer)


async def test_counters_go_on_after_a_clean_stop_and_fit_after_a_crash(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(broker, peer, *(persistent(1, "q") for _ in range(3)))
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await crash(broker, tmp_path / "live", tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        counters = queue_of(running.broker).statistics()
        assert (counters.messages_added, counters.messages_acknowledged, counters.message_count) == (3, 1, 2)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        counters = queue_of(running.broker).statistics()
        assert (counters.messages_added, counters.messages_acknowledged, counters.message_count) == (2, 0, 2)


async def test_queue_deleted_just_before_a_crash_takes_its_messages_along(tmp_path: Path) -> None:
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(broker, peer, persistent(1, "q"))
        broker.catalogue.delete_queue("/", "q")  # the crash comes before the log forgets the queue
        await crash(broker, data, tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        broker = running.broker
        assert "q" not in broker.hosts["/"].queues
        assert broker.log.statistics().live_records == 0
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        assert contents(queue_of(broker)) == []
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        assert contents(queue_of(running.broker)) == []


async def test_messages_of_a_lost_catalogue_never_show_up_in_new_queues(tmp_path: Path) -> None:
    """A new catalogue gives the same ids again, so what they name in the log must be gone before anybody declares."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="secret", durable=True))
        await publish_all(running.broker, peer, persistent(1, "secret"))
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    for file in (tmp_path / "copy").glob("catalogue.sqlite*"):
        file.unlink()
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        shutil.copytree(tmp_path / "copy", tmp_path / "again")  # killed here, with nothing else written
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "again") as running:
        assert contents(queue_of(running.broker)) == []


async def test_transaction_comes_back_whole(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="in", durable=True), QUEUE.Declare(queue="out", durable=True))
        await publish_all(broker, peer, persistent(1, "in", b"request"))
        await peer.send(1, commands.Tx.Select(), BASIC.Get(queue="in"))
        await peer.send(1, persistent(1, "out", b"a"), persistent(1, "out", b"b"), BASIC.Ack(1))
        await crash(broker, tmp_path / "live", tmp_path / "before")
        await peer.send(1, commands.Tx.Commit())
        await crash(broker, tmp_path / "live", tmp_path / "after")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "before") as running:
        queues = [contents(queue_of(running.broker, name)) for name in ("in", "out")]
        assert queues == [[b"request"], []]
    async with testing.broker(http=False, data_dir=tmp_path / "after") as running:
        queues = [contents(queue_of(running.broker, name)) for name in ("in", "out")]
        assert queues == [[], [b"a", b"b"]]


async def test_losses_come_back_and_are_counted_on(tmp_path: Path) -> None:
    """Those of persistent messages in durable queues, whatever way the broker ended; others go with the process."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-ring-size": 1}))
        await peer.send(1, QUEUE.Declare(queue="t", arguments={"x-ring-size": 1}))
        await publish_all(running.broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(3)))
        await publish_all(running.broker, peer, publish(1, "q"), persistent(1, "t"), persistent(1, "t"))
        assert running.broker.hosts["/"].ledger.total == 4
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    for directory in (data, tmp_path / "copy"):
        async with testing.broker(http=False, data_dir=directory) as running:
            ledger = running.broker.hosts["/"].ledger
            found = [(record.queue, record.sequence, record.replaced_by) for record in ledger.query()]
            assert found == [("q", 1, 2), ("q", 2, 3), ("q", 3, 4)]
            assert (ledger.total, ledger.forgotten) == (3, 0)
            queue_of(running.broker).purge(0)
            assert (ledger.total, len(ledger)) == (3, 3), "the transient message was not there any more"


async def test_a_history_that_was_lost_costs_what_it_held_and_no_message(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-ring-size": 1}))
        await publish_all(running.broker, peer, persistent(1, "q"), persistent(1, "q", b"kept"))
        await leave(peer)
    for file in (tmp_path / "live").glob("history.sqlite*"):
        file.unlink()
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        assert running.broker.hosts["/"].ledger.total == 0
        assert contents(queue_of(running.broker)) == [b"kept"]


async def test_a_damaged_history_stops_the_start_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"not SQLite " * 100)
    with pytest.raises(HistoryError, match="move it away"):
        async with testing.broker(http=False, data_dir=tmp_path):
            pytest.fail("it started")


async def test_the_audit_trail_comes_back(tmp_path: Path) -> None:
    entry = AuditEntry(5, "/", "anna", "purge", "q", "all", 3)
    async with testing.broker(http=False, data_dir=tmp_path / "live") as running:
        running.broker.hosts["/"].effects.audited(entry)
        await crash(running.broker, tmp_path / "live", tmp_path / "copy")
    for directory in ("live", "copy"):
        async with testing.broker(http=False, data_dir=tmp_path / directory) as running:
            assert list(running.broker.audit.query()) == [entry]


async def test_a_crash_costs_counters_no_more_than_since_their_last_round(tmp_path: Path) -> None:
    clock, data = testing.VirtualClock(), tmp_path / "live"
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(broker, peer, *(persistent(1, "q") for _ in range(5)))
        await peer.send(1, BASIC.Get(queue="q", no_ack=True), BASIC.Get(queue="q", no_ack=True))
        clock.advance(COUNTERS_MILLISECONDS)
        broker._counter_rounds.tick(broker.hosts.values(), clock())
        await broker.commit.durable()
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await crash(broker, data, tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "copy", clock=clock) as running:
        counters = queue_of(running.broker).statistics()
        assert (counters.messages_added, counters.messages_acknowledged, counters.message_count) == (4, 2, 2)
        await crash(running.broker, tmp_path / "copy", tmp_path / "again")
    async with testing.broker(http=False, data_dir=tmp_path / "copy", clock=clock) as running:
        counters = queue_of(running.broker).statistics()
        assert (counters.messages_added, counters.messages_acknowledged, counters.message_count) == (4, 2, 2)


async def test_counters_of_a_clean_stop_are_not_forgotten_by_a_crash_soon_after_the_start(tmp_path: Path) -> None:
    clock, data = testing.VirtualClock(), tmp_path / "live"
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        clock.advance(COUNTERS_MILLISECONDS)
        running.broker._counter_rounds.tick(running.broker.hosts.values(), clock())
        await publish_all(running.broker, peer, *(persistent(1, "q") for _ in range(3)))
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await leave(peer)
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        running.broker._counter_rounds._begun_at = clock()  # the crash comes before the first round
        await crash(running.broker, data, tmp_path / "copy")
    async with testing.broker(http=False, data_dir=tmp_path / "copy", clock=clock) as running:
        counters = queue_of(running.broker).statistics()
        assert (counters.messages_added, counters.messages_acknowledged, counters.message_count) == (3, 1, 2)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
async def test_deliveries_that_came_back_are_counted_on(tmp_path: Path, clean: bool) -> None:
    clock, data = testing.VirtualClock(), tmp_path / "live"
    delay = {"x-redelivery-delay": 60_000, "x-redelivery-jitter": 0}
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(
            1, QUEUE.Declare(queue="q", durable=True), QUEUE.Declare(queue="later", durable=True, arguments=delay)
        )
        await publish_all(running.broker, peer, persistent(1, "q", b"a"), persistent(1, "q", b"b"))
        await publish_all(running.broker, peer, persistent(1, "later", b"c"))
        for queue in ("q", "q", "q", "later"):
            await peer.send(1, BASIC.Get(queue=queue), BASIC.Recover(requeue=True))
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    due = clock() + 60_000
    for _ in range(2):  # and over a run in which nothing happens to it
        clock.advance(1000)
        async with testing.broker(http=False, data_dir=data if clean else tmp_path / "copy", clock=clock) as running:
            assert [entry.delivery_count for entry in queue_of(running.broker).browse()] == [3, 0]
            later = queue_of(running.broker, "later")
            assert (later.order.count, later.schedule.count, later.next_due_at()) == (0, 1, due)
    clock.advance(60_000)
    async with testing.broker(http=False, data_dir=data if clean else tmp_path / "copy", clock=clock) as running:
        later = queue_of(running.broker, "later")
        later.tick(clock())
        (entry,) = later.acquire(1, -1, clock())
        assert (entry.delivery_count, entry.redelivered) == (1, True)


async def test_what_is_remembered_of_an_entry_goes_with_it(tmp_path: Path) -> None:
    """Also where the crash comes after the log knew and before the history did."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(running.broker, peer, persistent(1, "q", b"a"))
        await peer.send(1, BASIC.Get(queue="q"), BASIC.Recover(requeue=True))
        await running.broker.commit.durable()
        shutil.copytree(data, tmp_path / "before", ignore=shutil.ignore_patterns("catalogue*", "messages"))
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await crash(running.broker, data, tmp_path / "copy")
        history = running.broker.history
        assert history is not None
        assert history.history.entry_states() == {}
        await leave(peer)
    shutil.copytree(tmp_path / "before", tmp_path / "copy", dirs_exist_ok=True)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        await running.broker.commit.durable()
        history = running.broker.history
        assert history is not None
        assert history.history.entry_states() == {}


async def test_scheduled_messages_wait_on(tmp_path: Path) -> None:
    clock, data = testing.VirtualClock(), tmp_path / "live"
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(running.broker, peer, persistent(1, "q", b"later", headers={"x-delay": 5000}))
        await leave(peer)
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        queue = queue_of(running.broker)
        (entry,) = queue.schedule.entries()
        assert entry.message.deliver_at == queue.next_due_at() == clock() + 5000


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
async def test_a_paused_queue_stays_paused(tmp_path: Path, clean: bool) -> None:
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True), QUEUE.Declare(queue="resumed", durable=True))
        for name in ("q", "resumed"):
            queue_of(running.broker, name).pause(0)
        queue_of(running.broker, "resumed").resume(0)
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    data = data if clean else tmp_path / "copy"
    async with testing.broker(http=False, data_dir=data) as running:
        assert (queue_of(running.broker).paused, queue_of(running.broker, "resumed").paused) == (True, False)
        queue_of(running.broker).resume(0)
    async with testing.broker(http=False, data_dir=data) as running:
        assert not queue_of(running.broker).paused


async def test_a_message_with_malformed_headers_is_delivered_at_once(tmp_path: Path) -> None:
    """Versions that did not look into them let such messages in."""
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        malformed = Message(b"\x20\x00\x00\x00\x00\xff", b"a", Origin("", "q", "guest@test", VIEW), durable=True)
        broker.hosts["/"].publish(malformed, broker.hosts["/"].route("", "q"), broker.clock())
        await leave(peer)
    with structlog.testing.capture_logs() as lines:
        async with testing.broker(http=False, data_dir=tmp_path) as running:
            assert contents(queue_of(running.broker)) == [b"a"]
    assert [line["count"] for line in lines if "malformed" in line["event"]] == [1]
