"""What a broker finds again after a restart."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pamqp import commands
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.broker import CATALOGUE_FILE
from annulet.broker.paging import pager as pager_module
from annulet.broker.paging.pager import CHUNK
from annulet.broker.recovery import recovery, recovery_progress
from annulet.broker.recovery.recovery import REDELIVERED_UPTO, SPILL_LIMIT_MOST, open_spill
from annulet.broker.settings.configuration import load
from annulet.core.base.removal_reasons import RemovalReason
from annulet.store.database.catalogue import Catalogue
from annulet.store.files.errors import CatalogueError, LogFailedError
from annulet.store.inspection.rebuilding import rebuild
from annulet.store.log.written_mark import WRITTEN_FILE
from annulet.store.segments.segment import segment_name
from tests.broker.amqp091.peer import Peer, persistent, publish
from tests.broker.restarts import contents, crash, leave, publish_all, queue_of
from tests.residency.acceptance.deep import deep_broker

QUEUE, EXCHANGE, BASIC = commands.Queue, commands.Exchange, commands.Basic


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


async def test_what_a_start_has_left_to_page_goes_on_without_the_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 3 * CHUNK
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(count), size=20)
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    monkeypatch.setattr(recovery, "RESTORE_SLICE", count)
    monkeypatch.setattr(pager_module, "SLICE", 1)
    async with deep_broker(tmp_path / "killed") as deep:
        assert deep.paging.found_by_tick == 0, "a start has one as it is ready"
        await deep.written()
        assert deep.queue().order.paged_count() > CHUNK


async def test_a_long_start_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(running.broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(40)))
        await leave(peer)
    monkeypatch.setattr(recovery_progress, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(recovery, "RESTORE_SLICE", 10)
    with capture_logs() as said:
        async with testing.broker(http=False, data_dir=tmp_path):
            pass
    read = [line for line in said if line["event"] == "recovering the message log"]
    assert (read[-1]["segments_done"], read[-1]["seconds_left"]) == (read[-1]["segments_total"], 0)
    assert "share" not in read[-1]
    assert [line["restored"] for line in said if line["event"] == "restoring messages"] == [10, 20, 30, 40]


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


async def test_a_ring_whose_last_window_was_torn_is_no_larger_than_its_size(tmp_path: Path) -> None:
    """The messages of the window are there, and so is what they replaced: its settlements do not count."""
    async with testing.broker(http=False, data_dir=tmp_path / "data") as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True, arguments={"x-ring-size": 3}))
        await publish_all(broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(3)))
        await publish_all(broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(3, 5)))
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
        await leave(peer)
    (tmp_path / "killed" / "messages" / WRITTEN_FILE).unlink()  # the power failed before anything of it was written
    segment = tmp_path / "killed" / "messages" / segment_name(1)
    content = segment.read_bytes()
    segment.write_bytes(content.rstrip(b"\0")[:-1].ljust(len(content), b"\0"))
    async with testing.broker(http=False, data_dir=tmp_path / "killed") as running:
        broker = running.broker
        assert broker.log.report.torn_messages == {queue_of(broker).queue_id: 2}
        assert contents(queue_of(broker)) == [b"2", b"3", b"4"]
        await broker.commit.durable()
        assert broker.log.statistics().live_records == 3


async def test_counters_of_a_broker_whose_log_failed_know_of_nothing_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the first ten seconds of a queue's life the history knows nothing of it."""

    def write(_: object) -> None:
        raise LogFailedError("disk gone")

    async with testing.broker(http=False, data_dir=tmp_path) as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(5)))
        monkeypatch.setattr(broker.log, "write", write)
        await peer.send(1, QUEUE.Purge(queue="q"))
        with pytest.raises(LogFailedError):
            raise await broker.failed()
        assert queue_of(broker).counters.removed[RemovalReason.PURGED] == 5
        await leave(peer)
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        counters = queue_of(running.broker).counters
        assert len(contents(queue_of(running.broker))) == 5
        assert (counters.messages_added, counters.removed[RemovalReason.PURGED]) == (5, 0)


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


async def test_the_single_number_of_older_versions_marks_everything_up_to_it(tmp_path: Path) -> None:
    async with testing.broker(http=False, data_dir=tmp_path) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="q", durable=True))
        await publish_all(running.broker, peer, *(persistent(1, "q", b"%d" % number) for number in range(4)))
        await leave(peer)
        queue_id = queue_of(running.broker).queue_id
    catalogue = Catalogue(tmp_path / CATALOGUE_FILE)
    counters = catalogue.queue_counters(queue_id)
    assert counters is not None
    catalogue.set_queue_counters(queue_id, counters | {REDELIVERED_UPTO: 2})
    catalogue.close()
    for known in (None, [1, 2]):  # the second time they are ranges
        async with testing.broker(http=False, data_dir=tmp_path) as running:
            assert [entry.redelivered for entry in queue_of(running.broker).browse()] == [True, True, False, False]
            assert running.broker.catalogue.redelivered(queue_id) == known


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
    """A start refuses a catalogue that is missing; one made anew gives no id that the log knows of another queue."""
    data = tmp_path / "live"
    async with testing.broker(http=False, data_dir=data) as running:
        peer = await Peer(running.broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="secret", durable=True))
        await publish_all(running.broker, peer, persistent(1, "secret"))
        await crash(running.broker, data, tmp_path / "copy")
        await leave(peer)
    for file in (tmp_path / "copy").glob("catalogue.sqlite*"):
        file.unlink()
    with pytest.raises(CatalogueError, match="missing beside a message log"):
        async with testing.broker(http=False, data_dir=tmp_path / "copy"):
            pass
    assert [(queue.name, queue.messages) for queue in rebuild(tmp_path / "copy")] == [("secret", 1)]
    async with testing.broker(http=False, data_dir=tmp_path / "copy") as running:
        assert len(contents(queue_of(running.broker, "secret"))) == 1
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


