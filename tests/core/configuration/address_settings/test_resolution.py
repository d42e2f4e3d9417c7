"""What a queue becomes: precedence, what is set aside, and what follows a change."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.address_settings.fields import setting_name
from annulet.core.configuration.address_settings.policies import PolicyRepository
from annulet.core.configuration.address_settings.repository import AddressSettingsRepository
from annulet.core.configuration.address_settings.resolution import (
    ResolvedQueue,
    change_queue,
    refresh,
    resolve_queue,
    strength,
)
from annulet.core.configuration.arguments.combinations import refusal_for
from annulet.core.configuration.arguments.queues import describe, parse_queue_arguments
from annulet.core.configuration.arguments.table import CHANGEABLE
from tests.core.configuration.arguments.test_combinations import CASES


class World:
    """Address settings for ``#``, one policy for every queue, and a queue ``q`` on the address ``a``."""

    def __init__(self, address: dict | None = None, policy: dict | None = None) -> None:
        self.repository = AddressSettingsRepository()
        self.policies = PolicyRepository()
        self.say(address, policy)

    def say(self, address: dict | None = None, policy: dict | None = None) -> None:
        if address is not None:
            self.repository.set("#", address)
        if policy is not None:
            self.policies.set("p", ".*", policy)

    def declare(self, **arguments: object) -> ResolvedQueue:
        given = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        return resolve_queue("q", "a", given, self.repository, self.policies)

    def refresh(self, queue: ResolvedQueue) -> ResolvedQueue:
        return refresh(queue, self.repository, self.policies)


def test_r5_the_default_ring_size_of_one_address():
    repository = AddressSettingsRepository()
    repository.set("ring.address", {"default-ring-size": 100})
    ring = resolve_queue("ring", "ring.address", {}, repository)
    assert ring.settings == QueueSettings(ring_size=100)
    assert ring.origins["ring_size"] == "address setting 'ring.address'"
    other = resolve_queue("other", "other", {}, repository)
    assert other.settings == QueueSettings()
    assert set(other.origins.values()) == {"default"}


def test_argument_wins_over_policy_over_address_setting_over_default():
    world = World(
        {"default-max-consumers": 1, "default-ring-size": 1, "default-max-length": 1}, {"ring-size": 2, "max-length": 2}
    )
    queue = world.declare(max_length=3)
    assert (queue.settings.max_consumers, queue.settings.ring_size, queue.settings.max_length) == (1, 2, 3)
    assert queue.origins["max_consumers"] == "address setting '#'"
    assert queue.origins["ring_size"] == "policy 'p'"
    assert queue.origins["max_length"] == "argument 'x-max-length'"
    assert queue.origins["priorities"] == "default"
    assert queue.set_aside == {}
    assert set(queue.origins) == {field.name for field in dataclasses.fields(QueueSettings)}


def test_a_declaration_can_switch_off_what_it_would_inherit():
    world = World({"default-ring-size": 5, "default-last-value-queue": True, "expiry-address": "E"})
    queue = resolve_queue("q", "a", {"x-ring-size": -1, "last-value": False, "x-expiry-address": ""}, world.repository)
    assert queue.settings == QueueSettings()
    assert queue.origins["last_value_key"] == "argument 'last-value'"


def test_a_declared_key_brings_no_fallback_of_an_inherited_one():
    queue = World({"default-last-value-key": "inherited"}).declare(last_value_key="k")
    assert queue.settings == QueueSettings(last_value_key="k")


def test_what_follows_has_the_origin_of_what_it_follows_from():
    queue = World(policy={"max-length": 5}).declare(max_bytes=9, group_key="")
    assert (queue.settings.overflow, queue.settings.group_mode) == ("ring", "sticky")
    assert queue.origins["overflow"] == "implied by argument 'x-max-bytes'"
    assert queue.origins["group_mode"] == "implied by argument 'x-group-key'"
    assert World({"default-max-length": 5}).declare().origins["overflow"] == "implied by address setting '#'"
    assert World(policy={"overflow": "reject"}).declare(max_length=5).settings.overflow == "reject"


def test_grouping_does_not_follow_from_address_settings():
    world = World({"default-group-buckets": 8, "default-group-rebalance": True})
    plain = world.declare()
    assert plain.settings == QueueSettings()
    assert "address setting '#' is set aside" in plain.set_aside["group_buckets"]
    grouped = world.declare(group_mode="sticky")
    assert grouped.settings == QueueSettings(group_mode="sticky", group_buckets=8, group_rebalance=True)


