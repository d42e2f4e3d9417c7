"""A shard over many batches and restarts: however a history is cut, its effects are the same."""

from __future__ import annotations

import random

import pytest

from annulet.spark.engine import journal, shard
from annulet.spark.engine.commands import parse_command
from annulet.spark.engine.effects import Effect
from annulet.spark.engine.errors import EngineStateError
from annulet.spark.engine.journal import BATCHES_FOLLOWED, IMAGE, JOURNAL, Head
from annulet.spark.engine.replica import Replica
from annulet.spark.engine.shard import Shard, close_shard, open_shard
from annulet.spark.remembered_shards import RememberedShards
from tests.core.model_suite.compositions import compositions
from tests.spark.engine.doubles import MemoryState
from tests.spark.engine.histories import Given, given, history


def batch(state: MemoryState, rows: list[Given], shards: int = 4) -> list[Effect]:
    held, head = open_shard(shards, state)
    effects = held.take(rows)
    close_shard(held, head, state)
    return effects


def uncut(commands: list[Given]) -> dict[str, list[Effect]]:
    """The effects of each queue's commands, one after the other, without batches or state."""
    effects: dict[str, list[Effect]] = {}
    replicas: dict[str, Replica] = {}
    for queue, _, document, body in commands:
        replica = replicas.setdefault(queue, Replica(queue))
        effects.setdefault(queue, []).extend(replica.apply(parse_command(document), body))
    return effects


@pytest.mark.parametrize("seed", range(4))
def test_however_a_history_is_cut_its_effects_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "IMAGE_MINIMUM", 2_000)  # so that small queues get images, of many parts
    monkeypatch.setattr(journal, "IMAGE_PART_BYTES", 1_500)
    chance = random.Random(seed)
    print("seed", seed)
    commands = history(seed, {f"q{place}": chance.choice(compositions()) for place in range(3)}, 300)
    state = MemoryState()
    effects: dict[str, list[Effect]] = {}
    start = 0
    while start < len(commands):
        end = start + chance.choice((1, 3, 10, 40))
        rows = commands[start:end]
        chance.shuffle(rows)  # rows of a batch come in any order
        for effect in batch(state, rows):
            effects.setdefault(str(effect.queue), []).append(effect)
        if chance.random() < 0.5:
            shard.REMEMBERED.forget()  # as another worker would find it
        start = end
    assert effects == uncut(commands)
    assert state.blobs[IMAGE]


