"""Patterns: what they match, and which of two is the more specific."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.address_settings.patterns import AddressPattern, WildcardSyntax


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("news.#", ["news", "news.a", "news.a.b"], ["newsa", "new", "a.news"]),
        ("news.*", ["news.a", "news."], ["news", "news.a.b"]),
        ("a.b.#", ["a.b", "a.b.c"], ["a.babc", "a"]),
        ("#", ["", "a", "a.b.c"], []),
        ("*", ["a", ""], ["a.b"]),
        ("#.z", ["z", "a.z", "a.b.z"], ["a", "z.a"]),
        ("a.#.b.#.c", ["a.b.c", "a.x.b.y.z.c", "a.b.b.c.c"], ["a.c", "a.b", "b.c", "a.c.b"]),
        ("a.#.*.c", ["a.x.c", "a.x.y.c"], ["a.c"]),
        ("#.*.#", ["a", "a.b"], []),
        ("a.b", ["a.b"], ["a.B", "a.b.", "a"]),
        ("a.#.#", ["a", "a.b"], ["b"]),
    ],
)
def test_matching(pattern, matching, others):
    compiled = AddressPattern(pattern)
    assert [address for address in [*matching, *others] if compiled.matches(address)] == matching


def test_wildcard_characters_of_an_address_are_text():
    assert AddressPattern("news.*").matches("news.#")
    assert not AddressPattern("news.a").matches("news.*")


def test_literal_markers_name_one_address():
    syntax = WildcardSyntax(literal_markers="()")
    pattern = AddressPattern("(orders.#)", syntax)
    assert pattern.matches("orders.#")
    assert not pattern.matches("orders.a")
    assert AddressPattern("orders.#", syntax).matches("orders.a")
    with pytest.raises(InvalidArgument, match="'#' stands for whole words"):
        AddressPattern("(orders.#)")  # off by default


@pytest.mark.parametrize("pattern", ["orders.#)", "a.b*", "#a", "", "x" * 256])
def test_refused(pattern):
    with pytest.raises(InvalidArgument, match="address pattern"):
        AddressPattern(pattern)


def test_other_characters():
    syntax = WildcardSyntax(delimiter="/", any_words=">", single_word="+")
    assert AddressPattern("a/+/>", syntax).matches("a/b/c/d")
    assert AddressPattern("a.*", syntax).matches("a.*")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delimiter": ""}, "'delimiter' must be one character, not ''"),
        ({"any_words": "##"}, "'any-words'"),
        ({"single_word": "#"}, "must all be different"),
        ({"literal_markers": "("}, "two characters or empty"),
        ({"literal_markers": "(*"}, "must all be different"),
    ],
)
def test_refused_syntax(change, words):
    with pytest.raises(InvalidArgument, match=words):
        WildcardSyntax(**change)


def test_the_chain_of_artemis():
    chain = ["a.b.c.d.e.f", "a.b.c.d.e.*", "a.*.*.*.*.*", "*.b.c.d.*.f", "*.b.*.d.*.f", "a.b.c.d.e.#"]
    for order in itertools.islice(itertools.permutations(chain), 0, None, 7):
        assert sorted(order, key=lambda text: AddressPattern(text).specificity) == chain


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("a.#", "#"), ("a.b.#", "a.#"), ("a.*.#", "a.#"), ("a.#.c", "a.#"), ("a.#.b", "a.#.b.#"), ("#.b.c", "#.c"),
        ("#.*.c", "#.c"), ("a.b.#", "averylongfirstword.#"), ("a.#", "*.b.#"), ("*.#", "#"), ("a", "*"), ("*", "#"),
    ],
)  # fmt: skip
def test_structure_decides_and_not_the_length_of_the_text(more, less):
    assert AddressPattern(more).specificity < AddressPattern(less).specificity


def test_a_literal_match_is_the_most_specific():
    syntax = WildcardSyntax(literal_markers="()")
    assert AddressPattern("(a)", syntax).specificity < AddressPattern("a", syntax).specificity


WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4).map(".".join)
ADDRESSES = [".".join(words) for count in range(1, 7) for words in itertools.product("abx", repeat=count)]


def slow_match(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return slow_match(pattern[1:], words) or (bool(words) and slow_match(pattern, words[1:]))
    return bool(words) and pattern[0] in {"*", words[0]} and slow_match(pattern[1:], words[1:])


@given(WORDS, st.sampled_from(ADDRESSES))
def test_matching_is_what_the_definition_says(pattern, address):
    assert AddressPattern(pattern).matches(address) == slow_match(pattern.split("."), address.split("."))


@given(WORDS, st.lists(st.sampled_from(["", "", "*", "#"]), min_size=4, max_size=4))
def test_a_pattern_that_matches_less_is_more_specific(text, wildcards):
    words = text.split(".")
    wider = [
        word if word == "#" or not wildcard else wildcard for word, wildcard in zip(words, wildcards, strict=False)
    ]
    narrow, wide = AddressPattern(text), AddressPattern(".".join(wider))
    matched = {address for address in ADDRESSES if narrow.matches(address)}
    more = {address for address in ADDRESSES if wide.matches(address)}
    assert matched <= more
    assert narrow.specificity < wide.specificity or matched == more


def test_many_wildcards_cost_no_more_than_their_number_times_the_words():
    assert not AddressPattern(".".join(["#", "a"] * 60 + ["b"])).matches(".".join(["a"] * 5000))
