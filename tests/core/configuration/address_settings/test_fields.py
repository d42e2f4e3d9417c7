"""Fields of address settings: names, values, and the way back."""

from __future__ import annotations

import dataclasses

import pytest

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import QueueSettings
from annulet.core.configuration.address_settings.fields import (
    ADDRESS_SETTINGS,
    KNOWN,
    LIVE,
    ONLY_DEFAULT,
    WITHOUT_EFFECT,
    describe_address_settings,
    parse_address_settings,
    setting_name,
)
from annulet.core.configuration.address_settings.repository import ResolvedSettings
from annulet.core.configuration.arguments.table import CHANGEABLE, SETTINGS
from tests.core.configuration.address_settings.page import PAGE, refreshed

ARTEMIS = "_AMQ_LVQ_NAME"


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({}, {}),
        ({"default-ring-size": 100}, {"ring_size": 100}),
        ({"default_ring_size": "100"}, {"ring_size": 100}),
        ({"default-last-value-queue": True}, {"last_value_key": ARTEMIS, "last_value_fallback": ""}),
        ({"default-last-value-queue": False}, {"last_value_key": "", "last_value_fallback": ""}),
        ({"default-last-value-key": "k"}, {"last_value_key": "k", "last_value_fallback": ARTEMIS}),
        ({"default-last-value-key": ARTEMIS}, {"last_value_key": ARTEMIS, "last_value_fallback": ""}),
        ({"default-exclusive-queue": "true"}, {"exclusive_consumer": True}),
        ({"default-group-rebalance-pause-dispatch": True}, {"group_rebalance_pause": True}),
        ({"expiry-delay": 5, "min-expiry-delay": 1, "max-ttl": -1}, {"message_ttl": 5, "min_ttl": 1, "max_ttl": -1}),
        ({"max-delivery-attempts": 0}, {"max_delivery_attempts": -1}),
        ({"max-delivery-attempts": -1}, {"max_delivery_attempts": -1}),
        ({"expiry-address": ""}, {"expiry_address": ""}),
        ({"address-full-policy": "BLOCK", "max-size-bytes": "10 MiB"},
         {"address_full_policy": "block", "max_size_bytes": 10 * 2**20}),
        ({"page-limit-bytes": "10 MiB", "page-limit-messages": -1, "page-full-policy": "FAIL"},
         {"page_limit_bytes": 10 * 2**20, "page_limit_messages": -1, "page_full_policy": "fail"}),
        ({"page-limit-bytes": 0, "page-full-policy": "none"}, {"page_limit_bytes": 0, "page_full_policy": "none"}),
        ({"default-queue-routing-type": "ANYCAST"}, {"default_queue_routing_type": "anycast"}),
        ({"default-group-mode": "off", "default-ring-trim": "now"}, {"group_mode": "", "ring_trim_now": True}),
        ({"auto-delete-queues-message-count": -1}, {"auto_delete_queues_message_count": -1}),
        ({"page-size-bytes": "10M", "slow-consumer-policy": "NOTIFY"}, {}),
        ({"redistribution-delay": "-1", "config-delete-queues": "OFF", "enable-metrics": True}, {}),
        ({"redelivery-delay-multiplier": 2.5}, {"redelivery_multiplier": 2.5}),
    ],
    ids=str,
)  # fmt: skip
def test_accepted(given, values):
    settings = parse_address_settings(given)
    assert settings.values == values
    assert parse_address_settings(describe_address_settings(settings)) == settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"default-ring-size": 0}, "^address setting 'default-ring-size' must be at least 1"),
        ({"ring-size": 5}, "unknown address setting 'ring-size'; did you mean 'default-ring-size'"),
        ({"default-expiry-address": "e"}, "did you mean 'expiry-address'"),
        ({"qqqqqqqqqqqqqq": 1}, "unknown address setting 'qqqqqqqqqqqqqq'; leave it out"),
        ({"address-full-policy": "EXPLODE"}, "'page' or 'drop' or 'block' or 'fail'"),
        ({"page-full-policy": "BLOCK"}, "'page-full-policy' must be 'none' or 'drop' or 'fail', not 'block'"),
        ({"page-limit-bytes": -2}, "^address setting 'page-limit-bytes' must be at least 0 bytes, or -1 for off"),
        ({"page-limit-messages": -5}, "'page-limit-messages' must be at least 0 messages, or -1 for off, not -5"),
        ({"page-limit-messages": "some"}, "^address setting 'page-limit-messages' must be an integer"),
        ({"max-delivery-attempts": "many"}, "must be an integer"),
        ({"redistribution-delay": 5}, "must be -1, not 5: there is no cluster"),
        ({"slow-consumer-threshold": True}, "must be -1, not True"),
        ({"default-last-value-queue": True, "default-last-value-key": "k"}, "same setting with different values"),
        ({"expiry-delay": 1, "message-ttl": 2}, "'expiry-delay' and 'message-ttl' are the same setting"),
        ({"default-sort-key": "s", "default-priorities": 3}, "a queue has one order"),
        ({"dead-letter-address": "d", "dead-letter-exchange": ""}, "a message dies once"),
        ({"default-filter": "a ="}, "^address setting 'default-filter' is no selector"),
        ({"id-cache-size": 10**9}, "0 to 10000000"),
    ],
    ids=str,
)  # fmt: skip
def test_refused(given, words):
    with pytest.raises(InvalidArgument, match=words):
        parse_address_settings(given)


@pytest.mark.parametrize(
    "given", [{"redelivery-multiplier": 2.0}, {"default-group-rebalance": True}, {"default-overflow": "block"}], ids=str
)
def test_what_only_lacks_something_is_legal(given):
    assert len(parse_address_settings(given).values) == 1


def test_every_setting_of_a_queue_has_a_name_here():
    assert {setting_name(setting.field) for setting in SETTINGS} - set(KNOWN) == {"default-last-value-key"} - set(KNOWN)
    assert setting_name("ring_size") == "default-ring-size"
    assert setting_name("message_ttl") == "message-ttl"
    assert setting_name("max_size_bytes") == "max-size-bytes"


def test_the_names_of_address_and_queue_are_apart():
    queue = {field.name for field in dataclasses.fields(QueueSettings)}
    address = {setting.field for setting in ADDRESS_SETTINGS}
    assert not queue & address
    assert not {setting_name(name) for name in address} & {setting_name(setting.field) for setting in SETTINGS}
    assert not WITHOUT_EFFECT & set(ONLY_DEFAULT)


@pytest.mark.parametrize("setting", ADDRESS_SETTINGS, ids=lambda setting: setting.field)
def test_the_default_can_be_written_down_and_is_in_range(setting):
    default = getattr(ResolvedSettings(), setting.field)
    assert parse_address_settings({setting.name: default}).values == {setting.field: default}


def test_only_what_can_change_is_live():
    assert LIVE <= CHANGEABLE


def test_the_page_shows_these_tables():
    text = PAGE.read_text()
    assert refreshed(text) == text, (
        "docs/address-settings.md is stale; run python -m tests.core.configuration.address_settings.page"
    )
