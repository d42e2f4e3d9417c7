"""The table of settings: complete, unambiguous, and true about defaults."""

from __future__ import annotations

import dataclasses

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.arguments.peers import ALIASES, LAST_VALUE_SWITCHES, REFUSED_NAMES
from annulet.core.configuration.arguments.table import AXES, BY_FIELD, BY_NAME, CHANGEABLE, SETTINGS, Kind, argument_of
from tests.core.configuration.arguments.page import PAGE, refreshed

FIELDS = {field.name: field.default for field in dataclasses.fields(QueueSettings)}
BROUGHT_BY_ALIAS = {"last_value_fallback"}


def test_every_setting_of_a_queue_has_one_row():
    assert sorted(setting.field for setting in SETTINGS) == sorted(set(FIELDS) - BROUGHT_BY_ALIAS)
    assert [setting for axis in AXES.values() for setting in axis] == list(SETTINGS)


def test_no_name_means_two_things():
    names = [name for setting in SETTINGS for name in (setting.name, *setting.also)]
    assert len(names) == len(set(names)) == len(BY_NAME)
    assert not set(names) & set(REFUSED_NAMES)
    # the one exception: Artemis's own spelling brings Artemis's fallback
    assert set(names) & {*ALIASES, *LAST_VALUE_SWITCHES} == {"last-value-key"}


def test_aliases_stand_for_settings_that_exist():
    for alias in ALIASES.values():
        assert set(alias.fields) <= set(FIELDS), alias.name
        assert {field for field, _ in alias.weak} <= set(FIELDS), alias.name


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.field)
def test_a_default_can_be_written_down(setting):
    default = FIELDS[setting.field]
    if default is None or setting.field in {"last_value_key", "sort_key", "fair_key"}:
        return  # absence is the only way to say "none"
    given = list(default) if isinstance(default, tuple) else default
    if setting.field == "ring_trim_now":
        given = "lazy"
    if setting.field == "group_mode":
        given = "off"
    assert setting.read(setting.name, given) == default


@pytest.mark.parametrize("name", ["x-message-ttl", "x-expires"])
def test_two_names_refuse_off_because_rabbitmq_does(name):
    setting = BY_NAME[name.removeprefix("x-")]
    with pytest.raises(InvalidArgument, match="not -1"):
        setting.read(name, -1)
    assert setting.read(name.removeprefix("x-"), -1) == -1


def test_hot_properties_are_those_of_messages_and_eight_at_most():
    setting = BY_NAME["hot-properties"]
    names = ",".join("abcdefgh")
    assert setting.read("x-hot-properties", names) == tuple("abcdefgh")
    with pytest.raises(InvalidArgument, match="at most 8 names; it has 9"):
        setting.read("x-hot-properties", names + ",i")
    with pytest.raises(InvalidArgument, match=r"'x-hot-properties' must .* not 'JMSRedelivered'.*; leave it out"):
        setting.read("x-hot-properties", ["JMSRedelivered"])


def test_what_a_queue_is_never_changes():
    identity = {
        "priorities", "max_priority", "priority_discipline", "priority_weights", "priority_age", "sort_key",
        "last_value_key", "keep_per_key", "last_value_place",
        "group_mode", "group_key", "group_buckets", "non_destructive",
        "fair_key", "exclusive_consumer", "single_active_consumer", "live_consumers_max",
    }  # fmt: skip
    assert not identity & CHANGEABLE
    assert {"ring_size", "max_length", "message_ttl", "dead_letter_address", "max_consumers"} <= CHANGEABLE
    assert set(FIELDS) >= CHANGEABLE


def test_numbers_have_a_unit_and_choices_have_choices():
    for setting in SETTINGS:
        assert bool(setting.choices) == (setting.kind is Kind.CHOICE), setting.field
        assert setting.meaning, setting.field


def test_argument_of():
    assert argument_of("ring_trim_now") == "x-ring-trim"
    assert BY_FIELD["max_bytes"].argument == "x-max-bytes"


def test_the_page_shows_this_table():
    text = PAGE.read_text()
    assert refreshed(text) == text, (
        "docs/queue-arguments.md is stale; run python -m tests.core.configuration.arguments.page"
    )