class Workers:
    """What each of several processes remembers of shards."""

    def __init__(self, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.remembered: list[RememberedShards[Shard]] = [RememberedShards(shard.SHARDS_CACHED) for _ in range(count)]
        self._monkeypatch = monkeypatch

    def batch(self, number: int, state: MemoryState, rows: list[Given]) -> list[Effect]:
        self._monkeypatch.setattr(shard, "REMEMBERED", self.remembered[number])
        return batch(state, rows)


@pytest.mark.parametrize("seed", range(2))
def test_workers_that_take_turns_follow_each_other_without_reading_the_shard_again(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "IMAGE_MINIMUM", 2_000)
    chance = random.Random(seed)
    commands = history(seed, {f"q{place}": chance.choice(compositions()) for place in range(3)}, 200)
    expected = uncut(commands)
    workers, state = Workers(3, monkeypatch), MemoryState()
    effects: dict[str, list[Effect]] = {}
    while commands:
        for number in chance.sample(range(3), 3):
            rows, commands = commands[:5], commands[5:]
            for effect in workers.batch(number, state, rows):
                effects.setdefault(str(effect.queue), []).append(effect)
    assert effects == expected
    assert state.loads == 2  # of the second and the third worker, when they met the shard


def test_a_command_that_comes_again_is_not_carried_out_again() -> None:
    state = MemoryState()
    commands = [given("q", 1, command="configure"), given("q", 2, b"x", command="publish")]
    assert [one.state for one in batch(state, commands)] == ["done", "done"]
    shard.REMEMBERED.forget()
    again = batch(state, [*commands, given("q", 3, command="purge")])
    assert [(one.sequence, one.state, one.messages) for one in again] == [
        (1, "repeated", None), (2, "repeated", None), (3, None, None), (3, "done", 1),
    ]  # fmt: skip
    assert again[0].reason == (
        "field 'sequence' is 1, not above 2, the latest of queue 'q': it was carried out before, or came too late; "
        "a new command needs a new sequence"
    )


def test_what_is_no_command_is_an_outcome_and_the_next_one_is_carried_out() -> None:
    rows: list[tuple[str | None, int | None, str, bytes | None]] = [
        ("q", None, '{"command":"purge","queue":"q"}', None),
        ("q", 1, '{"command":"configure","queue":"q","sequence":1}', None),
        ("q", 2, '{"command":"publish","queue":"q","sequence":2,"priority":"high"}', b""),
        ("q", 3, "{", b""),
        (None, 4, '{"command":"purge","sequence":4}', b""),
        ("q", 5, '{"command":"purge","queue":"q","sequence":5}', b""),
    ]
    effects = Shard().take(rows)
    assert [(one.sequence, one.state) for one in effects] == [
        (0, "refused"), (1, "done"), (2, "refused"), (3, "refused"), (4, "refused"), (5, "done"),
    ]  # fmt: skip
    assert effects[2].reason == (
        "field 'priority' is 'high': Expected `int`, got `str`; correct it and send the command with a new sequence"
    )


def test_time_that_goes_on_for_all_queues_is_noted_where_something_falls_due() -> None:
    state = MemoryState()
    commands = [
        given("a", 1, command="configure"),
        given("b", 2, command="configure"),
        given("a", 3, b"x", command="publish", at=1_000, expires_at=5_000),
    ]
    batch(state, commands)
    shard.REMEMBERED.forget()
    gone = batch(state, [(None, 4, '{"command":"advance","sequence":4,"at":9000}', b"")])  # type: ignore[list-item]
    assert [(one.effect, one.queue, one.sequence, one.at, one.reason) for one in gone] == [
        ("loss", "a", 4, 5_000, "expired")
    ]
    shard.REMEMBERED.forget()
    late = batch(state, [given("b", 5, b"y", command="publish", at=2_000)])
    assert [one.at for one in late] == [9_000]  # it was told that it is 9000 already


def test_commands_of_one_sequence_have_the_same_effects_in_whatever_order_a_repeated_batch_brings_them() -> None:
    commands: list[tuple[str | None, int, str, bytes]] = [
        given("q", 1, command="configure"),
        given("q", 2, b"x", command="publish", expires_at=100, at=1),
        given("q", 3, b"y", command="publish", message_id="a"),
        given("q", 3, b"z", command="publish", message_id="a"),
        (None, 3, '{"command":"advance","sequence":3,"at":9000}', b""),
    ]
    effects = Shard().take(commands)
    assert Shard().take(reversed(commands)) == effects
    outcomes = [(one.sequence, one.state) for one in effects if one.effect == "outcome"]
    assert outcomes == [(1, "done"), (2, "done"), (3, "done"), (3, "repeated")]


def test_a_batch_costs_a_handful_of_state_calls_and_the_bytes_that_came() -> None:
    state = MemoryState()
    queues = [f"q{place}" for place in range(50)]
    sequence = 0
    came = 0
    for number in range(40):
        rows = []
        for queue in queues:
            sequence += 1
            kind = {"command": "configure"} if number == 0 else {"command": "publish"}
            rows.append(given(queue, sequence, random.Random(sequence).randbytes(200) if number else b"", **kind))
        came += sum(len(document) + len(body) for _, _, document, body in rows)
        batch(state, rows)
    assert state.calls <= 8 * 40  # three, images now and then, and what tidying up costs
    assert state.bytes_written < 4 * came
    assert len(state.blobs[JOURNAL]) < 20


def test_a_deep_queue_is_not_written_again_for_a_small_batch() -> None:
    state = MemoryState()
    rows = [given("q", 1, command="configure")]
    rows += [given("q", 2 + place, random.Random(place).randbytes(500), command="publish") for place in range(2_000)]
    batch(state, rows)
    assert state.blobs[IMAGE]
    depth, state.calls = state.bytes_written, 0
    for place in range(40):
        batch(state, [given("q", 3_000 + place, b"x", command="publish")])
    assert state.bytes_written - depth < depth / 20
    assert state.calls <= 6 * 40


def test_state_of_another_number_of_shards_or_version_is_refused() -> None:
    state = MemoryState()
    batch(state, [given("q", 1, command="configure")], shards=8)
    with pytest.raises(EngineStateError, match=r"shards=4, but the checkpoint was made with shards=8.*; give shards=8"):
        open_shard(4, state)
    head = Head.parse(str(state.head))
    head.version = "0.0.1"
    state.head = head.text()
    with pytest.raises(EngineStateError, match=r"state of version 0\.0\.1 .* portable state"):
        open_shard(8, state)


def test_a_worker_remembers_the_shards_used_last() -> None:
    states = [MemoryState() for _ in range(shard.SHARDS_CACHED + 1)]
    for state in states:
        batch(state, [given("q", 1, command="configure")])
    states[0].calls = states[-1].calls = 0
    batch(states[-1], [])
    assert states[-1].calls == 2  # the head, read and written
    batch(states[0], [])
    assert states[0].calls == 4  # and both kinds of blobs


def test_a_worker_that_remembers_too_little_reads_the_shard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, state = Workers(2, monkeypatch), MemoryState()
    sequence = 0
    for between, loads in ((0, 0), (BATCHES_FOLLOWED, 1), (BATCHES_FOLLOWED + 1, 2)):
        for number in (*[1] * between, 0):
            sequence += 1
            workers.batch(number, state, [given("q", sequence, command="configure")])
        assert state.loads == loads
    text = Head.parse(str(state.head))
    assert len(text.steps) == BATCHES_FOLLOWED + 1
    assert text.steps[-1].token == text.token
