"""Retroactive addresses. Scenario ids A3 to A5 are those of the specification's table."""

from __future__ import annotations

from annulet.core.host.virtual_host import VirtualHost
from tests.core.helpers import NOW
from tests.core.node_helpers import RecordingNodeEffects, address, declare, held, make_host, note, send

RING = "amq.retroactive.multicast.news"


def retroactive(count):
    host = make_host({"news": {"retroactive-message-count": count}})
    host.nodes.declare_address("news")
    host.tick(NOW)
    return host


def test_a3_a_new_queue_gets_the_latest_in_order():
    host = retroactive(15)
    for loop in range(3):
        for number in range(15):
            assert send(host, "news", f"{loop}-{number}") == 1
    ring = host.queues[RING]
    assert ring.order.count == 15
    assert ring.counters.messages_added - ring.order.count == 30
    address(host, "news", "q")
    assert held(host, "q") == [[f"2-{number}" for number in range(15)]]
    assert host.addresses["news"].queues() == [host.queues["q"]]


def test_a4_the_ring_follows_the_settings():
    host = retroactive(10)
    for number in range(30):
        send(host, "news", str(number))
        if number == 9:
            host.address_settings.set("news", {"retroactive-message-count": 20})
    assert host.queues[RING].settings.ring_size == 20
    host.address_settings.set("news", {"retroactive-message-count": 10})
    host.tick(NOW)
    assert held(host, RING) == [[str(number) for number in range(20, 30)]]
    host.address_settings.remove("news")
    host.tick(NOW)
    assert RING not in host.queues
    address(host, "news", "q")
    assert held(host, "q") == [[]]


def test_a5_a_ring_that_recovery_brings_back_goes_on():
    host = VirtualHost("/", RecordingNodeEffects())
    host.address_settings.set("news", {"retroactive-message-count": 5})
    host.declare_exchange("news", "address", durable=True)
    ring = host.declare_queue(
        RING, now=NOW, durable=True, arguments={"x-ring-size": 5, "x-ring-trim": "now"}, queue_id=7, server_named=True
    )
    ring.restore(note("A", to="news", durable=True), 1, redelivered=False)
    ring.finish_restore(2)
    send(host, "news", "B", durable=True)
    assert host.effects.created == []
    address(host, "news", "q")
    assert held(host, "q") == [["A", "B"]]


def test_what_is_kept_is_stored_once_and_copies_are_stored_by_themselves():
    host = retroactive(2)
    assert host.effects.created == [RING]
    send(host, "news", "A", durable=True)
    (queue,) = declare(host, "q", durable=True)
    host.nodes.attach_queue(queue, "news")
    assert [[entry.queue.name for entry in entries] for _, entries in host.effects.stored] == [[RING], ["q"]]
    (first, _), (second, _) = host.effects.stored
    assert first is not second
    assert first.body is second.body


def test_filters_of_queue_and_binding_apply():
    host = retroactive(10)
    for body, colour in (("A", "red"), ("B", "blue"), ("C", "red")):
        send(host, "news", body, colour=colour, size=len(body))
    (queue,) = declare(host, "q", arguments={"x-selector": "colour = 'red'"})
    host.bind_queue(queue, "news", "", {"x-filter-jms-selector": "size > 1"})
    assert held(host, "q") == [[]]
    host.bind_queue(queue, "news", "")
    assert held(host, "q") == [["A", "C"]]


def test_each_routing_type_has_its_ring():
    host = make_host({"both": {"retroactive-message-count": 5}})
    host.nodes.declare_address("both", ("anycast", "multicast"))
    for body, kind in (("A", "anycast"), ("M", "multicast"), ("X", "")):
        send(host, "both", body, routing_type=kind)
    for name, kind in (("one", "anycast"), ("all", "multicast")):
        host.nodes.attach_queue(declare(host, name)[0], "both", kind)
    assert held(host, "one", "all") == [["A", "X"], ["M", "X"]]


def test_a_ring_is_never_taken_away_for_lack_of_use():
    host = make_host({"#": {"retroactive-message-count": 2, "auto-delete-created-queues": True}})
    host.nodes.declare_address("news")
    send(host, "news")
    host.tick(NOW + 1_000_000)
    assert RING in host.queues
    host.nodes.delete_address("news")
    assert RING not in host.queues


def test_settings_and_policies_for_queues_are_not_for_rings():
    """A ring refuses nothing, and what it lets go was never a queue's message: no copies to other addresses."""
    host = make_host(
        {
            "#": {
                "expiry-address": "late", "dropped-address": "dropped", "default-max-length": 1,
                "default-overflow": "reject",
            },
            "news": {"retroactive-message-count": 2},
        }
    )  # fmt: skip
    host.policies.set("all", ".*", {"expires": 1000, "message-ttl": 10})
    late, dropped = declare(host, "late", "dropped", arguments={"x-max-length": 10})
    host.nodes.declare_address("news")
    for body in "ABC":
        assert send(host, "news", body) == 1
    host.policies.set("all", ".*", {"message-ttl": 20})
    host.address_settings.set("#", {"expiry-address": "late", "dropped-address": "dropped", "message-ttl": 5})
    host.tick(NOW + 900)
    host.policies.set("all", "amq.*", {"expires": 1000})
    host.tick(NOW + 5000)
    assert held(host, RING) == [["B", "C"]]
    assert (late.counters.messages_added, dropped.counters.messages_added) == (0, 0)


def test_a_ring_that_somebody_deletes_is_made_anew():
    host = retroactive(2)
    send(host, "news", "A")
    former = host.queues[RING]
    host.delete_queue(former, NOW)
    assert send(host, "news", "B") == 1
    assert former.counters.messages_added == 1
    assert host.queues[RING] is not former
    assert held(host, RING) == [["B"]]
