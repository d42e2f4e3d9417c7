"""Policies: which one applies, and what they may say."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.linear_expressions import LOOKS_MAX, LinearExpression
from annulet.core.configuration.address_settings.policies import POLICIES_MAX, PolicyRepository


def test_the_highest_priority_wins_and_of_equals_the_first_name():
    policies = PolicyRepository()
    policies.set("b", "^orders", {"max-length": 1})
    policies.set("a", "^orders", {"max-length": 2})
    policies.set("z", r"\.eu$", {"max-length": 3}, 5)
    assert [policy.name for policy in policies.all()] == ["z", "a", "b"]
    found = {name: policies.match(name) for name in ("orders.eu", "orders", "my.orders", "x.eu")}
    assert {name: policy and policy.name for name, policy in found.items()} == {
        "orders.eu": "z", "orders": "a", "my.orders": None, "x.eu": "z",
    }  # fmt: skip


def test_a_definition_has_arguments_with_and_without_prefix():
    policy = PolicyRepository().set(
        "p",
        ".*",
        {"max-length-bytes": 10, "x-overflow": "reject-publish", "delivery-limit": 2, "ha-mode": "all"}
        | {"max-in-memory-length": 0},  # RabbitMQ's, and without effect here
    )
    assert policy.values == {"max_bytes": 10, "overflow": "reject", "max_delivery_attempts": 3}
    assert policy.definition["ha-mode"] == "all"


@pytest.mark.parametrize(
    ("pattern", "definition", "priority", "words"),
    [
        ("(", {}, 0, "policy 'p': 'pattern' '\\(' is no regular expression"),
        ("a{99999999999}", {}, 0, "is no regular expression that can be used: repetition .* must be of at most 255"),
        ("(" * 512 + ")" * 512, {}, 0, "is no regular expression that can be used: more than 30 groups within groups"),
        ("a(?=b)", {}, 0, "looking ahead .* is not supported"),
        ("x" * 1025, {}, 0, "at most 1024 characters"),
        (".*", {"max-lenght": 5}, 0, "policy 'p': unknown queue argument 'max-lenght'; did you mean 'x-max-length'"),
        (".*", {"sort-key": "s", "priorities": 3}, 0, "policy 'p': 'x-sort-key' .*one order"),
        (".*", {"selector": "a ="}, 0, "policy 'p': argument 'selector' is no selector"),
        (".*", {"max-length": 5, "resume-length": 6}, 0, "at most 'x-max-length'"),
        (".*", {"x-qpid-dlq-enabled": True}, 0, "give 'x-dead-letter-address'"),
        (".*", {}, "high", "'priority' must be an integer"),
        (".*", {}, True, "'priority' must be an integer"),
        (
            ".*",
            {},
            1 << 63,
            "policy 'p': 'priority' must be from -9223372036854775808 to 9223372036854775807, not an in",
        ),
        (".*", {}, -(1 << 63) - 1, "not an integer of 64 bits"),
        (".*", {}, 1 << 1000, "not an integer of 1001 bits"),
    ],
)
def test_refused(pattern, definition, priority, words):
    policies = PolicyRepository()
    with pytest.raises(InvalidArgument, match=words):
        policies.set("p", pattern, definition, priority)
    assert policies.all() == []


@pytest.mark.parametrize("priority", [(1 << 63) - 1, -(1 << 63)])
def test_a_priority_has_64_bits(priority):
    assert PolicyRepository().set("p", ".*", {}, priority).priority == priority


def test_a_policy_needs_a_name():
    with pytest.raises(InvalidArgument, match="name of a policy, not ''"):
        PolicyRepository().set("", ".*", {})


@pytest.mark.parametrize("definition", [{"overflow": "reject-publish"}, {"redelivery-multiplier": 2}], ids=str)
def test_what_a_queue_may_complete_is_legal(definition):
    assert PolicyRepository().set("p", ".*", definition).values


def test_changes_are_told_for_what_matched_before_as_well():
    policies = PolicyRepository()
    told: list[str] = []
    policies.listeners.append(lambda policy: told.append(policy.pattern.pattern))
    policies.set("p", "^a", {})
    policies.set("p", "^b", {})
    policies.remove("p")
    assert told == ["^a", "^a", "^b", "^b"]
    with pytest.raises(NotFound, match="no policy 'p'; there are none"):
        policies.remove("p")


def test_a_stored_policy_with_a_pattern_that_is_not_taken_any_more_stays_and_matches_nothing():
    policies = PolicyRepository()
    policies.set("old", "q(?=1)", {"max-length": 5}, 9, stored=True)
    policies.set("usable", "^q", {"max-length": 6}, stored=True)
    assert policies.match("q1").name == "usable"
    assert list(policies.unusable()) == ["old"]
    assert policies.all()[0].pattern.pattern == "q(?=1)", "an operator sees it as it was written"
    policies.set("old", "q1", {"max-length": 5}, 9)
    assert (policies.match("q1").name, policies.unusable()) == ("old", {})


def test_the_pattern_of_many_rabbitmq_installations():
    policies = PolicyRepository()
    policies.set("all-but-amq", "^(?!amq\\.).*", {})
    assert policies.match("orders") is not None
    assert policies.match("amq.gen-1") is None


def test_a_pattern_that_goes_back_again_and_again_takes_its_bound():
    """A8: with ``re`` this took seconds for each declaration of a queue with a long name."""
    policies = PolicyRepository()
    policies.set("evil", "^(\\w+\\.?)+$", {})
    assert policies.match("a" * 254 + "!") is None


SLOW = "(a|b|c|d){0,120}X"
"""For a name of such letters each character leads to hundreds of states."""


def looks_of(pattern: str, name: str) -> int:
    found, left = LinearExpression(pattern).search_within(name, LOOKS_MAX)
    assert not found
    return LOOKS_MAX - left


def test_all_patterns_share_the_looks_of_one_search():
    """A8: each policy searched a client's name with a bound of its own, 30 ms."""
    name = "abcd" * 8
    each = looks_of(SLOW, name)
    enough = LOOKS_MAX // each
    policies = PolicyRepository()
    for number in range(enough):
        policies.set(f"p{number:03}", SLOW, {})
    policies.set("q", "^abcd", {"max-length": 1}, -1)
    assert enough > 1
    found = policies.match_new(name)
    assert (found and found.name, policies.match_new("short")) == ("q", None)
    for number in range(enough, 3 * enough):
        policies.set(f"p{number:03}", SLOW, {})
    other = "dcba" * 8  # no step for it is remembered
    with pytest.raises(PreconditionFailed, match=r"queue 'dcba.* of policy 'p\d+'; choose a shorter name"):
        policies.match_new(other)
    found = policies.match(name)
    assert (found and found.name) == "q", "a queue that there is keeps its policy"


def test_the_policies_of_a_host_are_bounded_and_stored_ones_are_all_kept():
    policies = PolicyRepository()
    for number in range(POLICIES_MAX):
        policies.set(f"p{number}", "a", {})
    policies.set("p0", "b", {})
    with pytest.raises(InvalidArgument, match="policy 'more': there are 500 policies, and at most 500 are allowed"):
        policies.set("more", "a", {})
    policies.set("stored", "a", {}, stored=True)
    policies.remove("p1")
    assert policies.count == POLICIES_MAX
