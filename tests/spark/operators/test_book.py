"""A book beside the broker's core: the same random traffic, every composition, the same messages left."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from annulet.core.base.settings import EVICTION_RULES, LEAST_RECENT_KEY
from annulet.spark.operators import (
    Operator,
    combine,
    deduplicate,
    expire,
    keep_last,
    overflow,
    prioritise,
    ring,
)
from annulet.spark.operators.book import Book, Changes, Item
from annulet.spark.operators.rules import Rules
from tests.spark.operators.differential import Sent, core_survivors, traffic


def composition(chance: random.Random) -> Operator:
    parts: list[Operator] = []
    keyed = chance.random() < 0.5
    if keyed:
        parts.append(keep_last(chance.choice((1, 1, 2, 3)), "key"))
    evict = chance.choice([rule for rule in EVICTION_RULES if keyed or rule != LEAST_RECENT_KEY])
    if chance.random() < 0.5:
        parts.append(ring(chance.choice((1, 3, 8)), evict=evict))
    limit = chance.choice(("none", "none", "ring", "reject"))
    length = chance.choice((None, 0, 2, 6))
    octets = chance.choice((None, 30, 70)) if length is not None else chance.choice((30, 70))
    if limit != "none":
        parts.append(overflow(limit, max_length=length, max_bytes=octets, evict=evict))
    if chance.random() < 0.4:
        parts.append(prioritise(chance.choice((1, 3, 10))))
    if chance.random() < 0.4:
        parts.append(expire(message_ttl=chance.choice((None, 0, 50)), min_ttl=chance.choice((None, 20))))
    if chance.random() < 0.3:
        parts.append(deduplicate(chance.choice((None, 1, 5))))
    return combine(*parts) if parts else ring(5)


def book_survivors(operator: Operator, messages: list[Sent]) -> Iterator[int]:
    rules = operator.rules
    books: dict[str, Book] = {}
    changes = Changes()
    for sent in messages:
        book = books.setdefault(sent.queue, Book(rules))
        book.arrive(item_of(rules, sent), sent.identifier if rules.deduplicates else None, sent.accepted_at, changes)
    assert len(changes.left) + sum(item not in changes.left for item, _, _ in changes.removed) == len(messages)
    return (item.sequence for item in changes.left if item.live)


def item_of(rules: Rules, sent: Sent) -> Item:
    level = 0
    if rules.needs_level:
        priority = rules.default_priority if sent.priority is None else sent.priority
        level = max(0, min(priority - rules.level_offset, rules.highest_level))
    expires = 0
    if rules.needs_expiry:
        expires = sent.expires_at or 0
        if expires and rules.min_ttl >= 0:
            expires = max(expires, sent.accepted_at + rules.min_ttl)
        for life in (rules.message_ttl, rules.max_ttl):
            if life >= 0:
                expires = min(expires or sent.accepted_at + life, sent.accepted_at + life)
    return Item(0, sent.queue, sent.number, sent.key if rules.key else None, level, sent.size, expires)


@pytest.mark.parametrize("seed", range(40))
def test_a_book_keeps_what_the_core_keeps(seed: int) -> None:
    operator = composition(random.Random(seed))
    messages = traffic(seed, 150)
    print("seed", seed, operator.rules.fingerprint)
    left = sorted(number for numbers in core_survivors(operator, messages).values() for number in numbers)
    assert sorted(book_survivors(operator, messages)) == left
