"""Arguments: aliases, refusals and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.arguments import (
    describe,
    parse_alternate_exchange,
    parse_consumer_priority,
    parse_queue_arguments,
)
from annulet.core.errors import InvalidArgument
from annulet.core.settings import QueueSettings

KEYED = {"x-last-value-key": "k"}


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, QueueSettings()),
        ({"x-ring-size": 5, "x-ring-trim": "now"}, QueueSettings(ring_size=5, ring_trim_now=True)),
        ({"ring-size": -1}, QueueSettings()),
        ({"x-last-value-key": "k", "x-keep-per-key": 3}, QueueSettings(last_value_key="k", keep_per_key=3)),
        ({"last-value-key": "k"}, QueueSettings(last_value_key="k", last_value_fallback="_AMQ_LVQ_NAME")),
        ({"last-value": True}, QueueSettings(last_value_key="_AMQ_LVQ_NAME")),
        ({"qpid.last_value_queue": 1}, QueueSettings(last_value_key="qpid.LVQ_key")),
        ({"qpid.last_value_queue": True, "qpid.last_value_queue_key": "k"}, QueueSettings(last_value_key="k")),
        ({"x-message-ttl": 0, "x-expires": 1}, QueueSettings(message_ttl=0, expires=1)),
        ({"x-queue-type": "quorum", "x-queue-mode": "lazy", "x-queue-version": 2}, QueueSettings()),
        ({"x-ha-policy": "all"}, QueueSettings()),
    ],
)
def test_accepted(arguments, settings):
    assert parse_queue_arguments(arguments) == settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-ring-size": 0}, "at least 1"), ({"x-ring-size": -2}, "at least 1"), ({"x-ring-size": True}, "integer"),
        ({"x-ring-size": "5"}, "integer"), ({"x-keep-per-key": 2}, "needs 'x-last-value-key'"),
        ({**KEYED, "x-keep-per-key": 0}, "1 to"), ({"x-message-ttl": -1}, "0 to"), ({"x-expires": 0}, "1 to"),
        ({"x-message-ttl": 2**32}, "4294967295"), ({"x-ring-trim": "soon"}, "'lazy' or 'now'"),
        ({"x-queue-type": "stream"}, "stream"), ({"x-queue-version": True}, "1 or 2"),
        ({"x-last-value-key": ""}, "name of a message property"),
        ({"x-ring-size": 5, "ring-size": 6}, "same setting with different values"),
        ({"last-value": False, **KEYED}, "is false"), ({"last-value": "yes"}, "true or false"),
        ({"last-value": True, "qpid.last_value_queue": True}, "different last-value keys"),
        ({"x-max-priority": 9}, r"x-max-priority \(priorities\) is not available in this version"),
        ({"x-dead-letter-exchange": ""}, "dead-letter-address"), ({"x-max-length": 1}, "max-length"),
        ({"x-ringsize": 5}, "did you mean 'x-ring-size'"),
        ({"zzzzzzzzzzzz": 5}, "unknown queue argument 'zzzzzzzzzzzz'"),
    ],
)  # fmt: skip
def test_refused(arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        parse_queue_arguments(arguments)


@given(
    ring=st.sampled_from([-1, 1, 7]),
    trim=st.booleans(),
    key=st.sampled_from(["", "k", "_AMQ_LVQ_NAME"]),
    keep=st.integers(1, 5),
    fallback=st.booleans(),
    ttl=st.integers(-1, 5),
    expires=st.sampled_from([-1, 1, 9]),
)
def test_description_declares_the_same_queue(ring, trim, key, keep, fallback, ttl, expires):
    settings = QueueSettings(
        ring_size=ring,
        ring_trim_now=trim,
        last_value_key=key,
        keep_per_key=keep if key else 1,
        last_value_fallback="_AMQ_LVQ_NAME" if fallback and key == "k" else "",
        message_ttl=ttl,
        expires=expires,
    )
    assert parse_queue_arguments(describe(settings)) == settings


def test_consumer_arguments():
    assert parse_consumer_priority({"x-priority": -3, "x-cancel-on-ha-failover": True}) == -3
    assert parse_consumer_priority({}) == 0
    for refused in ({"x-priority": "high"}, {"x-priority": True}, {"x-browse": True}, {"selector": "a = 1"}):
        with pytest.raises(InvalidArgument):
            parse_consumer_priority(refused)


def test_exchange_arguments():
    assert parse_alternate_exchange({"alternate-exchange": "ae", "x-other": 1}) == "ae"
    assert parse_alternate_exchange({}) is None
    for refused in ({"alternate-exchange": 1}, {"x-delayed-type": "direct"}):
        with pytest.raises(InvalidArgument):
            parse_alternate_exchange(refused)
