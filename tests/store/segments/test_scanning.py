from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.store.segments.records import TYPE_SETTLE, encode_control
from annulet.store.segments.scanning import Gap, read_record, scan

SEED = 5


def parts(count: int) -> list[bytes]:
    return [encode_control(TYPE_SETTLE, bytes([number]) * 16, number + 1, 0, SEED) for number in range(count)]


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_sound_records_are_found_between_any_rubbish(rubbish: list[bytes]) -> None:
    records = parts(len(rubbish))
    data = b"".join(bad + good for bad, good in zip(rubbish, records, strict=True)) + bytes(50)
    found = list(scan(data, SEED, 0))
    assert [each.batch for each in found if not isinstance(each, Gap)] == [n + 1 for n in range(len(rubbish))]
    assert sum(each.end - each.offset for each in found if isinstance(each, Gap)) == sum(map(len, rubbish))


def test_zeros_to_the_end_are_no_gap_and_a_rest_is_one() -> None:
    record = parts(1)[0]
    assert [type(each) for each in scan(record + bytes(99), SEED, 0)] == [type(read_record(record, 0, SEED))]
    assert list(scan(record + b"\0x\0\0", SEED, 0))[1] == Gap(len(record), len(record) + 2, 0)
    assert list(scan(b"", SEED, 0)) == []


def test_a_record_cut_anywhere_is_none() -> None:
    record = parts(1)[0]
    assert all(read_record(record[:length], 0, SEED) is None for length in range(len(record)))
