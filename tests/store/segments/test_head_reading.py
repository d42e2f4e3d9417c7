"""With a file of heads, torn or not, the search process says of each record what it says by the segment alone."""

from __future__ import annotations

import random
from array import array

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.message import Message
from annulet.store.segments.head_blocks import BLOCK_BYTES_MAX, BLOCK_HEADER, block_bounds, encode_block
from annulet.store.segments.head_reading import HeadBlocks
from annulet.store.segments.records import ORDINAL_BITS
from tests.store.head_tools import QUEUE, RED, Looked, coloured, opened, write_heads
from tests.store.log.test_log_tools import ORIGIN, flush, space_of
from tests.store.simulated_files import SimulatedFiles

COLOURS = [b"red", b"blue", b"darkred", b"", b"blue"]


def looked(count: int = 12, window: int = 3) -> Looked:
    files = SimulatedFiles()
    log = opened(files)
    coloured(log, [COLOURS[number % 5] for number in range(count)], window=window)
    return Looked(files, log.segments[1], RED)


def block_starts(heads: bytes) -> list[int]:
    starts, at = [], 0
    while (bounds := block_bounds(heads[at : at + BLOCK_HEADER.size])) is not None:
        starts.append(at)
        at += BLOCK_HEADER.size + bounds[0]
    assert at == len(heads)
    return starts


def test_nothing_of_the_segment_is_read_where_heads_tell() -> None:
    some = looked()
    assert some.beside() == some.alone() == [0, 2, 5, 7, 10]
    assert some.read == 0


def test_a_file_that_is_cut_off_anywhere_says_nothing_wrong() -> None:
    some = looked(6)
    whole, expected = some.heads, some.alone()
    for length in range(len(whole)):
        some.heads = whole[:length]
        some.blocks = HeadBlocks()
        assert some.beside() == expected
    assert some.read


def test_a_changed_byte_anywhere_says_nothing_wrong() -> None:
    some = looked(6)
    whole, expected = some.heads, some.alone()
    for place in range(len(whole)):
        for bits in (1, 0x80, 0xFF):
            some.heads = whole[:place] + bytes([whole[place] ^ bits]) + whole[place + 1 :]
            some.blocks = HeadBlocks()
            assert some.beside() == expected


def test_heads_of_other_records_at_the_same_places_are_not_believed() -> None:
    """A file that stayed behind when its segment was compacted: sound, of the same segment, of other ordinals."""
    some = looked(9)
    expected = some.alone()
    some.segment.offsets = array("I", [0, 0, 0, *some.segment.offsets[:-3]])
    moved = [0, 1, 2, *[place + 3 for place in expected if place < 6]]
    assert some.beside() == some.alone() == moved
    assert some.read, "they were looked for in the segment"


def test_stretches_follow_each_other_and_may_begin_again() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for _ in range(4):  # a block each
        coloured(log, COLOURS[:3])
    some = Looked(files, log.segments[1], RED)
    assert len(block_starts(some.heads)) == 4
    expected = some.alone()
    for first, last in ((0, 4), (5, 7), (8, 11), (3, 9), (0, 11), (11, 11), (2, 2)):
        assert [place + first for place in some.beside(first, last)] == [
            place for place in expected if first <= place <= last
        ]
    assert some.read == 0


def test_what_stands_before_between_and_behind_blocks_is_read_in_the_segment() -> None:
    files = SimulatedFiles()
    log = opened(files)
    for _ in range(3):
        coloured(log, COLOURS[:3])
    some = Looked(files, log.segments[1], RED)
    first, second, third = block_starts(some.heads)
    whole, expected = some.heads, some.alone()
    for heads in (whole[second:], whole[:second] + whole[third:], whole[first:third], whole[third:], b""):
        some.heads, some.blocks, some.read = heads, HeadBlocks(), 0
        assert some.beside() == expected
        assert some.read
    some.heads, some.blocks, some.read = whole[third:], HeadBlocks(), 0
    assert some.beside(0, 1) == [0], "all blocks are behind it"


def test_a_block_that_is_too_long_is_not_read() -> None:
    asked: list[int] = []
    block = b"".join(encode_block([(64, 1 << 30, bytes(BLOCK_BYTES_MAX))], 7))

    def read(length: int, at: int) -> bytes:
        asked.append(length)
        return block[at : at + length]

    assert HeadBlocks().doubtful(read, 1 << ORDINAL_BITS, 7, RED, [64, 100], [0, 1]) == ([], [0, 1])
    assert max(asked) == BLOCK_HEADER.size


def test_what_the_disk_refuses_is_missing() -> None:
    def read(length: int, at: int) -> bytes:
        raise OSError(5, f"{length, at}")

    assert HeadBlocks().doubtful(read, 1 << ORDINAL_BITS, 7, RED, [64, 100], [0, 1]) == ([], [0, 1])


@given(
    st.lists(st.tuples(st.sampled_from(COLOURS), st.sampled_from([0, 100, 700, 1000, 3000])), min_size=1, max_size=40),
    st.integers(1, 9),
    st.integers(0, 1 << 30),
    st.booleans(),
    st.sampled_from([RED, [[b"bl", b"ue"], [b"dark"]], [[b""]], [[]], []]),
)
def test_it_says_what_the_segment_says(
    messages: list[tuple[bytes, int]], window: int, chance: int, damaged: bool, needles: list[list[bytes]]
) -> None:
    """Records of several queues, cancelled ones, settlements between windows, heads left out or cut off."""
    moments = random.Random(chance)
    files = SimulatedFiles()
    log = opened(files)
    records = []
    for number, (colour, size) in enumerate(messages, 1):
        targets = [(QUEUE, number), (QUEUE + 1, number)] if moments.random() < 0.2 else [(QUEUE, number)]
        records.append(log.append(Message(colour, bytes(size), ORIGIN, durable=True), targets))
        if moments.random() < 0.2:
            log.settle(moments.choice(records), QUEUE)
        if number % window == 0:
            flush(log)
            if moments.random() < 0.1:
                space_of(log).heads.forget((records[-1] >> ORDINAL_BITS,))
            if moments.random() < 0.5:
                write_heads(log)
    flush(log)
    write_heads(log)
    for segment in log.segments.values():
        if not segment.offsets or f"{segment.number:012d}.heads" not in files.names_now:
            continue
        some = Looked(files, segment, needles)
        if damaged:
            place = moments.randrange(len(some.heads))
            some.heads = some.heads[:place] + moments.randbytes(moments.choice([0, 1, 20])) + some.heads[place + 20 :]
        for _ in range(3):
            first = moments.randrange(len(segment.offsets))
            last = moments.randrange(first, len(segment.offsets))
            assert some.beside(first, last) == some.alone(first, last)
    log.close()
