"""Reading: what was given stays apart from what follows from it."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments.peers import LAST_VALUE_SWITCHES
from annulet.core.configuration.arguments.reading import KNOWN, build, implied, read_arguments


def test_only_what_was_given_is_there_with_the_argument_it_came_from():
    reading = read_arguments({"x-max-length": 5, "delivery-limit": 1})
    assert reading.values == {"max_length": 5, "max_delivery_attempts": 2}
    assert reading.given_as == {"max_length": "x-max-length", "max_delivery_attempts": "delivery-limit"}


def test_what_an_alias_brings_along_gives_way_to_what_is_named():
    assert read_arguments({"qpid.policy_type": "ring"}).values == {"overflow": "ring", "limit_counts": "all"}
    reading = read_arguments({"qpid.policy_type": "ring", "limit-counts": "ready"})
    assert reading.values == {"overflow": "ring", "limit_counts": "ready"}


def test_a_key_settles_its_fallback_so_that_none_is_inherited():
    assert read_arguments({"x-last-value-key": "k"}).values == {"last_value_key": "k", "last_value_fallback": ""}


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ({}, {}),
        ({"max_length": -1}, {}),
        ({"max_bytes": 0}, {"overflow": "ring"}),
        ({"max_bytes": 0, "overflow": "none"}, {}),
        ({"group_key": ""}, {"group_mode": "sticky"}),
        ({"group_buckets": 0}, {}),
        ({"group_buckets": 2}, {"group_mode": "sticky"}),
        ({"group_rebalance": False}, {}),
        ({"group_first_key": "f", "group_mode": ""}, {}),
    ],
    ids=str,
)
def test_what_follows(values, more):
    assert implied(values) == more


def test_build_fills_in_defaults():
    assert build({"ring_size": 3}) == QueueSettings(ring_size=3)


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in LAST_VALUE_SWITCHES])
def test_every_known_name_is_read(name):
    refusal = ""
    try:
        read_arguments({name: ["neither", "this", "nor", "that"]}, "q")
    except InvalidArgument as error:  # not all: where a cluster places a queue is of no interest
        refusal = str(error)
    assert "unknown" not in refusal


def test_a_long_unknown_name_is_shortened():
    with pytest.raises(InvalidArgument) as caught:
        read_arguments({"z" * 5000: 1})
    assert len(str(caught.value)) < 200
