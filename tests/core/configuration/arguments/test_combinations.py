"""Contradictions: each one is refused when declared, with a text that fits, and its legal neighbours are not."""

from __future__ import annotations

import dataclasses

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments.combinations import DEFAULTS, REFUSED, levels, refusal_for
from annulet.core.configuration.arguments.queues import describe, parse_queue_arguments
from annulet.core.configuration.arguments.reading import build, implied, read_arguments

REPLY_TEXT_MAX = 255
"""Bytes of the text that refuses in AMQP 0-9-1 (§4.2.5.3, short strings)."""

CASES = {
    "sort-key-with-priorities": ({"x-sort-key": "s", "x-priorities": 3}, [{"x-sort-key": "s"}, {"x-priorities": 3}]),
    "sort-key-with-discipline": (
        {"x-sort-key": "s", "x-priority-discipline": "ageing"},
        [{"x-sort-key": "s", "x-priority-discipline": "strict"}],
    ),
    "two-priority-scales": ({"x-priorities": 3, "x-max-priority": 2}, [{"x-priorities": 0, "x-max-priority": 2}]),
    "discipline-without-levels": (
        {"x-priority-discipline": "weighted"},
        [{"x-priority-discipline": "weighted", "x-max-priority": 0}],
    ),
    "weights-without-weighted": (
        {"x-priorities": 2, "x-priority-weights": [1, 2]},
        [{"x-priorities": 2, "x-priority-weights": [1, 2], "x-priority-discipline": "weighted"}],
    ),
    "weights-not-one-a-level": (
        {"x-max-priority": 2, "x-priority-weights": [1, 2], "x-priority-discipline": "weighted"},
        [{"x-max-priority": 2, "x-priority-weights": [1, 2, 3], "x-priority-discipline": "weighted"}],
    ),
    "age-without-ageing": (
        {"x-priorities": 2, "x-priority-age": 5},
        [{"x-priorities": 2, "x-priority-age": 5, "x-priority-discipline": "ageing"}, {"x-priority-age": 1000}],
    ),
    "keep-per-key-without-key": ({"x-keep-per-key": 2}, [{"x-keep-per-key": 1}]),
    "place-without-key": (
        {"x-last-value-place": "keep-place"},
        [{"x-last-value-place": "keep-place", "x-last-value-key": "k", "x-sort-key": "s"}],
    ),
    "tombstone-without-key": ({"x-tombstone-ttl": 0}, [{"x-tombstone-ttl": 0, "x-last-value-key": "k"}]),
    "oldest-key-without-key": (
        {"x-evict": "least-recent-key", "x-ring-size": 3},
        [{"x-evict": "least-recent-key", "x-ring-size": 3, "x-last-value-key": "k"}, {"x-evict": "oldest"}],
    ),
    "overflow-without-limit": (
        {"x-overflow": "block"},
        [{"x-overflow": "block", "x-max-bytes": 0}, {"x-overflow": "ring"}, {"x-overflow": "reject-publish"}],
    ),
    "resume-without-block": (
        {"x-max-length": 5, "x-resume-length": 3},
        [{"x-max-length": 5, "x-resume-length": 3, "x-overflow": "block"}],
    ),
    "resume-length-above-limit": (
        {"x-max-length": 5, "x-resume-length": 6, "x-overflow": "block"},
        [{"x-max-length": 5, "x-resume-length": 5, "x-overflow": "block"}],
    ),
    "resume-bytes-above-limit": (
        {"x-max-length": 5, "x-resume-bytes": 0, "x-overflow": "block"},
        [{"x-max-bytes": 0, "x-resume-bytes": 0, "x-overflow": "block"}],
    ),
    "one-active-and-several-live": (
        {"x-single-active-consumer": True, "x-live-consumers-max": 2},
        [{"x-single-active-consumer": True, "x-live-consumers-max": 1}, {"x-live-consumers-max": 2}],
    ),
    "group-options-without-mode": (
        {"x-group-mode": "off", "x-group-key": "g"},
        [{"x-group-key": "g"}, {"x-group-buckets": 0}, {"x-group-mode": "off"}],
    ),
    "default-group-of-sticky": ({"x-default-group": "d"}, [{"x-default-group": "d", "x-group-mode": "shared"}]),
    "pause-without-rebalance": (
        {"x-group-mode": "sticky", "x-group-rebalance-pause": True},
        [{"x-group-rebalance": True, "x-group-rebalance-pause": True}],
    ),
    "groups-of-non-destructive": (
        {"x-group-mode": "shared", "x-non-destructive": True},
        [{"x-non-destructive": True, "x-exclusive-consumer": True, "x-ring-size": 3}],
    ),
    "groups-with-fair-key": ({"x-group-key": "g", "x-fair-key": "f"}, [{"x-fair-key": "f", "x-sort-key": "s"}]),
    "fair-key-of-non-destructive": ({"x-fair-key": "f", "x-non-destructive": True}, [{"x-non-destructive": True}]),
    "in-flight-of-non-destructive": (
        {"x-in-flight-max": 1, "x-non-destructive": True},
        [{"x-in-flight-max": -1, "x-non-destructive": True}, {"x-in-flight-max": 1}],
    ),
    "returns-of-non-destructive": (
        {"x-max-delivery-attempts": 1, "x-non-destructive": True},
        [{"x-non-destructive": True, "x-dead-letter-address": "d", "x-message-ttl": 5}],
    ),
    "flight-per-key-without-key": ({"x-in-flight-per-key": 1}, [{"x-in-flight-per-key": 1, "x-fair-key": "f"}]),
    "quantum-without-key": ({"x-fair-quantum": 1}, [{"x-fair-quantum": 1, "x-fair-key": "f"}, {"x-fair-quantum": 0}]),
    "gate-never-opens": (
        {"x-consumers-before-dispatch": 3, "x-max-consumers": 2},
        [
            {"x-consumers-before-dispatch": 2, "x-max-consumers": 2},
            {"x-consumers-before-dispatch": 3, "x-max-consumers": 2, "x-delay-before-dispatch": 9},
        ],
    ),
    "gate-without-count": (
        {"x-delay-before-dispatch": 9},
        [{"x-delay-before-dispatch": 9, "x-consumers-before-dispatch": 1}],
    ),
    "two-dead-letter-targets": (
        {"x-dead-letter-address": "d", "x-dead-letter-exchange": ""},
        [{"x-dead-letter-address": "", "x-dead-letter-exchange": ""}],
    ),
    "routing-key-without-exchange": (
        {"x-dead-letter-routing-key": "k"},
        [{"x-dead-letter-routing-key": "k", "x-dead-letter-exchange": ""}],
    ),
    "backoff-without-delay": (
        {"x-redelivery-multiplier": 2},
        [
            {"x-redelivery-multiplier": 2, "x-redelivery-delay": 1},
            {"x-redelivery-delay": 9, "x-max-redelivery-delay": 1},
        ],
    ),
}

