"""Keys and what they supersede."""

from __future__ import annotations

from annulet.core.model.entry import QueueEntry
from annulet.core.policies.last_per_key import KeyTable, key_of
from tests.core.helpers import NOW, make_message, make_queue, queue_of


def entries_of(table, *keys):
    queue = make_queue()
    entries = [QueueEntry(queue, make_message(k=key), sequence) for sequence, key in enumerate(keys, 1)]
    return entries, [table.accept(entry) for entry in entries]


def test_keys_are_equal_by_type_and_value():
    assert len({key_of(value) for value in (1, 1.0, True, "1", b"1", [1], {"a": 1})}) == 7
    assert key_of(None) is None


def test_the_last_two_of_each_key_stay():
    table = KeyTable("k", 2)
    entries, superseded = entries_of(table, "a", "a", "b", "a", None)
    assert superseded == [None, None, None, entries[0], None]
    assert [table.superseded(entry) for entry in entries] == [True, False, False, False, False]


def test_a_key_is_forgotten_with_its_last_message():
    table = KeyTable("k", 1)
    entries, _ = entries_of(table, "a", "a")
    table.forget(entries[1])
    assert len(table) == 1
    table.forget(entries[0])
    assert len(table) == 0


def test_fallback_property_counts_only_without_the_key():
    table = KeyTable("k", 1, "f")
    assert table.key_for(make_message(k="x", f="y")) == ("str", "x")
    assert table.key_for(make_message(f="y")) == ("str", "y")


def test_its_losses_have_the_rule_in_the_words_of_the_settings():
    queue = queue_of(last_value_key="k")
    for body in ("former", "latest"):
        queue.enqueue(make_message(body, k="a"), NOW)
    (record,) = queue.ledger.query()
    assert (record.rule, record.key) == ("last-value-key=k, keep-per-key=1", "a")
