"""Topic: the trie against a definition by regular expression, and against patterns made to be slow."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.steps import Steps
from annulet.core.routing.exchanges import TopicExchange
from annulet.core.routing.exchanges.topic import ANY_WORD, ANY_WORDS, PLACE_STEPS, pattern_words, words_of
from tests.core.routing.exchanges.helpers import bind, matched

KEYS = st.lists(st.sampled_from(["a", "b", ""]), max_size=5).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=5).map(".".join)


def fits(pattern, key):
    """The rule as the standard words it, by recursion."""
    wanted, found = words_of(pattern), words_of(key)

    @cache
    def rest_fits(i, j):
        if i == len(wanted):
            return j == len(found)
        if wanted[i] == "#":
            return any(rest_fits(i + 1, later) for later in range(j, len(found) + 1))
        return j < len(found) and wanted[i] in ("*", found[j]) and rest_fits(i + 1, j + 1)

    return rest_fits(0, 0)


@given(st.lists(PATTERNS, max_size=8, unique=True), st.lists(KEYS, min_size=1, max_size=5), st.data())
def test_matches_are_those_of_the_definition_and_unbinding_leaves_no_trace(patterns, keys, data):
    exchange = TopicExchange("e")
    bindings = {pattern: bind(exchange, pattern, pattern) for pattern in patterns}
    removed = data.draw(st.lists(st.sampled_from(patterns), unique=True)) if patterns else []
    for pattern in removed:
        exchange.remove(bindings[pattern])
    for key in keys:
        expected = sorted(pattern for pattern in patterns if pattern not in removed and fits(pattern, key))
        assert sorted(matched(exchange, key)) == expected
    for pattern in set(patterns) - set(removed):
        exchange.remove(bindings[pattern])
    assert exchange.root.children == {}
    assert exchange.root.bindings == {}


LONG_KEYS = st.lists(st.sampled_from(["a", "b"]), max_size=12).map(".".join)
LONG_PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=12).map(".".join)


@given(st.lists(LONG_PATTERNS, min_size=1, max_size=12, unique=True), LONG_KEYS)
def test_a_match_enters_each_place_once_for_each_word(patterns, key):
    exchange = TopicExchange("e")
    for pattern in patterns:
        bind(exchange, pattern, pattern)
    steps = Steps()
    before = steps.left
    found = [binding.destination_name for binding in exchange.match(key, {}, steps)]
    assert sorted(found) == sorted(pattern for pattern in patterns if fits(pattern, key))
    places = {tuple(pattern_words(pattern)[:length]) for pattern in patterns for length in range(13)}
    assert before - steps.left <= PLACE_STEPS * len(words_of(key)) * (len(places) + 1)


@given(LONG_PATTERNS, LONG_KEYS)
def test_the_one_spelling_of_a_pattern_means_the_same(pattern, key):
    spelling = pattern_words(pattern)
    assert fits(".".join(spelling), key) is fits(pattern, key)
    assert pattern_words(".".join(spelling)) == spelling
    for first, second in pairwise(spelling):
        assert first != ANY_WORDS or second not in (ANY_WORD, ANY_WORDS)


def test_a_place_for_more_words_than_are_left_is_not_entered():
    exchange = TopicExchange("e")
    kept = bind(exchange, "short", "#.a.b")
    long = bind(exchange, "long", "#.a.*.*.*.*.*.*")
    steps = Steps(1000)
    assert [binding.destination_name for binding in exchange.match("a.b", {}, steps)] == ["short"]
    assert steps.left >= 1000 - 20
    exchange.remove(kept)
    assert matched(exchange, "a.b") == []
    exchange.remove(long)
    assert exchange.root.children == {}


def test_words():
    assert words_of("") == []
    assert words_of("a") == ["a"]
    assert words_of("a..b") == ["a", "", "b"]
    assert words_of(".") == ["", ""]


def test_wildcards_in_a_routing_key_are_ordinary_words():
    exchange = TopicExchange("e")
    bind(exchange, "literal", "a.b")
    bind(exchange, "star", "a.*")
    bind(exchange, "hash", "a.#")
    assert sorted(matched(exchange, "a.*")) == ["hash", "star"]
    assert sorted(matched(exchange, "a.#")) == ["hash", "star"]
    assert matched(exchange, "#") == []


def test_a_pattern_of_many_hashes_costs_words_times_places():
    """A matcher that tries every split of 200 words among 20 hashes would not come back."""
    exchange = TopicExchange("e")
    bind(exchange, "q", ".".join(["#", "a"] * 20))
    assert matched(exchange, ".".join(["a"] * 200)) == ["q"]
    assert matched(exchange, ".".join(["a"] * 199 + ["b"])) == []


def test_two_queues_share_one_pattern():
    exchange = TopicExchange("e")
    first, second = bind(exchange, "1", "a.#"), bind(exchange, "2", "a.#")
    assert matched(exchange, "a.b") == ["1", "2"]
    exchange.remove(first)
    assert matched(exchange, "a") == ["2"]
    exchange.remove(second)
    assert matched(exchange, "a") == []
