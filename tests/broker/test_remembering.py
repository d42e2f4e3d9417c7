"""What a broker remembers after a restart beside its messages: losses, deliveries, pauses, duplicate ids, counters."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import structlog
from pamqp import commands

from annulet import testing
from annulet.broker.durability.history import COUNTERS_MILLISECONDS
from annulet.broker.settings.configuration import load
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.message.message import Message, Origin
from annulet.core.model.audit_trail import AuditEntry
from annulet.store.database.history import History
from annulet.store.database.history_batch import EntryState, HistoryBatch
from annulet.store.files.errors import HistoryError
from annulet.wire.amqp091.messages.properties import VIEW
from tests.broker.amqp091.peer import Peer, persistent, publish
from tests.broker.restarts import contents, crash, leave, publish_all, queue_of, send_with_id

QUEUE, EXCHANGE, BASIC = commands.Queue, commands.Exchange, commands.Basic


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


async def test_losses_that_are_no_queues_removals_come_back(tmp_path: Path) -> None:
    """What a full address dropped, and a dead letter nobody got."""
    file = tmp_path / "annulet.toml"
    file.write_text(
        '[[queues]]\nname = "q"\narguments = {max-length = 0, dead-letter-exchange = "amq.direct"}\n'
        '[[queues]]\nname = "full"\n'
        '[[address_settings]]\nmatch = "full"\nmax-size-messages = 1\naddress-full-policy = "DROP"\n'
    )
    for publishes in (True, False):
        definitions = load(file).definitions
        async with testing.broker(http=False, data_dir=tmp_path / "data", definitions=definitions) as running:
            if publishes:
                peer = await Peer(running.broker).open(1)
                await publish_all(running.broker, peer, persistent(1, "full"), persistent(1, "full", b"23"))
                await publish_all(running.broker, peer, publish(1, "full"), publish(1, "q"), persistent(1, "q", b"234"))
                await leave(peer)
            ledger = running.broker.hosts["/"].ledger
            found = [(record.queue, record.reason.value, record.size, record.rule) for record in ledger.query()]
            if publishes:
                assert len(found) == 6
            else:
                assert [row for row in found if row[0] == "full"] == [
                    ("full", "overflow", 2, "address-full-policy drop")
                ]
                assert {row[1:3] for row in found if row[0] == "q"} == {("overflow", 3), ("dead-lettered", 3)}
                assert ledger.total == 3


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
        broker.counter_rounds.tick(broker.hosts.values(), clock())
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


async def test_a_crash_costs_counters_nothing_of_what_persistent_messages_left_for(tmp_path: Path) -> None:
    """But for acknowledgements: those are as old as the last round, and before the first there is nothing."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        broker = running.broker
        broker.counter_rounds._begun_at = 1 << 60
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-ring-size": 4}))
        await publish_all(broker, peer, *(persistent(1, "q", b"body") for _ in range(7)))
        await peer.send(1, BASIC.Get(queue="q"), BASIC.Reject(delivery_tag=1, requeue=False))
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await publish_all(broker, peer, persistent(1, "q"))
        counters = queue_of(broker).statistics()
        assert counters.removed == {"replaced-ring": 3, "rejected": 1, "acknowledged": 1}
        await crash(broker, data, tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        counters = queue_of(running.broker).statistics()
        assert counters.removed == {"replaced-ring": 3, "rejected": 1}
        assert (counters.messages_added, counters.message_count) == (7, 3)


async def test_counters_of_a_clean_stop_are_not_forgotten_by_a_crash_soon_after_the_start(tmp_path: Path) -> None:
    clock, data = testing.VirtualClock(), tmp_path / "live"
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        clock.advance(COUNTERS_MILLISECONDS)
        running.broker.counter_rounds.tick(running.broker.hosts.values(), clock())
        await publish_all(running.broker, peer, *(persistent(1, "q") for _ in range(3)))
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await leave(peer)
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        running.broker.counter_rounds._begun_at = clock()  # the crash comes before the first round
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
        assert not list(history.history.delivery_counts().left())
        await leave(peer)
    shutil.copytree(tmp_path / "before", tmp_path / "copy", dirs_exist_ok=True)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        await running.broker.commit.durable()
        history = running.broker.history
        assert history is not None
        assert history.history.entry_states() == {}
        assert not list(history.history.delivery_counts().left())


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
async def test_what_an_operator_let_fall_due_does_not_wait_again(tmp_path: Path, clean: bool) -> None:
    clock, data = testing.VirtualClock(), tmp_path / "live"
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-priorities": 10}))
        delayed = [persistent(1, "q", name, priority=5, headers={"x-delay": 5000}) for name in (b"a", b"b", b"c", b"d")]
        await publish_all(broker, peer, persistent(1, "q", b"first", priority=5), *delayed)
        queue = queue_of(broker)
        for entry in queue.schedule.entries()[:3]:
            queue.deliver_now(entry, clock())
        assert [entry.message.body for entry in queue.order.entries()] == [b"a", b"b", b"c", b"first"]
        queue.reprioritise(queue.order.entries()[1], 1, clock())
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await crash(broker, data, tmp_path / "copy")
        await leave(peer)
    data = data if clean else tmp_path / "copy"
    async with testing.broker(http=False, data_dir=data, clock=clock) as running:
        queue = queue_of(running.broker)
        assert [entry.message.body for entry in queue.order.entries()] == [b"c", b"first", b"b"]
        assert [entry.message.body for entry in queue.schedule.entries()] == [b"d"]
        running.broker.hosts["/"].queues["q"].purge(clock())
        await running.broker.commit.durable()
        assert running.broker.history is not None
        assert running.broker.history.history.entry_states() == {}


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


async def test_what_is_remembered_of_a_queue_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    batch = HistoryBatch()
    batch.paused, batch.entries, batch.counters = {97: True}, {(98, 1): EntryState(1, 0)}, {99: {"messages_added": 1}}
    history.write(batch)
    history.close()
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        await running.broker.commit.durable()
    history = History(tmp_path / "history.sqlite")
    assert history.queue_ids() == set()
    history.close()


async def test_a_message_with_malformed_headers_is_delivered_at_once(tmp_path: Path) -> None:
    """Versions that did not look into them let such messages in."""
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        malformed = Message(b"\x20\x00\x00\x00\x00\xff", b"a", Origin("", "q", "guest@test", VIEW), durable=True)
        broker.hosts["/"].publisher.publish(malformed, broker.hosts["/"].route("", "q"), broker.clock())
        await leave(peer)
    with structlog.testing.capture_logs() as lines:
        async with testing.broker(http=False, data_dir=tmp_path) as running:
            assert contents(queue_of(running.broker)) == [b"a"]
    assert [line["count"] for line in lines if "malformed" in line["event"]] == [1]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "crashed"])
