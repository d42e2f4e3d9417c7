"""What hangs on something that is gone goes in slices, and nobody sees it meanwhile."""

from __future__ import annotations

import sys
from collections import deque

import pytest

from annulet.core.base.errors import NotFound
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.routing.dropped_edges import EDGES_AT_ONCE, SLICE_EDGES, DroppedEdges
from tests.core.helpers import SlicingEffects

COUNT = EDGES_AT_ONCE + 1
OTHERS = 3


@pytest.fixture
def effects() -> SlicingEffects:
    return SlicingEffects()


@pytest.fixture
def host(effects: SlicingEffects) -> VirtualHost:
    return VirtualHost("/", effects)


def reached(host: VirtualHost, exchange: str, key: str) -> list[str]:
    return [queue.name for queue in host.route(exchange, key).queues]


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "address"])
def test_a_source_with_very_many_bindings_is_gone_at_once(
    host: VirtualHost, effects: SlicingEffects, kind: str
) -> None:
    host.declare_exchange("source", kind)
    queue = host.declare_queue("q", now=1)
    for number in range(COUNT):
        host.bind_queue(queue, "source", f"k.{number}")
    host.bind_exchange("amq.fanout", "source", "k.0")
    host.delete_exchange("source")
    assert list(host.bindings()) == host.bindings_of_queue(queue) == []
    with pytest.raises(NotFound):
        host.route("source", "k.0")
    host.declare_exchange("source", kind)
    again = host.bind_queue(queue, "source", "k.0")
    assert effects.turns() >= COUNT // SLICE_EDGES
    assert host.bindings_of_queue(queue) == list(host.bindings()) == [again], "it is of the new source"
    assert reached(host, "source", "k.0") == ["q"]
    host.delete_queue(queue, 2)


def test_a_destination_queue_with_very_many_bindings_is_reached_no_more(
    host: VirtualHost, effects: SlicingEffects
) -> None:
    for name in ("direct", "topic", "fanout", "headers"):
        host.declare_exchange(name, name)
    address = host.nodes.declare_address("address", ("anycast",))
    queues = [host.declare_queue(name, now=1) for name in ("gone", "stays")]
    for queue in queues:
        for number in range(COUNT):
            host.bind_queue(queue, "topic", f"k.{number}")
        for name in ("direct", "fanout", "headers", "address"):
            host.bind_queue(queue, name, "k.1")
    host.delete_queue(queues[0], 2)
    for name in ("direct", "topic", "fanout"):
        assert reached(host, name, "k.1") == ["stays"]
    assert address.queues() == [queues[1]]
    assert all(binding.queue is queues[1] for binding in host.bindings())
    new = host.declare_queue("gone", now=3)
    again = host.bind_queue(new, "topic", "k.1")
    assert again.queue is new
    effects.turns()
    assert sorted(reached(host, "topic", "k.1")) == ["gone", "stays"]
    assert reached(host, "topic", "k.2") == ["stays"]
    assert host.bindings_of_queue(new) == [again]


def test_a_destination_exchange_is_followed_no_more(host: VirtualHost, effects: SlicingEffects) -> None:
    queue = host.declare_queue("q", now=1)
    host.declare_exchange("source", "direct", auto_delete=True)
    for name in ("first", "second"):
        host.declare_exchange(name, "fanout")
        host.bind_queue(queue, name, "")
    for number in range(COUNT):
        host.bind_exchange("first", "source", f"k.{number}")
    assert reached(host, "source", "k.7") == ["q"]
    host.delete_exchange("first")
    assert reached(host, "source", "k.7") == []
    host.declare_exchange("first", "fanout")
    again = host.bind_exchange("first", "source", "k.7")
    effects.turns()
    assert [binding for binding in host.bindings() if binding.source.name == "source"] == [again]
    host.unbind_exchange("first", "source", "k.7")
    assert "source" not in host.exchanges, "it went with its last binding"


def test_an_automatic_source_goes_with_the_last_slice(host: VirtualHost, effects: SlicingEffects) -> None:
    queue = host.declare_queue("q", now=1)
    host.declare_exchange("source", "direct", auto_delete=True)
    for number in range(COUNT):
        host.bind_queue(queue, "source", f"k.{number}")
    host.delete_queue(queue, 2)
    host.delete_exchange("source", if_unused=True)
    assert "source" not in host.exchanges, "nothing uses it"
    effects.turns()


def test_few_bindings_go_in_the_call(host: VirtualHost, effects: SlicingEffects) -> None:
    queue = host.declare_queue("q", now=1)
    host.declare_exchange("source", "direct", auto_delete=True)
    for number in range(OTHERS):
        host.bind_queue(queue, "source", f"k.{number}")
    host.delete_queue(queue, 2)
    assert "source" not in host.exchanges
    assert not effects.works
    assert DroppedEdges(host, deque()).step(0) is False


def test_a_chain_of_very_many_exchanges_goes_with_its_last_queue(host: VirtualHost, effects: SlicingEffects) -> None:
    """Each goes with its last binding: 1,500 of them raised RecursionError, and the first 1,100 stayed for good."""
    count = EDGES_AT_ONCE + sys.getrecursionlimit()
    for number in range(count):
        host.declare_exchange(f"chain{number}", "fanout", auto_delete=True)
    for number in range(1, count):
        host.bind_exchange(f"chain{number}", f"chain{number - 1}", "")
    queue = host.declare_queue("q", now=1)
    host.bind_queue(queue, f"chain{count - 1}", "")
    host.declare_exchange("source", "fanout")
    host.bind_exchange("chain0", "source", "")
    host.delete_queue(queue, 2)
    assert sum(name.startswith("chain") for name in host.exchanges) == count - EDGES_AT_ONCE
    assert effects.turns() >= (count - EDGES_AT_ONCE) // SLICE_EDGES
    assert not any(name.startswith("chain") for name in host.exchanges)
    assert list(host.bindings()) == []
    assert "source" in host.exchanges
