"""Bindings: which two are the same, which survive a restart."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.routing.bindings import Binding, arguments_text
from annulet.core.routing.exchanges import DirectExchange, FanoutExchange
from tests.core.helpers import make_queue


def to_queue(*, key="k", arguments=None, source_durable=True, queue_durable=True, owner=None):
    queue = make_queue(durable=queue_durable)
    queue.owner = owner
    return Binding(DirectExchange("e", durable=source_durable), queue, None, key, arguments or {})


def to_exchange(*, source_durable=True, destination_durable=True):
    destination = FanoutExchange("q", durable=destination_durable)
    return Binding(DirectExchange("e", durable=source_durable), None, destination, "k", {})


def test_order_of_arguments_makes_no_difference_and_their_types_do():
    assert arguments_text({"a": 1, "b": 2}) == arguments_text({"b": 2, "a": 1})
    assert len({arguments_text({"a": value}) for value in (1, "1", True, 1.0, None)}) == 5
    assert arguments_text({}) == ""


def test_the_same_destination_key_and_arguments_make_the_same_binding():
    assert to_queue(arguments={"a": 1, "b": 2}).key == to_queue(arguments={"b": 2, "a": 1}).key
    assert to_queue().key != to_queue(key="other").key
    assert to_queue().key != to_queue(arguments={"a": 1}).key


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations():
    assert to_queue().key != to_exchange().key
    assert (to_queue().destination_kind, to_exchange().destination_kind) == ("queue", "exchange")
    assert to_queue().destination_name == to_exchange().destination_name == "q"


@pytest.mark.parametrize("source", [True, False])
@pytest.mark.parametrize("destination", [True, False])
def test_durable_takes_two_durable_ends(source, destination):
    assert to_queue(source_durable=source, queue_durable=destination).durable is (source and destination)
    assert to_exchange(source_durable=source, destination_durable=destination).durable is (source and destination)


def test_a_binding_to_an_exclusive_queue_goes_with_its_connection():
    assert not to_queue(owner=object()).durable


def test_it_says_what_it_connects():
    assert repr(to_queue(key="a.b")) == "<Binding 'e' -> queue 'q' 'a.b'>"
    assert repr(to_exchange()) == "<Binding 'e' -> exchange 'q' 'k'>"


def test_arguments_that_say_something_are_read_once():
    binding = to_queue(arguments={"x-filter-jms-selector": "a = 1", "x-replacement-routing-key": "other"})
    assert binding.selector is not None
    assert (binding.replacement_key, binding.no_local) == ("other", False)
    plain = to_queue(arguments={"x-qpid-no-local": True})
    assert (plain.selector, plain.replacement_key, plain.no_local) == (None, None, True)


@pytest.mark.parametrize(
    "arguments", [{"x-filter-jms-selector": "a ="}, {"x-filter-jms-selector": 1}, {"x-replacement-routing-key": 1}]
)
def test_arguments_that_cannot_be_read_are_refused_by_name(arguments):
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        to_queue(arguments=arguments)