async def test_duplicate_ids_are_remembered(tmp_path: Path, clean: bool) -> None:
    """Of messages that are gone, too, and for each address on its own."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True), QUEUE.Declare(queue="other", durable=True))
        assert send_with_id(running.broker, "1") == 0
        assert send_with_id(running.broker, "1") == 1
        assert send_with_id(running.broker, "1", key="other") == 1
        queue_of(running.broker).purge(0)
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    for _ in range(2):
        async with testing.broker(http=False, data_dir=data if clean else tmp_path / "copy") as running:
            assert send_with_id(running.broker, "1") == 1
            assert send_with_id(running.broker, "1", key="other") == 2
            assert send_with_id(running.broker, "2", key="unused") == 2


async def test_a_message_is_no_duplicate_less_because_the_history_did_not_hear_of_it(tmp_path: Path) -> None:
    """Killed between the two writes: the log has the message, the sender was told nothing and sends it again."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True), QUEUE.Declare(queue="f", durable=True))
        await peer.send(1, QUEUE.Bind(queue="q", exchange="amq.fanout"), QUEUE.Bind(queue="f", exchange="amq.fanout"))
        send_with_id(broker, "known")
        send_with_id(broker, "settled")
        await broker.commit.durable()
        shutil.copytree(data, tmp_path / "before", ignore=shutil.ignore_patterns("catalogue*", "messages"))
        for number in range(3):
            send_with_id(broker, f"gap{number}")
        send_with_id(broker, "fan", exchange="amq.fanout")
        await peer.send(1, BASIC.Get(queue="q", no_ack=True))
        await crash(broker, data, tmp_path / "copy")
        await leave(peer)
    shutil.copytree(tmp_path / "before", tmp_path / "copy", dirs_exist_ok=True)
    for _ in range(2):  # what was found is written down, so another crash does not forget it
        async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
            broker = running.broker
            ids = ["known", "settled", "gap0", "gap1", "gap2"]
            assert broker.hosts["/"].publisher.duplicates.ids("q") == ids
            assert broker.hosts["/"].publisher.duplicates.ids("amq.fanout") == ["fan"]
            assert [send_with_id(broker, duplicate_id) for duplicate_id in ids] == [1, 2, 3, 4, 5]
            queue_of(broker).purge(0)
            await crash(broker, tmp_path / "copy", tmp_path / "again")
        shutil.rmtree(tmp_path / "copy")
        (tmp_path / "again").rename(tmp_path / "copy")


async def test_old_messages_do_not_push_newer_ids_out(tmp_path: Path) -> None:
    """A backlog holds ids that fell out of the cache long ago; those of messages that are gone count more."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        broker = running.broker
        broker.hosts["/"].address_settings.set("#", {"id-cache-size": 3})
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        for number in range(10):
            send_with_id(broker, str(number))
        for entry in queue_of(broker).browse()[5:]:
            queue_of(broker).remove(entry, RemovalReason.DELETED, 0)
        await crash(broker, data, tmp_path / "copy")
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        assert running.broker.hosts["/"].publisher.duplicates.ids("q")[-3:] == ["7", "8", "9"]
