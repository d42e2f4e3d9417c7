"""``amq.events``: what happened as messages, of chosen queues, bounded, and kept where it can be leased."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.durability import event_log as module
from annulet.broker.durability.event_log import EVENT_QUEUE, REPRIORITISED
from annulet.broker.durability.ledger_queue import LEDGER_QUEUE
from annulet.broker.settings.configuration import EVENT_QUEUE_BYTES_LEAST
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import new_reply_name
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.queue.queue import Queue
from annulet.store.files.errors import CatalogueError
from tests.core.helpers import RecordingSession

ORIGIN = Origin("", "q", "guest@test", ContentView("none"))


def declare(broker: Broker, name: str = "q", host: str = "/", **arguments: Any) -> Queue:
    known = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return broker.hosts[host].declare_queue(name, now=broker.clock(), arguments=known)


def publish(broker: Broker, queue: Queue, count: int = 1) -> None:
    for _ in range(count):
        queue.enqueue(Message(b"", b"body", ORIGIN, accepted_at=broker.clock()), broker.clock())


def batches(broker: Broker, host: str = "/") -> list[dict[str, Any]]:
    return [json.loads(entry.message.body) for entry in broker.hosts[host].queues[EVENT_QUEUE].browse()]


async def test_a_turn_of_a_queue_is_a_message() -> None:
    clock = testing.VirtualClock()
    async with testing.broker(http=False, clock=clock, event_queues=("#",)) as running:
        broker = running.broker
        queue = declare(broker)
        publish(broker, queue)
        session = RecordingSession("channel 1")
        session.consume(queue, "tag", messages=1, now=clock())
        assert batches(broker) == []
        await asyncio.sleep(0)
        clock.advance(250)
        session.acknowledge(1, clock())
        await asyncio.sleep(0)
        first, second = batches(broker)
        began = clock() - 250
        assert first == {
            "vhost": "/", "queue": "q", "waiting": 0, "delivering": 1,
            "events": [
                {"event": "accepted", "sequence": 1, "at": began, "size": 4, "priority": 4},
                {"event": "delivered", "sequence": 1, "at": began, "consumer": "channel 1 tag"},
            ],
        }  # fmt: skip
        assert second["events"] == [{"event": "acknowledged", "sequence": 1, "at": clock()}]
        assert (second["waiting"], second["delivering"]) == (0, 0)
        (message, _) = (entry.message for entry in broker.hosts["/"].queues[EVENT_QUEUE].browse())
        properties = message.origin.view.properties(message)
        assert (properties.content_type, properties.subject) == ("application/json", "events")
        headers = [message.origin.view.application_property(message, name) for name in ("queue", "events")]
        assert headers == ["q", 2]


async def test_reply_queues_have_no_events() -> None:
    async with testing.broker(http=False, event_queues=("#",)) as running:
        broker = running.broker
        queue = broker.hosts["/"].declare_queue(new_reply_name(), now=broker.clock(), server_named=True)
        publish(broker, queue)
        await asyncio.sleep(0)
        assert batches(broker) == []


async def test_returns_losses_and_purges_are_events() -> None:
    async with testing.broker(http=False, event_queues=("q", "filled")) as running:
        broker = running.broker
        queue = declare(broker, ring_size=1)
        publish(broker, queue, 2)
        session = RecordingSession()
        session.consume(queue, messages=1)
        session.close(broker.clock())
        queue.purge(broker.clock())
        filled = declare(broker, "filled")
        publish(broker, filled, AT_ONCE_MAX + 1)
        filled.purge(broker.clock())
        await asyncio.sleep(0)
        first, *_, last = (batch["events"] for batch in batches(broker))
        assert [event["event"] for event in first[2:]] == ["replaced-ring", "delivered", "returned", "purged"]
        assert (last[-1]["event"], last[-1]["sequence"], last[-1]["count"]) == ("purged", 0, AT_ONCE_MAX + 1)


async def test_a_changed_priority_ends_the_one_number_and_names_the_other() -> None:
    async with testing.broker(http=False, event_queues=("q",)) as running:
        broker = running.broker
        queue = declare(broker)
        publish(broker, queue)
        (entry,) = queue.browse()
        queue.reprioritise(entry, 7, broker.clock())
        await asyncio.sleep(0)
        (batch,) = batches(broker)
        assert [(event["event"], event["sequence"]) for event in batch["events"]] == [
            ("accepted", 1),
            (REPRIORITISED, 1),
        ]
        assert (batch["events"][1]["successor"], batch["events"][1]["priority"], batch["waiting"]) == (2, 7, 1)


async def test_only_chosen_queues_and_none_of_its_own() -> None:
    async with testing.broker(http=False, event_queues=("orders.#", "amq.*"), ledger_queue=True) as running:
        broker = running.broker
        for name in ("orders.new", "returns"):
            publish(broker, declare(broker, name, ring_size=1), 2)
        for _ in range(3):
            await asyncio.sleep(0)
        assert [batch["queue"] for batch in batches(broker)] == ["orders.new"]
        assert broker.hosts["/"].queues[LEDGER_QUEUE].order.count == 2


async def test_a_message_holds_so_many_events_and_the_queue_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS_MAX", 3)
    settings: dict[str, Any] = {"event_queues": ("#",), "event_queue_bytes": EVENT_QUEUE_BYTES_LEAST}
    async with testing.broker(http=False, **settings) as running:
        broker = running.broker
        publish(broker, declare(broker), 8)
        await asyncio.sleep(0)
        assert [len(batch["events"]) for batch in batches(broker)] == [3, 3, 2]
        events = broker.hosts["/"].queues[EVENT_QUEUE]
        assert events.settings.max_bytes == EVENT_QUEUE_BYTES_LEAST
        assert events.settings.overflow == "ring"
        publish(broker, events, EVENT_QUEUE_BYTES_LEAST // 4 + 5)
        assert events.pending_bytes <= EVENT_QUEUE_BYTES_LEAST
        await asyncio.sleep(0)
        assert broker.hosts["/"].ledger.total == 0


async def test_what_falls_out_is_no_dead_letter_which_would_be_the_next_event() -> None:
    async with testing.broker(http=False, event_queues=("#",), event_queue_bytes=1000) as running:
        broker = running.broker
        queue, dead = declare(broker), declare(broker, "dead")
        host = broker.hosts["/"]
        host.address_settings.set("#", {"dead-letter-address": "dead"})
        for _ in range(20):
            publish(broker, queue)
            await asyncio.sleep(0)
        events = host.queues[EVENT_QUEUE]
        assert events.settings.dead_letter_address == "dead"
        assert events.counters.removed[RemovalReason.OVERFLOW] > 0
        assert dead.counters.messages_added == 0


async def test_each_virtual_host_has_its_own_and_a_deleted_one_comes_back() -> None:
    async with testing.broker(http=False, event_queues=("#",)) as running:
        broker = running.broker
        other = broker.create_host("other")
        other.delete_queue(other.queues[EVENT_QUEUE], broker.clock())
        publish(broker, declare(broker, host="other"))
        await asyncio.sleep(0)
        assert (len(batches(broker)), len(batches(broker, "other"))) == (0, 1)


async def test_a_disk_that_refuses_the_queue_costs_the_events_of_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_values: object) -> int:
        raise CatalogueError("the disk is full")

    async with testing.broker(http=False, event_queues=("#",)) as running:
        broker = running.broker
        queue, host = declare(broker), broker.hosts["/"]
        host.delete_queue(host.queues[EVENT_QUEUE], broker.clock())
        with monkeypatch.context() as patch, capture_logs() as logs:
            patch.setattr(broker.catalogue, "add_queue", refuse)
            publish(broker, queue, 2)
            await asyncio.sleep(0)
        lost = [line for line in logs if line["log_level"] == "warning"]
        assert [(line["event"], line["count"]) for line in lost] == [("events are lost", 2)]
        publish(broker, queue)
        await asyncio.sleep(0)
        assert [[event["sequence"] for event in batch["events"]] for batch in batches(broker)] == [[3]]


async def test_it_is_durable_and_taken_up_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        async with testing.broker(http=False, data_dir=tmp_path, event_queues=("#",)) as running:
            broker = running.broker
            events = broker.hosts["/"].queues[EVENT_QUEUE]
            assert events.durable
            assert events.queue_id
            assert events.ledger.records_max == 0
            assert events.order.count == 0, "its messages go with the process"
            publish(broker, declare(broker))
            await asyncio.sleep(0)
            assert len(batches(broker)) == 1


async def test_there_is_none_unless_asked_for() -> None:
    async with testing.broker(http=False, journal=False) as running:
        broker = running.broker
        assert EVENT_QUEUE not in broker.hosts["/"].queues
        assert declare(broker).events is None
