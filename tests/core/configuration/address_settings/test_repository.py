"""The repository: merging field by field, origins, changes. Scenario ids as in the specification of Artemis."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import InvalidArgument, NotFound
from annulet.core.configuration.address_settings import repository as module
from annulet.core.configuration.address_settings.fields import parse_address_settings
from annulet.core.configuration.address_settings.patterns import WildcardSyntax
from annulet.core.configuration.address_settings.repository import AddressSettingsRepository, ResolvedSettings


def repository_of(entries: dict[str, dict[str, object]], **syntax: str) -> AddressSettingsRepository:
    repository = AddressSettingsRepository(WildcardSyntax(**syntax))
    for pattern, given in entries.items():
        repository.set(pattern, given)
    return repository


def test_without_settings_the_defaults_hold():
    resolved = AddressSettingsRepository().resolve("a")
    assert resolved == ResolvedSettings()
    assert (resolved.id_cache_size, resolved.address_full_policy, resolved.dead_letter_queue_prefix) == (
        20_000,
        "page",
        "DLQ.",
    )
    assert (resolved.dead_letter_address, resolved.expiry_address, resolved.queue) == ("", "", {})


@pytest.mark.parametrize(
    ("address", "size"), [("a.b", 2), ("a.b.c", 2), ("a.b.d", 3), ("a.b.d.lll", 3), ("a.babc", 1), ("x", 1)]
)
def test_a2_the_most_specific_match(address, size):
    repository = repository_of(
        {"#": {"max-size-bytes": 1}, "a.b.#": {"max-size-bytes": 2}, "a.b.d.#": {"max-size-bytes": 3}}
    )
    assert repository.resolve(address).max_size_bytes == size


def test_d6_a_star_does_not_match_two_words():
    repository = repository_of(
        {
            "*": {"max-delivery-attempts": 3, "dead-letter-address": "DLA"},
            "prefix.address": {"max-delivery-attempts": 4, "dead-letter-address": "prefix.DLA"},
        }
    )
    resolved = repository.resolve("prefix.address")
    assert (resolved.queue["max_delivery_attempts"], resolved.dead_letter_address) == (4, "prefix.DLA")
    assert repository.resolve("address").queue["max_delivery_attempts"] == 3
    assert repository.resolve("prefix.other").queue == {}


def test_each_field_comes_from_the_most_specific_pattern_that_sets_it():
    repository = repository_of(
        {
            "#": {"max-size-bytes": 1, "expiry-address": "EXP", "auto-create-queues": False},
            "a.*": {"expiry-address": "A", "max-size-messages": 7},
            "a.b": {"max-size-bytes": 9},
        }
    )
    resolved = repository.resolve("a.b")
    assert (resolved.max_size_bytes, resolved.max_size_messages, resolved.auto_create_queues) == (9, 7, False)
    assert resolved.expiry_address == "A"
    explained = repository.explain("a.b")
    assert explained["max-size-bytes"] == (9, "a.b")
    assert explained["expiry-address"] == ("A", "a.*")
    assert explained["auto-create-queues"] == (False, "#")
    assert explained["id-cache-size"] == (20_000, "default")
    assert "default-ring-size" not in explained
    assert repository.matching("a.b") == repository.patterns() == ["a.b", "a.*", "#"]


def test_an_empty_text_ends_the_search():
    repository = repository_of({"#": {"expiry-address": "EXP"}, "a": {"expiry-address": ""}})
    assert repository.resolve("a").expiry_address == ""
    assert repository.explain("a")["expiry-address"] == ("", "a")
    assert repository.resolve("b").expiry_address == "EXP"


def test_among_patterns_with_any_words_structure_decides():
    """Artemis compares the length of their text, where the first of these would win."""
    repository = repository_of({"#.averylongword": {"max-size-bytes": 1}, "a.#": {"max-size-bytes": 2}})
    assert repository.resolve("a.averylongword").max_size_bytes == 2


def test_a_literal_match_holds_for_one_address():
    repository = repository_of(
        {"(orders.#)": {"max-size-bytes": 1}, "orders.#": {"max-size-bytes": 2}}, literal_markers="()"
    )
    assert repository.resolve("orders.#").max_size_bytes == 1
    assert repository.resolve("orders.a").max_size_bytes == 2


def test_a_change_is_seen_at_once_and_told():
    repository = repository_of({"#": {"max-size-bytes": 1}})
    told: list[str] = []
    repository.listeners.append(lambda pattern: told.append(pattern.text))
    assert repository.resolve("a.b").max_size_bytes == 1
    repository.set("a.#", {"max-size-bytes": 2})
    assert repository.resolve("a.b").max_size_bytes == 2
    repository.set("a.#", parse_address_settings({"max-size-bytes": 3}))
    assert repository.resolve("a.b").max_size_bytes == 3
    repository.remove("a.#")
    assert repository.resolve("a.b").max_size_bytes == 1
    assert told == ["a.#", "a.#", "a.#"]
    assert repository.get("a.#") is None
    assert repository.get("#") == parse_address_settings({"max-size-bytes": 1})


def test_a_refused_change_changes_nothing():
    repository = repository_of({"a": {"max-size-bytes": 1}})
    repository.listeners.append(lambda pattern: pytest.fail(f"told of {pattern.text}"))
    for pattern, given in (("a", {"max-size-bytes": "x"}), ("a*", {})):
        with pytest.raises(InvalidArgument):
            repository.set(pattern, given)
    with pytest.raises(NotFound, match=r"the pattern 'a\.b'; (did you mean 'a'|there are 1)"):
        repository.remove("a.b")
    assert repository.resolve("a").max_size_bytes == 1
    assert repository.patterns() == ["a"]


def test_an_address_is_merged_once_and_few_are_remembered(monkeypatch):
    monkeypatch.setattr(module, "RESOLVED_MAX", 2)
    repository = repository_of({"#": {"max-size-bytes": 1}})
    first = repository.resolve("a")
    assert repository.resolve("a") is first
    repository.resolve("b")
    assert repository.resolve("a") is first
    repository.resolve("c")
    assert repository.resolve("a") is not first
    assert repository.resolve("a") == first


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, ""),
        ({"max-size-messages": 1}, ""),
        ({"max-size-messages": 1, "page-limit-bytes": 0, "page-full-policy": "DROP"}, ""),
        ({"max-size-bytes": 0, "page-limit-messages": 5, "page-full-policy": "FAIL"}, ""),
        ({"max-size-messages": 1, "page-limit-bytes": 0}, "no effect without 'page-full-policy'"),
        ({"max-size-messages": 1, "page-limit-bytes": 0, "page-full-policy": "none"}, "without 'page-full-policy'"),
        ({"max-size-messages": 1, "page-full-policy": "FAIL"}, "without 'page-limit-bytes' or 'page-limit-messages'"),
        ({"page-limit-bytes": 0, "page-full-policy": "FAIL"}, "without 'max-size-bytes' or 'max-size-messages'"),
        (
            {"max-size-bytes": 1, "address-full-policy": "DROP", "page-limit-bytes": 0, "page-full-policy": "FAIL"},
            "with 'address-full-policy' drop: nothing is paged",
        ),
    ],
    ids=str,
)
def test_page_limits_without_effect_say_what_is_missing(given, reason):
    idle = repository_of({"#": given}).resolve("a").idle_page_limits
    assert reason in idle
    assert bool(idle) is bool(reason)


def test_of_a_pattern_holds_what_it_and_wider_ones_say():
    """``*`` matches the text of ``#``, and is another pattern all the same."""
    repository = repository_of(
        {
            "#": {"max-size-messages": 1, "max-size-bytes": 1},
            "a.#": {"max-size-bytes": 2, "page-limit-messages": 2, "page-full-policy": "DROP"},
            "a.*": {"page-full-policy": "none", "id-cache-size": 3},
            "b.#": {"page-limit-bytes": 4},
        }
    )
    resolved = repository.resolve_pattern("a.#")
    assert (resolved.max_size_messages, resolved.max_size_bytes, resolved.page_limit_messages) == (1, 2, 2)
    assert (resolved.page_full_policy, resolved.id_cache_size, resolved.page_limit_bytes) == ("drop", 20_000, -1)
    assert resolved.idle_page_limits == ""
    assert "without 'page-full-policy'" in repository.resolve_pattern("a.*").idle_page_limits
