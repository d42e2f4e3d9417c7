"""What a batch writes and a restart reads; the rules that lead there are tested with shards."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.spark.engine import journal
from annulet.spark.engine.image import Image, unpack_rows
from annulet.spark.engine.journal import (
    IMAGE,
    IMAGE_MINIMUM,
    JOURNAL,
    ROW_BYTES,
    Given,
    Head,
    Journal,
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
    assert [decode_commands(blob) for blob in state.blobs[JOURNAL].values()] == [[*commands("b", 1), *commands("c", 1)]]
    for sequence in range(2, 200):
        kept.append(commands("c", sequence), head, state)
    assert len(state.blobs[JOURNAL]) < 40
    assert [given.sequence for given in Journal().load(state)["c"].commands] == list(range(1, 200))
