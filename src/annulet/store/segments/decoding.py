"""Decodes message records directly into messages: the main work of draining a deep queue.

Only the usual form is decoded here: a complete record of one queue that agrees with the queue's row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32
from librt.strings import read_i64_le
from mypy_extensions import i64

from annulet.core.message.message import Message, Origin, logged_message
from annulet.store.segments.records import HEADER, MAGIC, MESSAGE_FIXED, ORDINAL_MASK, PREFIX, TARGET, TYPE_MESSAGE

PREFIX_BYTES: Final = PREFIX.size
HEADER_BYTES: Final = HEADER.size  # of any record, the prefix included
TARGET_BYTES: Final = TARGET.size
UNTARGETED_BYTES: Final = HEADER.size + MESSAGE_FIXED.size  # before the targets
FIXED_BYTES: Final = UNTARGETED_BYTES + TARGET_BYTES  # before the origin, where there is one target

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_MAGIC: Final = int.from_bytes(b"ANR2", "little")
"""Start of a run of heads in a block of a segment's file of heads."""

RUN_HEADER_BYTES: Final = 8
_LOW: Final = 0xFFFFFFFF
_WORD: Final = 8
_checksum: Final = crc32  # a constant is at hand; a name of the module is looked up each time
_SINGLE_MESSAGE: Final = 1 << 16 | TYPE_MESSAGE  # number of targets, priority left out, type


def grow_by_one(numbers: list[int]) -> bool:
    """Return whether each of these numbers is the one before plus 1."""
    expected = numbers[0]
    for number in numbers:
        if number != expected:
            return False
        expected += 1
    return True


def stand_in_order(places: list[int]) -> bool:
    """Return whether there are only places other than 0, none before the one before it."""
    last = 1
    for place in places:
        if place < last:
            return False
        last = place
    return True


def first_doubtful(data: bytes, first: i64, places: list[int], begin: i64, needles: Sequence[list[bytes]]) -> int:
    """Return the index, from ``begin`` on, of the first record at ``places`` whose header may have all octets of one of
    these lists; the number of places if none has.

    ``data`` begins at ``first``. Only headers are examined, neither bodies nor checksums. Anything but one whole
    message also counts as in doubt.
    """
    size: i64 = len(data)
    count: i64 = len(places)
    index: i64 = begin
    former = b""  # header of the record before, which neighbours often share
    while index < count:
        at: i64 = places[index]
        start: i64 = at - first
        if start + FIXED_BYTES > size:
            return index
        magic: i64 = read_i64_le(data, start)  # and the checksum
        length: i64 = read_i64_le(data, start + 8)  # and the ordinal
        kind: i64 = read_i64_le(data, start + 32)  # and priority, number of targets, half of the time
        origin_bytes: i64 = read_i64_le(data, start + 52)  # and those of the header
        targets: i64 = kind >> 16 & 0xFFFF
        header: i64 = start + UNTARGETED_BYTES + targets * TARGET_BYTES + (origin_bytes & _LOW)
        body: i64 = header + (origin_bytes >> 32 & _LOW)
        end: i64 = start + HEADER_BYTES + (length & _LOW)
        if magic & _LOW != MAGIC or kind & 0xFF != TYPE_MESSAGE or not body <= end <= size:
            return index
        found = data[header:body]
        if found != former or index == begin:  # compared in a sixth of the time that two texts are looked for in
            if has_all_of_one(found, needles):
                return index
            former = found
        index += 1
    return index


def doubtful_heads(
    runs: bytes, places: list[int], ordinals: list[int], needles: Sequence[list[bytes]]
) -> tuple[list[int], list[int]]:
    """Return the indexes of records whose header may have all octets of one of these lists, and of those missing in
    these ``runs`` of heads, both ascending.

    The records have ``ordinals`` and are at ``places``, ascending, of the segment. The runs have the part of each
    before the body; data of another ordinal is another record.
    """
    found: list[int] = []
    missing: list[int] = []
    size: i64 = len(runs)
    count: i64 = len(places)
    index: i64 = 0
    start: i64 = 0
    at: i64 = 0  # place in the segment of the record at ``start``
    former = b""
    matches = False  # the former header does
    while index < count and start + RUN_HEADER_BYTES <= size:
        magic: i64 = read_i64_le(runs, start)  # and the checksum; or where a run begins
        if magic & _LOW == RUN_MAGIC:
            at = magic >> 32 & _LOW
            start += RUN_HEADER_BYTES
            continue
        if start + FIXED_BYTES > size:
            break
        length: i64 = read_i64_le(runs, start + 8)  # and the ordinal
        kind: i64 = read_i64_le(runs, start + 32)  # and priority, number of targets, half of the time
        origin_bytes: i64 = read_i64_le(runs, start + 52)  # and those of the header
        targets: i64 = kind >> 16 & 0xFFFF
        header: i64 = start + UNTARGETED_BYTES + targets * TARGET_BYTES + (origin_bytes & _LOW)
        body: i64 = header + (origin_bytes >> 32 & _LOW)
        if magic & _LOW != MAGIC or kind & 0xFF != TYPE_MESSAGE or body > size:
            break
        place: i64 = places[index]
        while place < at:
            missing.append(index)
            index += 1
            place = places[index] if index < count else at
        if index < count and place == at:
            ordinal: i64 = ordinals[index]
            if length >> 32 & _LOW != ordinal:
                missing.append(index)
            else:
                content = runs[header:body]
                if content != former or not former:
                    former = content
                    matches = has_all_of_one(content, needles)
                if matches:
                    found.append(index)
            index += 1
        at += HEADER_BYTES + (length & _LOW)
        start = body
    missing.extend(range(index, count))
    return found, missing


