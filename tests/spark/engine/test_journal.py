"""What a batch writes and a restart reads; the rules that lead there are tested with shards."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.spark.engine import journal
from annulet.spark.engine.errors import EngineStateError
from annulet.spark.engine.image import Image, unpack_rows
from annulet.spark.engine.journal import (
    IMAGE,
    IMAGE_MINIMUM,
    JOURNAL,
    ROW_BYTES,
    Given,
    Head,
    Journal,
    Step,
    decode_commands,
    decode_image,
    encode_commands,
    encode_image,
)
from tests.spark.engine.doubles import MemoryState


def commands(queue: str, *sequences: int, size: int = 0) -> list[Given]:
    return [Given(queue, sequence, 0, "{}", bytes(size)) for sequence in sequences]


def image(*values: Any) -> Image:
    return Image([["list"]], [(0, list(values))])


def test_blobs_are_read_as_they_were_written() -> None:
    given = [Given("q", 1, 5, '{"a":"é"}', b"\0"), Given("", -3, 0, "", b"")]
    assert decode_commands(encode_commands(given)) == given
    assert decode_image(encode_image("q", -1, 2, [b"a", b""])) == ("q", -1, 2, [b"a", b""])
    assert Head.parse(Head(3, "n", time=7).text()) == Head(3, "n", time=7)


def test_a_queue_is_due_when_its_commands_weigh_more_than_its_image() -> None:
    state, head, kept = MemoryState(), Head(1), Journal()
    exactly = IMAGE_MINIMUM - ROW_BYTES - 2
    assert kept.due(commands("q", 1, size=exactly)) == []
    assert kept.due(commands("q", 2)) == ["q"]
    kept.put_image("q", 2, image("x" * 50_000), head, state)
    assert kept.due(commands("q", 3, size=49_000)) == []
    assert kept.due(commands("q", 4, size=2_000)) == ["q"]


def test_commands_that_an_image_covers_are_not_read_again() -> None:
    state, head, kept = MemoryState(), Head(1), Journal()
    kept.append([*commands("a", 1, 2), *commands("b", 1)], head, state)
    kept.put_image("a", 2, image("a2"), head, state)
    kept.append(commands("a", 3), head, state)
    found = Journal().load(state)
    assert [given.sequence for given in found["a"].commands] == [3]
    assert unpack_rows(found["a"].image).rows == [(0, ["a2"])]
    assert (found["b"].image, [given.sequence for given in found["b"].commands]) == ([], [1])


def test_an_image_replaces_the_former_in_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "IMAGE_PART_BYTES", 10)
    state, head, kept = MemoryState(), Head(1), Journal()
    large = Image([["list"]], [(0, ["x" * 20]) for _ in range(5)])
    kept.put_image("q", 1, large, head, state)
    assert len(state.blobs[IMAGE]) == 5
    assert unpack_rows(Journal().load(state)["q"].image).rows == large.rows
    kept.put_image("q", 2, image(), head, state)
    assert len(state.blobs[IMAGE]) == 1


def test_blobs_that_are_mostly_covered_or_many_become_one() -> None:
    state, head, kept = MemoryState(), Head(1), Journal()
    kept.append([*commands("a", 1, 2, 3), *commands("b", 1)], head, state)
    kept.put_image("a", 3, image(), head, state)
    kept.append(commands("c", 1), head, state)
    assert [decode_commands(blob) for blob in state.blobs[JOURNAL].values()] == [commands("b", 1), commands("c", 1)]
    for sequence in range(2, 200):
        kept.append(commands("c", sequence), head, state)
    assert len(state.blobs[JOURNAL]) < 40
    assert [given.sequence for given in Journal().load(state)["c"].commands] == list(range(1, 200))


def test_the_commands_of_the_latest_batches_stay_whole_and_say_what_their_batch_did() -> None:
    state, head, kept, other = MemoryState(), Head(1), Journal(), Journal()
    for batch in range(30):
        fresh = [*commands("a", batch, size=10), *commands("b", batch)]
        kept.due(fresh)
        if batch % 3 == 2:
            kept.put_image("a", batch, image(batch), head, state)
        blobs = kept.append(fresh, head, state)
        head.steps = [*head.steps, Step(str(batch), 0, blobs)][-3:]
        assert other.follow(blobs, state) == fresh
        read = Journal()
        read.load(state)
        for name in ("_rows", "_written", "_images", "_image_bytes", "_since"):
            assert getattr(other, name) == getattr(kept, name), name
            assert getattr(read, name) == {queue: value for queue, value in getattr(kept, name).items() if value != 0}
    assert len(state.blobs[JOURNAL]) < 20
    assert len(state.blobs[IMAGE]) == 1


@pytest.mark.parametrize("former", [2, 3, 4])  # before rooms of the core, its interfaces, the deep lanes of a queue
def test_state_with_former_names_of_modules_is_refused_with_the_way_out(former: int) -> None:
    head = Head(1)
    head.format = former  # images name modules
    text = rf"\(format {former}\), this is .*\(format 8\); .* take its portable state"
    with pytest.raises(EngineStateError, match=text):
        Head.parse(head.text())