async def test_what_recovery_supersedes_is_sent_on_when_everything_is_there(tmp_path: Path) -> None:
    """The target is restored after its source, has messages of its own, and another appears with the configuration."""
    copy = tmp_path / "copy"
    async with testing.broker(http=False, data_dir=tmp_path / "data") as running:
        broker = running.broker
        peer = await Peer(broker).open(1)
        await peer.send(1, QUEUE.Declare(queue="z", durable=True))
        for name, target in (("a", "z"), ("b", "configured")):
            arguments = {"x-last-value-key": "k", "x-dropped-address": target}
            await peer.send(1, QUEUE.Declare(queue=name, durable=True, arguments=arguments))
        await publish_all(broker, peer, persistent(1, "z", b"z1"), persistent(1, "z", b"z2"))
        broker.hosts["/"].dead_letters.held = True  # the crash comes before the copies are stored
        for name in ("a", "b"):
            values = [persistent(1, name, f"{name}{number}".encode(), headers={"k": "v"}) for number in (1, 2)]
            await publish_all(broker, peer, *values)
        await crash(broker, tmp_path / "data", copy)
        broker.hosts["/"].dead_letters.release(broker.clock())
        await leave(peer)
    file = tmp_path / "annulet.toml"
    file.write_text('[[queues]]\nname = "configured"\ndurable = true\n')
    for _ in range(2):  # and once is enough
        async with testing.broker(http=False, data_dir=copy, definitions=load(file).definitions) as running:
            broker = running.broker
            assert contents(queue_of(broker, "a")) == [b"a2"]
            assert contents(queue_of(broker, "z")) == [b"z1", b"z2", b"a1"]
            assert contents(queue_of(broker, "configured")) == [b"b1"]
            assert [entry.sequence for entry in queue_of(broker, "z").browse()] == [1, 2, 3]
            assert not broker.hosts["/"].dead_letters.held


def test_the_spill_store_is_half_of_the_free_disk_at_most_and_emptied_even_when_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "spill" / "00000001.spill"
    for limit, free, expected in (
        (None, 100 << 30, SPILL_LIMIT_MOST),
        (None, 1 << 30, 1 << 29),
        (None, 0, 1),
        (5 << 20, 0, 5 << 20),
        (0, 100 << 30, 0),
    ):
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"of a broker that was killed")
        monkeypatch.setattr("shutil.disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        store = open_spill(tmp_path, limit)
        assert (0 if store is None else store.limit) == expected
        assert not left.exists()


def test_what_a_killed_broker_had_spilled_is_no_reason_for_a_smaller_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "spill" / "00000001.spill"
    left.parent.mkdir()
    left.write_bytes(b"of a broker that was killed")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000 if left.exists() else 3000))
    store = open_spill(tmp_path, None)
    assert store is not None
    assert store.limit == 1500


async def test_what_the_broker_made_by_itself_goes_after_a_restart_as_before(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(
        '[[queues]]\nname = "orders"\n'
        '[[address_settings]]\nmatch = "orders"\ndead-letter-address = "dead"\n'
        "auto-create-dead-letter-resources = true\n"
        '[[address_settings]]\nmatch = "dead"\ndefault-ring-size = 5\n'
        '[[address_settings]]\nmatch = "DLQ.#"\ndefault-ring-size = 1\n'
    )
    for first in (True, False):
        definitions = load(file).definitions
        async with testing.broker(http=False, data_dir=tmp_path / "data", definitions=definitions) as running:
            broker = running.broker
            host = broker.hosts["/"]
            if first:
                peer = await Peer(broker).open(1)
                await publish_all(broker, peer, persistent(1, "orders", b"dead letter"))
                orders = queue_of(broker, "orders")
                orders.reject(orders.acquire(1, -1, broker.clock())[0], broker.clock())
                await leave(peer)
            letters = queue_of(broker, "DLQ.orders")
            assert contents(letters) == [b"dead letter"]
            assert letters.settings.ring_size == 5, "it goes by the settings of its address"
            host.tick(broker.clock())
            assert {"dead"} == set(host.addresses)
            assert not host.lifetime_of(queue_of(broker, "orders")).auto_created
            if not first:
                letters.acknowledge(letters.acquire(1, -1, broker.clock())[0])
                host.tick(broker.clock() + 1)
                assert set(host.queues) == {"orders"}
                assert not host.addresses
                assert [record.name for record in broker.catalogue.queues("/")] == ["orders"]
                assert broker.catalogue.exchanges("/") == []