@pytest.mark.parametrize(
    ("address", "policy", "arguments", "settings", "set_aside"),
    [
        ({"default-priorities": 5}, None, {"sort_key": "s"}, QueueSettings(sort_key="s"), {"priorities"}),
        (None, {"sort-key": "s"}, {"max_priority": 5}, QueueSettings(max_priority=5), {"sort_key"}),
        ({"default-sort-key": "s"}, {"priorities": 5}, {}, QueueSettings(priorities=5), {"sort_key"}),
        ({"max-delivery-attempts": 10, "redelivery-delay": 5}, None, {"non_destructive": True},
         QueueSettings(non_destructive=True), {"max_delivery_attempts", "redelivery_delay"}),
        ({"dead-letter-address": "DLA"}, None, {"dead_letter_exchange": "", "dead_letter_routing_key": "k"},
         QueueSettings(dead_letter_exchange="", dead_letter_routing_key="k"), {"dead_letter_address"}),
        (None, {"dead-letter-exchange": "x", "dead-letter-routing-key": "k"}, {"dead_letter_address": "d"},
         QueueSettings(dead_letter_address="d"), {"dead_letter_exchange", "dead_letter_routing_key"}),
        (None, {"overflow": "block"}, {}, QueueSettings(), {"overflow"}),
        (None, {"overflow": "reject"}, {}, QueueSettings(overflow="reject"), set()),
        ({"redelivery-multiplier": 2}, None, {}, QueueSettings(), {"redelivery_multiplier"}),
        ({"redelivery-multiplier": 2}, None, {"redelivery_delay": 5},
         QueueSettings(redelivery_delay=5, redelivery_multiplier=2.0), set()),
        (None, {"group-key": "g"}, {"non_destructive": True}, QueueSettings(non_destructive=True),
         {"group_mode", "group_key"}),
    ],
)  # fmt: skip
def test_what_contradicts_something_stronger_is_set_aside(address, policy, arguments, settings, set_aside):
    queue = World(address, policy).declare(**arguments)
    assert queue.settings == settings
    assert set(queue.set_aside) == set_aside
    assert all(queue.origins[name] == "default" for name in set_aside)


@pytest.mark.parametrize("arguments", [{"sort_key": "s", "priorities": 3}, {"keep_per_key": 3}, {"overflow": "block"}])
def test_a_declaration_that_contradicts_itself_is_refused(arguments):
    with pytest.raises(InvalidArgument):
        World({"default-ring-size": 5}).declare(**arguments)


def test_a_policy_may_complete_a_declaration():
    assert World(policy={"max-length": 5}).declare(overflow="reject").settings.overflow == "reject"


@pytest.mark.parametrize("identifier", CASES)
def test_no_rule_for_many_queues_keeps_one_from_being_declared(identifier):
    arguments, _ = CASES[identifier]
    for name in arguments:
        others = {other: value for other, value in arguments.items() if other != name}
        repository = AddressSettingsRepository()
        field = name.removeprefix("x-").replace("-", "_")
        repository.set("#", {setting_name(field): arguments[name]})
        try:
            parse_queue_arguments(others)
        except InvalidArgument:
            continue  # not legal alone either
        queue = resolve_queue("q", "a", others, repository)
        assert refusal_for(queue.settings) is None


def test_live_settings_follow_and_copied_ones_stay():
    world = World({"default-ring-size": 5, "dead-letter-address": "D", "max-delivery-attempts": 3})
    queue = world.declare()
    world.say({"default-ring-size": 9, "dead-letter-address": "E", "redelivery-delay": 7})
    fresh = world.refresh(queue)
    assert fresh.settings == QueueSettings(ring_size=5, dead_letter_address="E", redelivery_delay=7)
    assert fresh.origins["ring_size"] == "address setting '#'"
    assert fresh.origins["max_delivery_attempts"] == "default"
    assert world.declare().settings.ring_size == 9


def test_what_was_declared_stays():
    world = World({"dead-letter-address": "D"})
    queue = world.declare(dead_letter_address="own", ring_size=3)
    world.say({"dead-letter-address": "E", "default-ring-size": 9}, {"ring-size": 8})
    assert world.refresh(queue).settings == QueueSettings(dead_letter_address="own", ring_size=3)


def test_policies_are_live_where_a_queue_can_change():
    world = World({"default-max-length": 4})
    queue = world.declare()
    assert queue.settings.max_length == 4
    world.say(policy={"max-length": 7, "overflow": "reject", "priorities": 5})
    policed = world.refresh(queue)
    assert policed.settings == QueueSettings(max_length=7, overflow="reject")
    assert policed.origins["max_length"] == "policy 'p'"
    world.policies.remove("p")
    assert world.refresh(policed).settings == QueueSettings(max_length=4, overflow="ring")
    assert world.refresh(policed).origins["overflow"] == "implied by address setting '#'"


def test_a_queue_that_loses_its_limit_keeps_living():
    world = World(policy={"max-length": 5})
    queue = world.declare(overflow="block")
    world.policies.remove("p")
    fresh = world.refresh(queue)
    assert fresh.settings == QueueSettings()
    assert "set aside" in fresh.set_aside["overflow"]
    world.say(policy={"max-length": 6})
    assert world.refresh(fresh).settings == QueueSettings(max_length=6, overflow="block")


