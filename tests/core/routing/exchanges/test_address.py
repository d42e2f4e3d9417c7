"""Addresses: routing types of their queues, and the round of the anycast ones."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import parse_routing_types
from tests.core.routing.exchanges.helpers import bind, matched


def make(types="anycast,multicast"):
    return Address("news", arguments={"x-routing-types": types})


@pytest.mark.parametrize(
    ("given", "types"),
    [
        (None, ("multicast",)),
        ("anycast", ("anycast",)),
        ("MULTICAST, anycast", ("anycast", "multicast")),
        (["multicast", "multicast"], ("multicast",)),
    ],
)
def test_routing_types(given, types):
    assert parse_routing_types(given) == types


@pytest.mark.parametrize("given", ["", "unicast", [], 3, "anycast,"])
def test_other_routing_types_are_refused(given):
    with pytest.raises(InvalidArgument, match="anycast"):
        parse_routing_types(given)


def test_a_queue_has_the_type_it_was_bound_with():
    address = make()
    bind(address, "all")
    bind(address, "one", **{"x-routing-type": "ANYCAST"})
    assert matched(address) == ["all"]
    assert [queue.name for queue in address.anycast_queues] == ["one"]
    assert [queue.name for queue in address.queues()] == ["one", "all"]


def test_a_type_the_address_lacks_is_refused_and_leaves_nothing_behind():
    address = make("multicast")
    with pytest.raises(InvalidArgument, match="address 'news' is multicast only"):
        bind(address, "q", **{"x-routing-type": "anycast"})
    with pytest.raises(InvalidArgument, match="'x-routing-type' must be text"):
        bind(address, "q", **{"x-routing-type": 1})
    assert not address.bindings
    assert address.queues() == []


def test_the_round_goes_on_behind_a_queue_that_leaves():
    address = make("anycast")
    bindings = [bind(address, name) for name in "abc"]
    address.turn = 2
    address.remove(bindings[0])
    assert [queue.name for queue in address.anycast_queues] == ["b", "c"]
    assert address.turn == 1
    address.remove(bindings[2])
    assert address.turn == 1  # behind the last, which is the first again
    assert [queue.name for queue in address.queues()] == ["b"]


def test_a_queue_bound_twice_has_one_turn():
    address = make("anycast")
    first = bind(address, "q", "1")
    second = bind(address, "q", "2")
    second.queue = first.queue
    address.anycast = {}
    address.anycast_queues = []
    address.index(first)
    address.index(second)
    assert len(address.anycast_queues) == 1
    address.unindex(first)
    assert len(address.anycast_queues) == 1
    address.unindex(second)
    assert address.anycast_queues == []
