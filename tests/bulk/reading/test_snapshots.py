"""Point-in-time views: unchanged by what happens to the queue, and bounded."""

from __future__ import annotations

import pytest

from annulet.bulk.protocol.errors import NotFoundError
from annulet.bulk.reading import snapshots
from annulet.bulk.reading.snapshots import SNAPSHOT_IDLE_MAX, SnapshotStore
from annulet.core.base.errors import CoreError
from annulet.core.base.settings import QueueSettings
from annulet.core.message.message import ContentView, Message, Origin, PropertyValue
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.wire.amqp091.messages.properties import VIEW
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled


def queue(*bodies: bytes) -> Queue:
    made = Queue("q", QueueSettings(), NodeEffects())
    for body in bodies:
        made.enqueue(Message(b"\x00\x00", body, Origin("", "q", "", VIEW)), 0)
    return made


def test_a_view_does_not_change() -> None:
    store = SnapshotStore(lambda: 0)
    source = queue(b"a", b"b")
    (leased,) = source.acquire(1, -1, 0)
    name, count = store.take("/", source)
    assert count == 2
    source.acknowledge(leased)
    source.purge(0)
    assert [row.message.body for row in store.find("/", name).rows] == [b"a", b"b"]
    assert [row.position for row in store.find("/", name).rows] == [1, 2]
    with pytest.raises(NotFoundError):
        store.find("other host", name)


def test_idle_views_go_and_used_ones_stay() -> None:
    now = [0]
    store = SnapshotStore(lambda: now[0])
    used, _ = store.take("/", queue(b"a"))
    idle, _ = store.take("/", queue(b"a"))
    now[0] = SNAPSHOT_IDLE_MAX
    store.find("/", used)
    assert store.expire() == 0
    now[0] += 1
    assert store.expire() == 1
    store.find("/", used)
    with pytest.raises(NotFoundError, match="Read the queue again"):
        store.find("/", idle)


def test_the_view_idle_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOTS_MAX", 2)
    now = [0]
    store = SnapshotStore(lambda: now[0])
    names = []
    for now[0] in range(3):
        names.append(store.take("/", queue())[0])
    assert len(store) == 2
    with pytest.raises(NotFoundError):
        store.find("/", names[0])


def test_a_selector_chooses_rows() -> None:
    store = SnapshotStore(lambda: 0)
    source = queue(b"a", b"b")
    source.enqueue(Message(b"\x08\x00\x09", b"c", Origin("", "q", "", VIEW), priority=9), 0)

    name, count = store.take("/", source, "JMSPriority > 8")

    assert (count, [row.message.body for row in store.find("/", name).rows]) == (1, [b"c"])
    with pytest.raises(CoreError, match="invalid selector"):
        store.take("/", source, "JMSPriority >")


class UnreadableView(ContentView):
    """Of a protocol whose content may be malformed."""

    def application_property(self, message: Message, name: str) -> PropertyValue:
        raise ValueError(name)


def test_what_a_selector_cannot_read_does_not_match() -> None:
    store = SnapshotStore(lambda: 0)
    source = queue(b"a")
    source.enqueue(Message(b"", b"broken", Origin("", "q", "", UnreadableView("unreadable"))), 0)

    assert store.take("/", source, "x IS NULL")[1] == 1
    assert store.take("/", source)[1] == 2


def test_bodies_on_disk_are_in_memory_while_a_view_shows_them() -> None:
    source, disk = durable_queue(priorities=10), Disk()
    messages = [entry.message for entry in filled(source, disk, 3)]
    bodies = bodies_of(source, disk)
    bodies.let_all_go(1 << 60)
    store = SnapshotStore(lambda: 0)
    name, _ = store.take("/", source)
    source.purge(0)
    disk.failing = True
    bodies.store.drop_orphans()
    assert [int(row.message.body) for row in store.find("/", name).rows] == [1, 2, 3]
    store._drop(name)
    assert [message.near for message in messages] == [0, 0, 0]


def test_a_view_that_the_disk_does_not_give_is_refused() -> None:
    source, disk = durable_queue(priorities=10), Disk()
    filled(source, disk, 3)
    bodies_of(source, disk).let_all_go(1 << 60)
    disk.failing = True
    store = SnapshotStore(lambda: 0)
    with pytest.raises(CoreError, match="the disk does not give it now"):
        store.take("/", source)
    assert len(store) == 0
