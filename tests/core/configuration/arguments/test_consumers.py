"""Consumer arguments."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_SNAPSHOT, ConsumerSettings
from annulet.core.configuration.arguments.consumers import (
    CONSUMER_ARGUMENTS,
    REFUSED_CONSUMER_NAMES,
    parse_consumer_arguments,
    parse_consumer_priority,
)
from tests.core.configuration.arguments.page import PAGE


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ({}, ConsumerSettings()),
        ({"x-priority": -3, "x-cancel-on-ha-failover": True, "x-credit": {"credit": 1}}, ConsumerSettings(priority=-3)),
        ({"x-priority": "7"}, ConsumerSettings(priority=7)),
        ({"selector": "a = 1", "x-filter-jms-selector": "a = 1"}, ConsumerSettings(selector="a = 1")),
        ({"x-browse": True}, ConsumerSettings(browse=BROWSE_FOLLOW)),
        ({"x-browse": "follow", "x-filter-no-consume": 1}, ConsumerSettings(browse=BROWSE_FOLLOW)),
        ({"x-browse": "snapshot"}, ConsumerSettings(browse=BROWSE_SNAPSHOT)),
        ({"x-browse": "false"}, ConsumerSettings()),
        ({"x-filter-no-consume": "true", "x-filter-auto-close": True},
         ConsumerSettings(browse=BROWSE_FOLLOW, auto_close=True)),
        ({"no-local": True}, ConsumerSettings(no_local=True)),
        ({"x-qpid-replay-period": "5"}, ConsumerSettings(replay_period=5000)),
        ({"x-qpid-replay-period": 0}, ConsumerSettings(replay_period=0)),
        ({"x-replay-period": 1500}, ConsumerSettings(replay_period=1500)),
    ],
    ids=str,
)  # fmt: skip
def test_accepted(arguments, settings):
    assert parse_consumer_arguments(arguments) == settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-priority": "high"}, "'x-priority' must be an integer"), ({"x-priority": True}, "integer"),
        ({"x-priority": 2**63}, "64-bit"), ({"selector": 5}, "'selector' must be a text, not 5"),
        ({"selector": "a ="}, "invalid consumer argument 'selector': character 4: found the end"),
        ({"x-selector": "JMSRedelivered"}, "'x-selector' names JMSRedelivered, which differs from delivery"),
        ({"x-browse": "backwards"}, "true, false, 'follow' or 'snapshot', not 'backwards'"),
        ({"x-browse": "snapshot", "x-filter-no-consume": True}, "same setting with different values"),
        ({"x-filter-no-consume": "follow"}, "true or false"), ({"x-auto-close": True}, "add 'x-browse'"),
        ({"selector": "a = 1", "x-selector": "a = 2"}, "'selector' and 'x-selector' are the same setting"),
        ({"x-qpid-replay-period": -1}, "0 to 315360000 seconds"), ({"x-replay-period": -2}, "milliseconds, or -1"),
        ({"x-stream-offset": "first"}, "'x-stream-offset' is not available"), ({"x-multiqueue": []}, "one queue"),
    ],
    ids=str,
)  # fmt: skip
def test_refused(arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        parse_consumer_arguments(arguments)


@pytest.mark.parametrize("name", CONSUMER_ARGUMENTS)
def test_no_known_argument_takes_every_value(name):
    with pytest.raises(InvalidArgument, match=f"argument '{name}' must be"):
        parse_consumer_arguments({name: [1]})


def test_a_priority_alone():
    assert parse_consumer_priority({"x-priority": -3, "x-other": True}) == -3
    assert parse_consumer_priority({}) == 0
    for refused in ({"x-priority": "high"}, {"x-browse": True}, {"selector": "a = 1"}):
        with pytest.raises(InvalidArgument):
            parse_consumer_priority(refused)


def test_the_page_shows_every_argument():
    text = PAGE.read_text()
    section = text[text.index("## Consumer arguments") : text.index("## Interactions")]
    assert [name for name in (*CONSUMER_ARGUMENTS, *REFUSED_CONSUMER_NAMES) if f"`{name}`" not in section] == []
