"""Queue arguments: every spelling, every refusal, and the way back from settings to arguments."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments.combinations import refusal_for
from annulet.core.configuration.arguments.queues import describe, parse_queue_arguments, read_declaration
from annulet.core.configuration.arguments.table import BY_FIELD, COUNTED, Kind

ARTEMIS = "_AMQ_LVQ_NAME"
KEYED = {"x-last-value-key": "k"}


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, QueueSettings()),
        ({"x-ring-size": 5, "x-ring-trim": "now"}, QueueSettings(ring_size=5, ring_trim_now=True)),
        ({"ring-size": "-1"}, QueueSettings()),
        ({"x-ring-size": 5, "ring-size": "5"}, QueueSettings(ring_size=5)),
        ({"x-priorities": 5, "x-priority-discipline": "ageing", "x-priority-age": 50},
         QueueSettings(priorities=5, priority_discipline="ageing", priority_age=50)),
        ({"x-max-priority": 2, "x-priority-discipline": "weighted", "x-priority-weights": [1, 2, 9]},
         QueueSettings(max_priority=2, priority_discipline="weighted", priority_weights=(1, 2, 9))),
        ({"x-max-length": 0}, QueueSettings(max_length=0, overflow="ring")),
        ({"x-max-length-bytes": "1 KiB", "x-overflow": "drop-head"}, QueueSettings(max_bytes=1024, overflow="ring")),
        ({"x-max-length": 3, "x-overflow": "reject-publish"}, QueueSettings(max_length=3, overflow="reject")),
        ({"x-max-length": 3, "x-overflow": "reject-publish-dlx"}, QueueSettings(max_length=3, overflow="reject")),
        ({"x-max-length": 3, "x-overflow": "none"}, QueueSettings(max_length=3)),
        ({"x-max-length": 5, "x-overflow": "block", "x-resume-length": 5},
         QueueSettings(max_length=5, overflow="block", resume_length=5)),
        ({"x-overflow": "drop-head"}, QueueSettings(overflow="ring")),
        ({"x-group-key": "g"}, QueueSettings(group_key="g", group_mode="sticky")),
        ({"group-buckets": 8, "group-rebalance": True, "group-rebalance-pause-dispatch": True},
         QueueSettings(group_buckets=8, group_mode="sticky", group_rebalance=True, group_rebalance_pause=True)),
        ({"group-rebalance": False, "group-buckets": 0}, QueueSettings(group_buckets=0)),
        ({"x-group-mode": "shared", "x-default-group": "d"}, QueueSettings(group_mode="shared", default_group="d")),
        ({"filter": "a = 1"}, QueueSettings(selector="a = 1")),
        ({"x-filter-jms-selector": "a = 1"}, QueueSettings(selector="a = 1")),
        ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "", "x-dead-letter-strategy": "at-least-once"},
         QueueSettings(dead_letter_exchange="", dead_letter_routing_key="")),
        ({"x-delivery-limit": 3}, QueueSettings(max_delivery_attempts=4)),
        ({"delivery-limit": -1}, QueueSettings()),
        ({"x-message-ttl": 0, "x-expires": 1}, QueueSettings(message_ttl=0, expires=1)),
        ({"message-ttl": -1, "expires": -1}, QueueSettings()),
        ({"expiry-delay": 7, "min-expiry-delay": 9, "max-expiry-delay": 3},
         QueueSettings(message_ttl=7, min_ttl=9, max_ttl=3)),
        ({"redelivery-delay": 5, "redelivery-delay-multiplier": 2, "redelivery-collision-avoidance-factor": "0.5"},
         QueueSettings(redelivery_delay=5, redelivery_multiplier=2.0, redelivery_jitter=0.5)),
        ({"x-single-active-consumer": True, "x-exclusive-consumer": 1, "x-live-consumers-max": 1},
         QueueSettings(single_active_consumer=True, exclusive_consumer=True, live_consumers_max=1)),
        ({"no-local": True, "purge-on-no-consumers": True, "max-consumers": 0},
         QueueSettings(no_local=True, purge_on_no_consumers=True, max_consumers=0)),
        ({"x-queue-type": "quorum", "x-queue-mode": "lazy", "queue-version": 2}, QueueSettings()),
        ({"x-ha-policy": "all", "x-quorum-target-group-size": 3}, QueueSettings()),
        ({"x-last-value-key": "k", "x-keep-per-key": 3, "x-tombstone-ttl": 0, "x-last-value-place": "keep-place"},
         QueueSettings(last_value_key="k", keep_per_key=3, tombstone_ttl=0, last_value_place="keep-place")),
        ({"x-fair-key": "c", "x-fair-quantum": "4KiB", "x-in-flight-per-key": 1, "x-in-flight-max": 9},
         QueueSettings(fair_key="c", fair_quantum=4096, in_flight_per_key=1, in_flight_max=9)),
    ],
    ids=str,
)  # fmt: skip
def test_accepted(arguments, settings):
    assert parse_queue_arguments(arguments) == settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-ring-size": 0}, "at least 1"), ({"x-ring-size": -2}, "at least 1"), ({"x-ring-size": True}, "integer"),
        ({"x-ring-size": "five"}, "integer"), ({"x-message-ttl": -1}, "0 to"), ({"x-expires": 0}, "1 to"),
        ({"x-message-ttl": 315_360_000_001}, "315360000000"), ({"x-ring-trim": "soon"}, "'lazy' or 'now'"),
        ({"x-priorities": 257}, "0 to 256 levels"), ({"x-max-priority": 256}, "0 to 255 levels, not"),
        ({"x-max-priority": -1}, "0 to 255 levels, not -1"),
        ({"max-priority": 256}, "0 to 255 levels, or -1"),
        ({"x-overflow": "explode"}, "'none' or 'ring' or 'reject'"), ({"x-evict": "me"}, "'soonest-to-expire'"),
        ({"x-redelivery-jitter": 1.5}, "0 to 1"), ({"x-dead-letter-exchange": 5}, "name of a node"),
        ({"x-max-delivery-attempts": 0}, "at least 1"), ({"x-delivery-limit": -2}, "at least 0|0 to"),
        ({"x-dead-letter-strategy": "never"}, "'at-most-once' or 'at-least-once'"),
        ({"x-queue-type": "stream"}, "stream"), ({"x-queue-version": True}, "1 or 2"),
        ({"x-last-value-key": ""}, "name of a message property"),
        ({"x-ring-size": 5, "ring-size": 6}, "'x-ring-size' and 'ring-size' are the same setting"),
        ({"x-max-bytes": 5, "x-max-length-bytes": 6}, r"same setting with different values \(5 and 6\)"),
        ({"x-ringsize": 5}, "unknown queue argument 'x-ringsize'; did you mean 'x-ring-size'"),
        ({"maxlength": 5}, "did you mean 'x-max-length'"),
        ({"zzzzzzzzzzzz": 5}, "unknown queue argument 'zzzzzzzzzzzz'; declare the queue without it"),
        ({"exclusive": True}, "x-exclusive-consumer"), ({"x-durable": True}, "declare the queue with the flag durable"),
        ({"x-priority": 3}, "'x-priorities' or 'x-max-priority'"), ({"x-delay": 3}, "header of messages"),
        ({"max-size-bytes": 3}, "address setting"),
        ({"x-selector": "a = "}, "argument 'x-selector' is no selector"), ({"filter": 5}, "'filter' must be a text"),
    ],
    ids=str,
)  # fmt: skip
def test_refused(arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        parse_queue_arguments(arguments)


def test_a_contradiction_names_arguments_values_and_the_way_out():
    with pytest.raises(
        InvalidArgument, match=r"^'x-sort-key' \('k'\) with 'x-priorities' \(3\): .*leave out 'x-sort-key'"
    ):
        parse_queue_arguments({"x-sort-key": "k", "x-priorities": 3})


def test_a_declaration_is_compared_whether_or_not_it_is_complete():
    assert read_declaration({"x-overflow": "reject-publish"}) == QueueSettings(overflow="reject")
    assert read_declaration({"x-max-length": 3}) == parse_queue_arguments({"max-length": 3, "x-overflow": "drop-head"})
    with pytest.raises(InvalidArgument, match="did you mean"):
        read_declaration({"x-overflw": "reject"})


EDGES = {
    "priorities": [0, 1, 3, 256],
    "max_priority": [-1, 0, 2, 255],
    "priority_weights": [(), (1,), (3, 1, 2)],
    "hot_properties": [(), ("JMSCorrelationID",), ("a, b", "ü" * 127)],
    "redelivery_multiplier": [1.0, 2.5],
    "redelivery_jitter": [0.0, 0.25, 1.0],
    "dead_letter_exchange": [None, "", "dead"],
    "dead_letter_routing_key": [None, "", "key"],
    "last_value_key": ["", "k", ARTEMIS],
    "last_value_fallback": ["", ARTEMIS],
    "ring_trim_now": [False, True],
    "group_mode": ["", "sticky", "shared"],
}


def possible(field: dataclasses.Field) -> list:
    if field.name in EDGES:
        return EDGES[field.name]
    setting = BY_FIELD[field.name]
    if setting.kind is Kind.SWITCH:
        return [False, True]
    if setting.kind is Kind.CHOICE:
        return list(setting.choices)
    if setting.kind in COUNTED:
        return [field.default, setting.least, setting.least + 1, setting.most]
    if setting.kind is Kind.SELECTOR:
        return ["", "a = 1"]
    return ["", "a", "ü" * 127]


def compositions() -> st.SearchStrategy[QueueSettings]:
    """Draw a few settings that are not the default: with all of them drawn hardly anything would be legal."""
    fields = dataclasses.fields(QueueSettings)
    one = st.sampled_from(fields).flatmap(
        lambda field: st.tuples(st.just(field.name), st.sampled_from(possible(field)))
    )
    return st.lists(one, max_size=8).map(lambda chosen: dataclasses.replace(QueueSettings(), **dict(chosen)))


@given(compositions())
def test_description_declares_the_same_queue(settings):
    assume(refusal_for(settings) is None)
    assert parse_queue_arguments(describe(settings)) == settings


@pytest.mark.parametrize("field", dataclasses.fields(QueueSettings), ids=lambda field: field.name)
def test_each_setting_survives_description_with_what_it_needs(field):
    needed = {
        "priority_discipline": {"priorities": 3},
        "priority_weights": {"priorities": 3, "priority_discipline": "weighted"},
        "priority_age": {"max_priority": 2, "priority_discipline": "ageing"}, "keep_per_key": KEYED, "evict": KEYED,
        "last_value_place": KEYED, "last_value_fallback": KEYED, "tombstone_ttl": KEYED, "overflow": {"max_length": 9},
        "limit_counts": {"max_length": 9}, "resume_length": {"max_length": 2**63 - 1, "overflow": "block"},
        "resume_bytes": {"max_bytes": 2**63 - 1, "overflow": "block"}, "in_flight_per_key": {"fair_key": "f"},
        "fair_quantum": {"fair_key": "f"}, "delay_before_dispatch": {"consumers_before_dispatch": 2},
        "dead_letter_routing_key": {"dead_letter_exchange": "e"}, "default_group": {"group_mode": "shared"},
        "group_rebalance_pause": {"group_rebalance": True, "group_mode": "sticky"},
        **{name: {"redelivery_delay": 9} for name in
           ("redelivery_multiplier", "max_redelivery_delay", "redelivery_jitter")},
        **{name: {"group_mode": "sticky"} for name in
           ("group_key", "group_buckets", "group_first_key", "group_rebalance")},
    }.get(field.name, {})  # fmt: skip
    base = {name.removeprefix("x-").replace("-", "_"): value for name, value in needed.items()}
    tried = 0
    for value in possible(field):
        settings = QueueSettings(**{**base, field.name: value})
        refusal = refusal_for(settings)
        if refusal is None:
            tried += value != field.default
            assert parse_queue_arguments(describe(settings)) == settings
    assert tried


def test_the_description_leaves_defaults_and_implied_values_out():
    assert describe(QueueSettings()) == {}
    assert describe(QueueSettings(max_length=3, overflow="ring")) == {"x-max-length": 3}
    assert describe(QueueSettings(max_length=3)) == {"x-max-length": 3, "x-overflow": "none"}
    assert describe(QueueSettings(priorities=1, priority_discipline="weighted", priority_weights=(4,))) == {
        "x-priorities": 1, "x-priority-discipline": "weighted", "x-priority-weights": [4],
    }  # fmt: skip
    assert describe(QueueSettings(last_value_key="k", last_value_fallback=ARTEMIS)) == {"last-value-key": "k"}
