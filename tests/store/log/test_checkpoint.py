from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.store.log.checkpoint import BALLAST_FILE, Checkpoint, CheckpointTask, SegmentPicture, decode, encode
from annulet.store.segments.records import pack_numbers
from tests.store.log.test_log_tools import DIRECTORY, flush, live, message, opened, upkeep
from tests.store.simulated_files import SimulatedFiles

NUMBER = st.integers(0, 2**64 - 1)


def example() -> Checkpoint:
    return Checkpoint(
        3, 4, 500, 77, 9,
        closed=True,
        pictures=[SegmentPicture(4, 11, b"\xff\x01", {2: (8, 9), 5: (7,)})],
        transactions={8: pack_numbers([1, 2])}, forgotten=[5], sequences={1: 10}, outcomes={"query": 2},
    )  # fmt: skip


def test_a_checkpoint_comes_back_as_it_was() -> None:
    found = decode(encode(example()))
    assert found == example()


@given(
    live=st.binary(max_size=300), shared=st.dictionaries(NUMBER, st.lists(NUMBER, min_size=1).map(tuple)),
    sequences=st.dictionaries(NUMBER, NUMBER), forgotten=st.lists(NUMBER),
    outcomes=st.dictionaries(st.text(), st.integers()), transactions=st.dictionaries(NUMBER, st.binary(max_size=40)),
)  # fmt: skip
def test_any_content_comes_back(
    live: bytes, shared: dict[int, tuple[int, ...]], sequences: dict[int, int], forgotten: list[int],
    outcomes: dict[str, int], transactions: dict[int, bytes],
) -> None:  # fmt: skip
    given_one = Checkpoint(
        1, pictures=[SegmentPicture(1, 8 * len(live), live, shared)], sequences=sequences, forgotten=forgotten,
        outcomes=outcomes, transactions=transactions,
    )  # fmt: skip
    assert decode(encode(given_one)) == given_one


def test_any_flipped_bit_and_any_cut_is_noticed() -> None:
    data = encode(example())
    for place in range(len(data)):
        for bit in (1, 128):
            damaged = bytearray(data)
            damaged[place] ^= bit
            assert decode(bytes(damaged)) is None, f"byte {place}"
        assert decode(data[:place]) is None


def test_a_full_disk_costs_the_ballast_not_the_checkpoint() -> None:
    files = SimulatedFiles()
    log = opened(files)
    upkeep(log)
    log.append(message(b"a"), [(1, 1)])
    flush(log)
    assert BALLAST_FILE in files.names_now
    files.capacity = files.used
    assert upkeep(log, checkpoint=True)[0] == "CheckpointTask"
    assert log.statistics().checkpoints == 1
    assert BALLAST_FILE not in files.names_now
    assert set(live(opened(files.copied()))) == {b"a"}


@pytest.mark.parametrize("place", range(1, 6))
def test_a_failing_checkpoint_leaves_the_one_before(place: int) -> None:
    files = SimulatedFiles()
    task = CheckpointTask(Checkpoint(1), DIRECTORY, files, 0)
    task.run()
    assert task.error is None
    failing = CheckpointTask(Checkpoint(2), DIRECTORY, files, 1)
    files.fail_at, files.fail_with = files.operations + place, errno.EIO
    failing.run()
    assert failing.error is not None
    assert "checkpoint-000000000001" in files.names_now
    assert not [name for name in files.names_now if name.endswith(".unfinished")]