def has_all_of_one(header: bytes, needles: Sequence[list[bytes]]) -> bool:
    """Return whether a header has all octets of one of these lists."""
    for demanded in needles:  # noqa: SIM110 - compiled, a loop makes no generator
        if all(header.find(needle) >= 0 for needle in demanded):  # `in` would try to take it for a number first
            return True
    return False


def decode_rows(
    data: bytes,
    first: i64,
    places: list[int],
    seed: int,
    queue_id: i64,
    records: list[int],
    sequences: list[int],
    origins: list[Origin],
) -> tuple[list[Message | None], list[int]]:
    """Return the messages of records at ``places``; ``None`` for any other. ``data`` begins at ``first``.

    ``records``, ``sequences`` and ``origins`` are the values of the queue's rows. The second list has the indexes of
    other data, damaged or not.
    """
    found: list[Message | None] = []
    others: list[int] = []
    former: Message | None = None
    for index in range(len(places)):
        at: i64 = places[index]
        message = _message_at(
            data, at - first, seed, queue_id, records[index], sequences[index], origins[index], former
        )
        if message is None:
            others.append(index)
        else:
            former = message
        found.append(message)
    return found, others


def decode_run(
    data: bytes,
    first: i64,
    places: list[int],
    seed: int,
    queue_id: i64,
    record: i64,
    sequence: i64,
    origins: list[Origin],
) -> list[Message | None] | None:
    """Return the messages of rows whose records and sequences grow by one from these on; ``None`` unless all are whole.

    The arguments are those of :func:`decode_rows`.
    """
    found: list[Message | None] = []
    former: Message | None = None
    for index in range(len(places)):
        at: i64 = places[index]
        message = _message_at(
            data, at - first, seed, queue_id, record + index, sequence + index, origins[index], former
        )
        if message is None:
            return None
        former = message
        found.append(message)
    return found


def stands_at(data: bytes, begin: i64, end: i64, text: bytes) -> bool:
    """Return whether ``data`` has ``text`` from ``begin`` to ``end``, eight octets at a time."""
    length: i64 = len(text)
    if end - begin != length:
        return False
    if length < _WORD:
        return data[begin:end] == text
    at: i64 = 0
    last: i64 = length - _WORD  # the last look may see some octets again
    while at < last:
        if read_i64_le(data, begin + at) != read_i64_le(text, at):
            return False
        at += _WORD
    return read_i64_le(data, begin + last) == read_i64_le(text, last)


def _message_at(
    data: bytes,
    start: i64,
    seed: int,
    queue_id: i64,
    record: i64,
    sequence: i64,
    origin: Origin,
    former: Message | None,
) -> Message | None:
    """Return the message whose record begins at ``start``; ``None`` for other data there.

    Numbers are at the positions of ``records.SINGLE``. The header is shared with the ``former`` message if it is equal,
    which is usual: this saves 48 bytes per message in memory.
    """
    size: i64 = len(data)
    fixed: i64 = start + FIXED_BYTES
    if fixed > size:
        return None
    magic: i64 = read_i64_le(data, start)  # and the checksum
    length: i64 = read_i64_le(data, start + 8)  # and the ordinal
    kind: i64 = read_i64_le(data, start + 32)  # and priority, number of targets, half of the time
    origin_bytes: i64 = read_i64_le(data, start + 52)  # and those of the header
    header: i64 = fixed + (origin_bytes & _LOW)
    body: i64 = header + (origin_bytes >> 32 & _LOW)
    end: i64 = start + HEADER_BYTES + (length & _LOW)
    if (
        magic & _LOW != MAGIC
        or length >> 32 & _LOW != record & ORDINAL_MASK
        or kind & 0xFFFF00FF != _SINGLE_MESSAGE
        or read_i64_le(data, start + 60) != queue_id
        or read_i64_le(data, start + 68) != sequence
        or not body <= end <= size
    ):
        return None
    content = data[body:end]  # the checksum continues with it in place, so that nothing large is copied for it
    if _checksum(content, _checksum(data[start + PREFIX_BYTES : body], seed)) != magic >> 32 & _LOW:
        return None
    if former is not None and stands_at(data, header, body, former.header):
        properties = former.header
    else:
        properties = data[header:body]
    priority: i64 = kind >> 8 & 0xFF
    accepted_at: i64 = read_i64_le(data, start + 36)
    expires_at: i64 = read_i64_le(data, start + 44)
    return logged_message(record, properties, content, origin, priority, accepted_at, expires_at)