def test_a_refresh_without_a_change_changes_nothing():
    world = World(
        {"default-ring-size": 5, "dead-letter-address": "D", "default-priorities": 3},
        {"max-bytes": 5, "group-key": "g"},
    )
    queue = world.declare(sort_key="s", dead_letter_exchange="x")
    again = world.refresh(queue)
    assert (again.settings, again.origins) == (queue.settings, queue.origins)


def test_what_a_weaker_origin_switched_off_does_not_stand_in_the_way():
    queue = World({"default-group-mode": "off"}).declare(group_key="g")
    assert queue.settings == QueueSettings(group_key="g", group_mode="sticky")
    assert queue.origins["group_mode"] == "implied by argument 'x-group-key'"


def test_no_change_makes_a_living_queue_another_one():
    world = World({"default-non-destructive": True})
    queue = world.declare()
    with pytest.raises(InvalidArgument, match="no message returns"):
        change_queue(queue, {"x-max-delivery-attempts": 3})
    with pytest.raises(InvalidArgument, match="grouping is off"):
        change_queue(World().declare(), {"x-group-rebalance": True})
    world.say(policy={"max-delivery-attempts": 3, "group-rebalance": True})
    fresh = world.refresh(queue)
    assert fresh.settings == QueueSettings(non_destructive=True)
    assert set(fresh.set_aside) == {"max_delivery_attempts", "group_rebalance"}


def test_an_operator_changes_what_can_be_changed():
    world = World({"default-ring-size": 5})
    queue = change_queue(world.declare(max_length=4), {"x-ring-size": 3, "max-length": 9})
    assert queue.settings == QueueSettings(ring_size=3, max_length=9, overflow="ring")
    assert (queue.origins["ring_size"], queue.origins["max_length"]) == ("operator", "operator")
    world.say({"default-ring-size": 8}, {"ring-size": 7, "max-length": 7})
    assert world.refresh(queue).settings == queue.settings
    assert change_queue(queue, {"x-ring-size": 3}) == queue
    limited = change_queue(world.declare(), {"x-max-bytes": 10})
    assert limited.origins["max_bytes"] == "operator"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x-sort-key": "s"}, "'x-sort-key' of queue 'q' cannot be changed from '' to 's' while it lives"),
        ({"x-resume-length": 50}, "x-overflow"),
        ({"x-ring-size": 0}, "at least 1"),
        ({"x-dead-letter-address": "d"}, "a message dies once"),
    ],
)
def test_an_operator_is_refused_the_rest(changes, words):
    queue = World().declare(max_length=4, dead_letter_exchange="")
    with pytest.raises(InvalidArgument, match=words):
        change_queue(queue, changes)


@pytest.mark.parametrize(
    ("origin", "number"),
    [("default", 0), ("address setting '#'", 1), ("policy 'p'", 2), ("implied by argument 'x'", 3), ("operator", 4)],
)
def test_strength(origin, number):
    assert strength(origin) == number


SAID = [
    {"ring-size": 3}, {"max-length": 5}, {"max-length": 2, "overflow": "block", "resume-length": 1}, {"sort-key": "s"},
    {"priorities": 3, "priority-discipline": "ageing"}, {"max-priority": 2}, {"last-value-key": "k", "keep-per-key": 2},
    {"group-key": "g"}, {"fair-key": "f", "in-flight-per-key": 1}, {"non-destructive": True},
    {"dead-letter-address": "d"}, {"group-mode": "off"}, {"group-rebalance": True},
    {"max-bytes": 3, "overflow": "none"},
    {"dead-letter-exchange": "", "dead-letter-routing-key": "k"}, {"redelivery-delay": 5, "redelivery-multiplier": 2},
    {"redelivery-jitter": 0.5}, {"max-delivery-attempts": 3}, {"overflow": "reject"}, {"evict": "least-recent-key"}, {},
]  # fmt: skip
CHOICES = st.sampled_from(SAID)


def as_address_settings(said: dict) -> dict:
    return {setting_name(name.replace("-", "_")): value for name, value in said.items()}


@given(CHOICES, CHOICES, CHOICES, CHOICES, CHOICES)
def test_whatever_is_said_a_queue_is_legal_and_stays_what_it_is(address, policy, declared, later, later_policy):
    try:
        parse_queue_arguments(declared)
    except InvalidArgument:
        declared = {}
    world = World(as_address_settings(address), policy)
    queue = resolve_queue("q", "a", declared, world.repository, world.policies)
    assert refusal_for(queue.settings) is None
    assert parse_queue_arguments(describe(queue.settings)) == queue.settings
    for name in parse_fields(declared):
        assert getattr(queue.settings, name) == getattr(parse_queue_arguments(declared), name)
    world.say(as_address_settings(later), later_policy)
    fresh = world.refresh(queue)
    assert refusal_for(fresh.settings) is None
    fixed = {field.name for field in dataclasses.fields(QueueSettings)} - CHANGEABLE
    assert all(getattr(fresh.settings, name) == getattr(queue.settings, name) for name in fixed)


def parse_fields(declared: dict) -> list[str]:
    return [name.replace("-", "_") for name in declared]