NOT_DECLARABLE = {"fallback-without-other-key"}
"""Contradictions that no argument can spell: they keep hand-made settings honest."""


def test_every_refusal_has_its_case():
    identifiers = [combination.identifier for combination in REFUSED]
    assert sorted(identifiers) == sorted({*CASES, *NOT_DECLARABLE})


@pytest.mark.parametrize("identifier", CASES)
def test_the_contradiction_is_refused_and_its_neighbours_are_legal(identifier):
    arguments, neighbours = CASES[identifier]
    combination = next(combination for combination in REFUSED if combination.identifier == identifier)
    with pytest.raises(InvalidArgument) as caught:
        parse_queue_arguments(arguments)
    text = str(caught.value)
    assert combination.reason in text
    assert len(text.encode()) <= REPLY_TEXT_MAX
    assert any(f"'{name}' (" in text for name in arguments), text
    for neighbour in neighbours:
        settings = parse_queue_arguments(neighbour)
        assert refusal_for(settings) is None
        assert parse_queue_arguments(describe(settings)) == settings


@pytest.mark.parametrize(
    "change", [{"last_value_fallback": "_AMQ_LVQ_NAME"}, {"last_value_fallback": "other", "last_value_key": "k"}]
)
def test_a_fallback_that_no_argument_brings_is_refused(change):
    refusal = refusal_for(QueueSettings(**change))
    assert refusal is not None
    assert refusal.identifier == "fallback-without-other-key"
    assert "'last-value-fallback'" in refusal.text(QueueSettings(**change))


def test_min_above_max_time_to_live_is_legal_because_max_wins():
    assert refusal_for(QueueSettings(min_ttl=9, max_ttl=3)) is None


@pytest.mark.parametrize("combination", REFUSED, ids=lambda combination: combination.identifier)
def test_giving_way_ends_the_contradiction(combination):
    values = {"last_value_fallback": "other", "last_value_key": "k"}  # the one that no argument can spell
    if combination.identifier in CASES:
        values = read_arguments(CASES[combination.identifier][0]).values
    settings = build({**values, **implied(values)})
    assert combination.holds(settings)
    assert not combination.holds(DEFAULTS)
    assert set(combination.involved(settings)) & set(combination.yields)
    yielded = {name: getattr(DEFAULTS, name) for name in combination.yields}
    assert not combination.holds(dataclasses.replace(settings, **yielded))


def test_origins_are_told_where_they_are_known():
    settings = QueueSettings(sort_key="s", priorities=3)
    refusal = refusal_for(settings)
    assert refusal is not None
    text = refusal.text(settings, {"sort_key": "argument 'x-sort-key'", "priorities": "policy 'p'"})
    assert text.startswith("'x-sort-key' ('s', argument 'x-sort-key') with 'x-priorities' (3, policy 'p'): ")


def test_levels():
    assert [levels(QueueSettings()), levels(QueueSettings(priorities=4)), levels(QueueSettings(max_priority=4))] == [
        0,
        4,
        5,
    ]
