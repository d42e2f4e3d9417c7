"""Names of rings, and copies of the messages that they keep."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import ContentUnavailable, PreconditionFailed
from annulet.core.host.retroactive import copy_of, is_ring_name, kept_messages, owner_of, ring_name
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.residency.pages import walk as walk_module
from tests.core.helpers import NOW
from tests.core.node_helpers import address, declare, held, make_host, note, send
from tests.residency.doubles import Disk, bodies_of, pages_of

RING = "amq.retroactive.multicast.news"


def retroactive(count):
    host = make_host({"news": {"retroactive-message-count": count}})
    host.nodes.declare_address("news")
    host.tick(NOW)
    return host


def test_names_and_copies():
    host = retroactive(2)
    ring = host.queues[ring_name("news", "multicast")]
    assert is_ring_name(ring.name)
    assert not is_ring_name(declare(host, "q")[0].name)
    message = note("A", to="news", durable=True)
    message.expires_at, message.priority = NOW + 5, 7
    copy = copy_of(message)
    for name in (
        "accepted_at",
        "body",
        "deliver_at",
        "durable",
        "expires_at",
        "header",
        "origin",
        "priority",
        "record",
    ):
        assert getattr(copy, name) == getattr(message, name)
    for body in "AB":
        send(host, "news", body)
    kept = kept_messages(ring)
    assert [message.body for message in kept] == [b"A", b"B"]
    assert not {*kept} & {entry.message for entry in ring.order.entries()}, "each is stored by itself"
    assert owner_of(ring.name) == ("news", "multicast")


@pytest.mark.parametrize("deep", [True, False])
def test_what_is_kept_on_disk_is_read_for_a_new_queue_or_that_does_not_join(monkeypatch, deep):
    monkeypatch.setattr(walk_module, "WALK_MESSAGES", 7)
    host, disk = retroactive(30), Disk()
    ring = host.queues[RING]
    ring.queue_id, ring.durable = 7, True
    for number in range(40):
        message = note(f"{number}", to="news", durable=True)
        disk.store(ring, message, ring.next_sequence)
        ring.enqueue(message, NOW)
    pages = pages_of(ring, disk)
    if deep:
        order = paged_order_of(ring, pages)
        order.keep_messages = 2
        order.page_out(1 << 60, 100)
    else:
        bodies_of(ring, disk).let_all_go(1 << 60)
    paged = ring.order.paged_count()
    disk.failing = True
    with pytest.raises(ContentUnavailable, match="address 'news': the disk cannot read the messages kept"):
        address(host, "news", "q")
    assert host.addresses["news"].queues() == []
    disk.failing = False
    disk.damaged.add(20)
    if not deep:
        ring.bodies.retry()
    address(host, "news", "q")
    assert held(host, "q") == [[str(number) for number in range(10, 40) if number != 19]]
    assert (ring.order.paged_count(), bool(paged)) == (paged, deep)
    disk.free = 100
    if deep:
        with pytest.raises(PreconditionFailed, match="joins a retroactive address has to read all of it"):
            address(host, "news", "other")
