from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.amqp10.filters import (
    DIRECT_BINDING,
    HEADERS_BINDING,
    NO_LOCAL,
    SELECTOR,
    TOPIC_BINDING,
    read_filters,
)
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.typed_values import Described, Symbol, UnsignedLong
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import LinkFault


@pytest.mark.parametrize(
    "descriptor", [UnsignedLong(0x0000468C00000004), Symbol(SELECTOR), Symbol("jms-selector")], ids=repr
)
def test_a_selector_by_code_and_by_symbol(descriptor: Any) -> None:
    given = {"any name": Described([descriptor, "colour = 'red'"])}
    filters = read_filters(given)
    assert filters.selector == "colour = 'red'"
    assert (filters.no_local, filters.binding_key, filters.binding_arguments) == (False, None, {})
    assert filters.echo == given


def test_a_filter_without_a_descriptor_goes_by_its_name() -> None:
    assert read_filters({SELECTOR: "a = 1"}).selector == "a = 1"


def test_no_local_and_bindings() -> None:
    filters = read_filters({"n": Described([Symbol(NO_LOCAL), []])})
    assert filters.no_local
    for kind in (DIRECT_BINDING, TOPIC_BINDING):
        assert read_filters({"b": Described([Symbol(kind), "orders.#"])}).binding_key == "orders.#"
    headers = read_filters({"b": Described([Symbol(HEADERS_BINDING), {"x-match": "any", "a": 1}])})
    assert (headers.binding_key, headers.binding_arguments) == ("", {"x-match": "any", "a": 1})


def test_a_null_filter_is_none() -> None:
    filters = read_filters({"jms-selector": None})
    assert (filters.selector, filters.echo) == ("", {})


@pytest.mark.parametrize("given", [{"x": Described([Symbol("com.example:own"), 1])}, {"com.example:own": 1}])
def test_a_filter_that_is_not_known_is_refused_and_not_ignored(given: dict[str, Any]) -> None:
    with pytest.raises(LinkFault, match=r"com\.example:own") as caught:
        read_filters(given)
    assert caught.value.condition == conditions.NOT_IMPLEMENTED


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"s": Described([Symbol(SELECTOR), 5])}, "filter 's' holds 5; give a string"),
        ({"h": Described([Symbol(HEADERS_BINDING), "x"])}, "filter 'h' holds 'x'; give a map"),
        ({SELECTOR: "a = 1", "jms-selector": "a = 2"}, "filter 'jms-selector' is a second selector"),
    ],
)
def test_wrong_contents_are_refused_by_name(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        read_filters(given)


def test_the_same_selector_twice_is_one() -> None:
    assert read_filters({SELECTOR: "a = 1", "jms-selector": "a = 1"}).selector == "a = 1"
