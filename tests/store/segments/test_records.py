from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.message import Message, Origin
from annulet.store.files.errors import StoreError
from annulet.store.segments import records
from annulet.store.segments.records import Commit, decode_commit, decode_seal, encode_commit, encode_seal, seal_size
from annulet.store.segments.scanning import read_record
from tests.store.log.test_log_tools import View, message

TEXT = st.text(max_size=30)
NUMBER = st.integers(0, 2**64 - 1)
HIGHEST = 2**63 - 1
COUNTED = st.integers(0, HIGHEST)
"""Ids and sequences, which are counted up from 1: a message record is written from signed numbers."""


@given(
    header=st.binary(max_size=50), body=st.binary(max_size=700), names=st.tuples(TEXT, TEXT, TEXT),
    targets=st.lists(st.tuples(COUNTED, COUNTED), min_size=1, max_size=5),
    priority=st.integers(0, 255), ordinal=st.integers(0, 2**24 - 2), transaction=COUNTED,
)  # fmt: skip
def test_a_message_record_gives_back_what_was_put_in(
    header: bytes, body: bytes, names: tuple[str, str, str], targets: list[tuple[int, int]],
    priority: int, ordinal: int, transaction: int,
) -> None:  # fmt: skip
    sent = Message(header, body, Origin(*names, View()), priority=priority, accepted_at=5, expires_at=6)
    origin = records.encode_origin(sent.origin)
    data = records.encode_message(sent, origin, targets, ordinal, 3, transaction, 77) + body
    assert len(data) == records.message_size(sent, len(targets))
    record = read_record(data, 0, 77)
    assert record is not None
    assert (record.ordinal, record.batch, record.transaction, record.priority) == (ordinal, 3, transaction, priority)
    assert record.end == len(data)
    assert records.decode_targets(data, record) == targets
    content = records.decode_message(data, record)
    assert (content.header, content.body, content.accepted_at, content.expires_at) == (header, body, 5, 6)
    assert records.decode_origin(content.origin) == (*names, "amqp-0-9-1")
    assert read_record(data, 0, 78) is None


@pytest.mark.parametrize(("queue_id", "sequence", "transaction"), [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_numbers_beyond_those_that_are_counted_are_refused(queue_id: int, sequence: int, transaction: int) -> None:
    target = HIGHEST + queue_id, HIGHEST + sequence
    with pytest.raises(ValueError, match="too large"):
        records.encode_message(message(b"abc"), b"\0" * 16, [target], 4, 3, HIGHEST + transaction, 77)


def test_the_highest_numbers_that_are_counted_come_back() -> None:
    data = records.encode_message(message(b"abc"), b"\0" * 16, [(HIGHEST, HIGHEST)], 4, 3, HIGHEST, 77) + b"abc"
    record = read_record(data, 0, 77)
    assert record is not None
    assert (records.decode_targets(data, record), record.transaction) == ([(HIGHEST, HIGHEST)], HIGHEST)


def test_a_resealed_message_has_no_transaction() -> None:
    data = records.encode_message(message(b"abc"), b"\0" * 16, [(1, 2)], 4, 3, 9, 77) + b"abc"
    copy = read_record(records.reseal_message(data, 77), 0, 77)
    assert copy is not None
    assert (copy.transaction, copy.ordinal, copy.end) == (0, 4, len(data))


@given(
    st.lists(
        st.builds(
            Commit,
            NUMBER,
            st.integers(0, 2**32 - 1),
            st.none() | st.tuples(st.text(min_size=1), st.integers(-(2**63), 2**63 - 1)),
        )
    )
)
def test_commits_and_seals_come_back(commits: list[Commit]) -> None:
    encoded = [encode_commit(commit) for commit in commits]
    assert [decode_commit(each) for each in encoded] == commits
    seal = encode_seal(12, encoded)
    assert decode_seal(seal) == (12, commits)
    assert seal_size(encoded) == records.CONTROL_OVERHEAD + len(seal)


@given(st.lists(NUMBER))
def test_numbers_are_little_endian(numbers: list[int]) -> None:
    packed = records.pack_numbers(numbers)
    assert packed == b"".join(number.to_bytes(8, "little") for number in numbers)
    assert list(records.unpack_numbers(packed)) == numbers


@pytest.mark.parametrize("machine", ["little", "big"])
def test_octets_are_swapped_on_a_big_endian_machine(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, expected = array("Q", [1, 1 << 63]), array("Q", [1, 1 << 63])
    if machine == "big":
        expected.byteswap()
    monkeypatch.setattr("sys.byteorder", machine)
    assert records.swapped_where_big(given) is given
    assert given == expected
    assert list(records.unpack_numbers(records.pack_numbers([1, 2, 1 << 63]))) == [1, 2, 1 << 63]


def test_a_segment_header_survives_damage_to_one_copy() -> None:
    header = bytearray(records.segment_header(4, 99))
    assert records.segment_identity(bytes(header), 4) == (99, 2)
    assert records.segment_identity(bytes(header), 5) == (0, 0)
    header[3] ^= 1
    assert records.segment_identity(bytes(header), 4) == (99, 1)
    header[40] ^= 1
    assert records.segment_identity(bytes(header), 4) == (0, 0)
    assert records.segment_identity(b"short", 4) == (0, 0)


def test_limits_of_a_record() -> None:
    targets = [(1, 1)] * records.TARGETS_MAX
    records.check_message(message(b""), len(targets), records.RECORD_BYTES_MAX)
    with pytest.raises(StoreError, match="65536 queues"):
        records.check_message(message(b""), len(targets) + 1, 10)
    with pytest.raises(StoreError, match="smaller body"):
        records.check_message(message(b""), len(targets), records.RECORD_BYTES_MAX + 1)


def test_queue_ids_by_ordinal_come_back_in_their_order():
    shared = {7: (3, 1), 2: (), 9: (1 << 40,)}
    assert records.unpack_shared(records.pack_shared(shared)) == shared
    assert list(records.unpack_shared(records.pack_shared(shared))) == [7, 2, 9]
    assert records.unpack_shared(records.pack_shared({})) == {}


def test_an_origin_is_encoded_once() -> None:
    origin = Origin("e", "k", "p", View())
    stored = records.stored_origin(origin)
    assert stored == records.encode_origin(origin)
    assert records.stored_origin(origin) is stored
