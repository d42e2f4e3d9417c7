"""A shard over many batches and restarts: what is left is what the core keeps, at every moment."""

from __future__ import annotations

import random

import pytest

from annulet.spark.operators import OperatorError, combine, expire, keep_last, ring, shard
from annulet.spark.operators.book import Changes
from annulet.spark.operators.rules import Rules
from annulet.spark.operators.segments import Head
from annulet.spark.operators.shard import SHARDS_CACHED, Rows, Shard, close_shard, open_shard
from annulet.spark.remembered_shards import RememberedShards
from tests.spark.operators.differential import Sent, core_survivors, traffic
from tests.spark.operators.doubles import MemoryState
from tests.spark.operators.test_book import composition, item_of


def rows_of(rules: Rules, messages: list[Sent]) -> Rows:
    items = [item_of(rules, sent) for sent in messages]
    return Rows(
        [item.sequence for item in items],
        [item.queue for item in items],
        [item.key for item in items],
        [sent.identifier if rules.deduplicates else None for sent in messages],
        [item.level for item in items],
        [item.size for item in items],
        [sent.accepted_at for sent in messages],
        [item.expires for item in items],
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_is_what_the_core_keeps_after_each_batch_and_restart(seed: int) -> None:
    chance = random.Random(seed)
    operator = composition(chance)
    rules = operator.rules
    messages = traffic(seed + 1000, 100)
    print("seed", seed, rules.fingerprint)
    state = MemoryState()
    left: set[int] = set()
    start = 0
    while start < len(messages):
        end = start + chance.choice((1, 5, 40))
        batch = messages[start:end]
        chance.shuffle(batch)  # rows of a batch come in any order
        held, head = open_shard(rules, 4, state)
        changes = held.take(rows_of(rules, batch), 0)
        for item in changes.left:
            item.row = -1 if item.segment >= 0 else item.row
        before = {item.sequence for item, _, _ in changes.removed if item.segment >= 0}
        assert before <= left
        left -= before
        left |= {item.sequence for item in changes.left if item.live}
        close_shard(held, head, changes, state)
        start = end
        if chance.random() < 0.5:
            shard.REMEMBERED.forget()  # as another worker would find it
        expected = core_survivors(operator, messages[:start])
        assert sorted(left) == sorted(number for numbers in expected.values() for number in numbers)


def test_a_batch_costs_a_handful_of_state_calls() -> None:
    rules = keep_last(1, "key").rules
    state = MemoryState()
    for start in range(0, 30_000, 10_000):
        held, head = open_shard(rules, 1, state)
        state.calls = 0
        sequences = list(range(start, start + 10_000))
        keys = [f"k{sequence % 10_000}" for sequence in sequences]
        changes = held.take(Rows(sequences, ["q"] * 10_000, keys), 0)
        close_shard(held, head, changes, state)
        assert state.calls <= 6


def test_other_shards_or_rules_than_the_checkpoints_are_refused() -> None:
    state = MemoryState()
    held, head = open_shard(ring(5).rules, 8, state)
    close_shard(held, head, Changes(), state)
    with pytest.raises(OperatorError, match=r"shards=4, but the checkpoint was made with shards=8.*; give shards=8"):
        open_shard(ring(5).rules, 4, state)
    with pytest.raises(OperatorError, match=r"the rules are \(ring_size=6\), but .* \(ring_size=5\); give the same"):
        open_shard(ring(6).rules, 8, state)
    with pytest.raises(OperatorError, match=r"columns \(key string\), but .* \(\); give the same, or start a new"):
        open_shard(ring(5).rules, 8, state, "key string")
    state.head = Head("ring_size=5", 8, format=9).text()
    with pytest.raises(OperatorError, match="format 9, this version reads 1"):
        open_shard(ring(5).rules, 8, state)


def test_a_worker_that_remembers_another_attempt_reads_the_state() -> None:
    """A batch whose task failed after it was worked out, and was worked out elsewhere: only the state is true."""
    rules = ring(5).rules
    state = MemoryState()
    held, head = open_shard(rules, 1, state)
    close_shard(held, head, held.take(Rows([1], ["q"]), 0), state)
    committed, text = {kind: dict(blobs) for kind, blobs in state.blobs.items()}, state.head
    held, head = open_shard(rules, 1, state)
    close_shard(held, head, held.take(Rows([2], ["q"]), 0), state)
    state.blobs, state.head = committed, text  # what Spark does when the task fails
    held, _ = open_shard(rules, 1, state)
    assert held.log.live == 1


def test_a_worker_remembers_a_bounded_number_of_shards() -> None:
    rules = ring(5).rules
    for _ in range(SHARDS_CACHED + 1):
        state = MemoryState()
        held, head = open_shard(rules, 1, state)
        close_shard(held, head, held.take(Rows([1], ["q"]), 0), state)
    assert len(shard.REMEMBERED) == SHARDS_CACHED


def test_a_worker_remembers_a_shard_once_whoever_else_works_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = ring(5).rules
    state = MemoryState()
    one: RememberedShards[Shard] = RememberedShards(SHARDS_CACHED)
    for number in range(3):
        monkeypatch.setattr(shard, "REMEMBERED", one)
        held, head = open_shard(rules, 1, state)
        close_shard(held, head, held.take(Rows([number], ["q"]), 0), state)
        monkeypatch.setattr(shard, "REMEMBERED", RememberedShards(SHARDS_CACHED))  # another worker has the next batch
        held, head = open_shard(rules, 1, state)
        close_shard(held, head, held.take(Rows([10 + number], ["q"]), 0), state)
    monkeypatch.setattr(shard, "REMEMBERED", one)
    held, head = open_shard(rules, 1, state)
    assert held.log.live == 5
    close_shard(held, head, Changes(), state)
    assert len(one) == 1


def test_queues_of_which_nothing_is_remembered_cost_nothing() -> None:
    rules = expire().rules
    state = MemoryState()
    for number in range(3):
        held, head = open_shard(rules, 1, state)
        rows = Rows([number, 10 + number], [f"q{number}", f"q{number}"], accepted=[5, 20], expires=[10, 0])
        close_shard(held, head, held.take(rows, 0), state)
    assert not held._books


def test_the_clock_of_the_wall_removes_without_an_arrival() -> None:
    held = Shard(expire(clock="wall").rules)
    held.take(Rows([1, 2, 3], ["q", "q", "r"], expires=[50, 0, 40]), 10)
    assert held.next_expiry == 40
    changes = Changes()
    held.expire(50, changes)
    assert [(item.sequence, reason, by) for item, reason, by in changes.removed] == [
        (1, "expired", 0),
        (3, "expired", 0),
    ]
    assert held.next_expiry == 0


def test_a_late_row_is_judged_by_its_sequence() -> None:
    held = Shard(keep_last(2, "key").rules)
    held.take(Rows([5, 7], ["q", "q"], ["k", "k"]), 0)
    late = held.take(Rows([3], ["q"], ["k"]), 0)
    assert [(item.sequence, reason, by) for item, reason, by in late.removed] == [(3, "replaced-key", 7)]
    between = held.take(Rows([6], ["q"], ["k"]), 0)
    assert [(item.sequence, reason, by) for item, reason, by in between.removed] == [(5, "replaced-key", 6)]


def test_a_sequence_that_is_there_twice_is_refused() -> None:
    held = Shard(ring(5).rules)
    held.take(Rows([5], ["q"]), 0)
    with pytest.raises(OperatorError, match="the sequence 5 is there twice in queue 'q'"):
        held.take(Rows([5], ["q"]), 0)


def test_a_sequence_of_a_key_is_known_after_its_message_has_gone() -> None:
    held = Shard(combine(keep_last(2, "key"), ring(1)).rules)
    held.take(Rows([5, 6], ["q", "q"], ["k", "k"]), 0)  # 5 had to go, and is one of the last two
    with pytest.raises(OperatorError, match="the sequence 5 is there twice in queue 'q'"):
        held.take(Rows([5], ["q"], ["k"]), 0)


def test_sequences_below_zero_rank_keys_as_well() -> None:
    held = Shard(combine(keep_last(2, "key"), ring(3, evict="least-recent-key")).rules)
    changes = held.take(Rows([-9, -8, -7, -6], ["q"] * 4, ["a", "b", "a", "a"]), 0)
    assert [(item.sequence, reason) for item, reason, _ in changes.removed] == [(-9, "replaced-key")]
    more = held.take(Rows([-5], ["q"], ["c"]), 0)
    assert [(item.sequence, reason) for item, reason, _ in more.removed] == [(-8, "replaced-ring")]
