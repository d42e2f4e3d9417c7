"""State in other shards goes on as if nothing had happened; in another version, as after a restart of the broker."""

from __future__ import annotations

from zlib import crc32

import pytest

from annulet.spark.engine import journal, shard
from annulet.spark.engine.effects import DELIVERY, Effect
from annulet.spark.engine.errors import EngineStateError
from annulet.spark.engine.journal import IMAGE, JOURNAL, Head
from annulet.spark.engine.portable import FrozenState, pieces_of, put_pieces
from tests.core.model_suite.compositions import compositions
from tests.spark.engine.doubles import MemoryState
from tests.spark.engine.histories import given, history
from tests.spark.engine.test_shard import batch, uncut


def frozen(state: MemoryState) -> FrozenState:
    return FrozenState(
        str(state.head), [(kind, number, blob) for kind in state.blobs for number, blob in state.blobs[kind].items()]
    )


def moved(state: MemoryState, shards: int, *, portable: bool = False) -> list[MemoryState]:
    """The state of one shard in others, in two calls each, as Spark may hand it over."""
    states = [MemoryState() for _ in range(shards)]
    pieces = list(pieces_of(frozen(state), portable=portable))
    for place, target in enumerate(states):
        own = [piece for piece in pieces if piece.queue is None or crc32(piece.queue.encode()) % shards == place]
        put_pieces(own[:2], shards, target)
        put_pieces(own[2:], shards, target)
    return states


@pytest.mark.parametrize("seed", range(2))
def test_queues_go_on_in_other_shards(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "IMAGE_MINIMUM", 4_000)
    shard.REMEMBERED.forget()
    print("seed", seed)
    chosen = compositions()
    commands = history(seed, {f"q{place}": chosen[(seed * 5 + place) * 31 % len(chosen)] for place in range(5)}, 400)
    state = MemoryState()
    effects: list[Effect] = []
    for start in range(0, 200, 50):
        effects += batch(state, commands[start : start + 50], shards=1)
    assert state.blobs[IMAGE]
    states = moved(state, 3)
    for start in range(200, 400, 50):
        for place, target in enumerate(states):
            rows = [one for one in commands[start : start + 50] if crc32(one[0].encode()) % 3 == place]
            effects += batch(target, rows, shards=3)
    by_queue: dict[str, list[Effect]] = {}
    for effect in effects:
        by_queue.setdefault(str(effect.queue), []).append(effect)
    assert by_queue == uncut(commands)


def test_another_version_gets_what_a_restart_of_the_broker_keeps() -> None:
    state = MemoryState()
    batch(state, [
        given("q", 1, command="configure", arguments={"x-priorities": 10}, at=1_000),
        given("q", 2, b"low", command="publish", message_id="low", priority=1, properties={"a": 1.5}, at=1_000),
        given("q", 3, b"high", command="publish", message_id="high", priority=9, at=1_000),
        given("q", 4, b"late", command="publish", message_id="late", deliver_at=9_000, at=1_000),
        given("q", 5, b"out", command="publish", message_id="out", priority=9, at=1_000),
        given("q", 6, command="get", session="s", credit=1),
        given("gone", 7, command="configure"),
        given("gone", 8, command="delete"),
        given("q", 9, command="pause"),
    ])  # fmt: skip
    (target,) = moved(state, 1, portable=True)
    assert not target.blobs[IMAGE]
    shard.REMEMBERED.forget()
    effects = batch(target, [
        given("q", 9, b"again", command="publish"),
        given("gone", 8, command="configure"),
        given("q", 10, command="resume", at=9_500),
        given("q", 11, command="get", session="t", credit=9),
    ], shards=1)  # fmt: skip
    assert [(one.sequence, one.state) for one in effects if one.state] == [
        (8, "repeated"), (9, "repeated"), (10, "done"), (11, "done"),
    ]  # fmt: skip
    assert [
        (one.message_id, one.message, one.redelivered, one.priority, one.properties)
        for one in effects
        if one.effect == DELIVERY
    ] == [
        ("high", 2, True, 9, None),
        ("out", 4, False, 9, None),
        ("late", 3, False, None, None),
        ("low", 1, False, 1, '{"a":1.5}'),
    ]


def test_time_goes_to_all_shards_and_other_versions_are_refused() -> None:
    state = MemoryState()
    batch(state, [given("q", 1, command="configure")])
    batch(state, [(None, 2, '{"command":"advance","sequence":2,"at":9000}', b"")])  # type: ignore[list-item]
    assert [Head.parse(str(one.head)).time for one in moved(state, 3)] == [9_000] * 3
    assert {piece.kind for piece in pieces_of(frozen(state), portable=False)} == {"time", JOURNAL}
    head = Head.parse(str(state.head))
    head.version = "0.0.1"
    state.head = head.text()
    with pytest.raises(EngineStateError, match=r"state of version 0\.0\.1"):
        list(pieces_of(frozen(state), portable=True))
