"""The bytes of the message log: segment header, record header, and the payload of each record type.

All numbers are little-endian. A record is

    magic u32 · crc u32 · length u32 · ordinal u32 · batch u64 · transaction u64 · type u8 · priority u8 · targets u16 ·
    payload (``length`` bytes)

``crc`` is CRC32 over everything after it, started from a value made of the segment's random identity and number. So a
record that a publisher puts into a message body, or one that strayed from another file, is never taken for one of ours
when the reader looks for the next sound record behind damaged bytes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from isal.isal_zlib import crc32
from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from annulet.core.message.message import Message, Origin
from annulet.store.files.errors import StoreError

MAGIC: Final = int.from_bytes(b"ANR1", "little")
MAGIC_BYTES: Final = b"ANR1"
PREFIX: Final = Struct("<II")  # magic, crc
HEADER: Final = Struct("<IIIIQQBBH")
BODY_HEADER: Final = Struct("<IIQQBBH")  # the record header behind the prefix
MESSAGE_FIXED: Final = Struct("<qqII")  # accepted_at, expires_at, origin length, header length
TARGET: Final = Struct("<QQ")  # queue id, sequence
SINGLE: Final = Struct("<IIQQBBHqqIIQQ")  # behind the prefix: record header, fixed part, the only target
CONTROL_OVERHEAD: Final = HEADER.size

TYPE_MESSAGE: Final = 1
TYPE_SETTLE: Final = 2  # (queue id, record id) pairs
TYPE_COMMIT: Final = 3
TYPE_FORGET: Final = 4  # queue ids
TYPE_SEAL: Final = 5  # last record of each batch
TYPE_VOID: Final = 6  # an earlier batch was torn by a crash: its control records do not count
TYPE_DISCARD: Final = 7  # (queue id, first record id, last record id): all the queue has there is settled
TYPE_LAST: Final = TYPE_DISCARD

ORDINAL_BITS: Final = 24
ORDINAL_MASK: Final = (1 << ORDINAL_BITS) - 1
NO_ORDINAL: Final = ORDINAL_MASK
"""Ordinal of records that are not messages."""

TARGETS_MAX: Final = 0xFFFF
"""Most queues one record can name (the field has 16 bits)."""

RECORD_BYTES_MAX: Final = 1 << 30
"""Largest message taken, in bytes: AMQP clients stay far below, and a segment's offsets have 32 bits."""

SEGMENT_HEADER: Final = Struct("<8sIIQI")  # magic and version, identity, reserved, number, crc
SEGMENT_MAGIC: Final = b"ANSEG\x00\x00\x01"
HEADER_COPIES: Final = 2
"""The segment header is kept twice, since without its identity no record of the segment could be believed."""
SEGMENT_HEADER_SIZE: Final = SEGMENT_HEADER.size * HEADER_COPIES

_ORIGIN_FIELD: Final = Struct("<I")
_COMMIT: Final = Struct("<QIqI")  # transaction, its records in this batch, batch id, length of the query id
_SEAL: Final = Struct("<II")  # records of the batch, number of commits
_LENGTH: Final = Struct("<I")


class Record(NamedTuple):
    """A record's header fields and the place of its payload."""

    offset: int
    length: int  # of the payload
    ordinal: int
    batch: int
    transaction: int
    type: int
    priority: int
    targets: int

    @property
    def payload(self) -> int:
        """Offset of the payload."""
        return self.offset + HEADER.size

    @property
    def end(self) -> int:
        """Offset behind the record."""
        return self.offset + HEADER.size + self.length


class Commit(NamedTuple):
    """A committed transaction. ``own`` counts its records in the batch of the commit, to notice a torn batch."""

    transaction: int
    own: int
    outcome: tuple[str, int] | None


def segment_header(number: int, identity: int) -> bytes:
    """Return the start of a segment file."""
    head = SEGMENT_HEADER.pack(SEGMENT_MAGIC, identity, 0, number, 0)[:-4]
    return (head + crc32(head).to_bytes(4, "little")) * HEADER_COPIES


def segment_identity(data: bytes, number: int) -> tuple[int, int]:
    """Return (identity, sound copies) of a segment's header; (0, 0) when no copy is sound."""
    found = 0
    sound = 0
    for copy in range(HEADER_COPIES):
        start = copy * SEGMENT_HEADER.size
        head = data[start : start + SEGMENT_HEADER.size]
        if len(head) < SEGMENT_HEADER.size:
            break
        magic, identity, _, own_number, crc = SEGMENT_HEADER.unpack(head)
        if magic == SEGMENT_MAGIC and own_number == number and crc == crc32(head[:-4]):
            found = identity
            sound += 1
    return found, sound


def checksum_seed(number: int, identity: int) -> int:
    """Return the value every CRC of the segment starts from."""
    return crc32(TARGET.pack(number, identity))


def encode_origin(origin: Origin) -> bytes:
    """Encode the shared part of one publisher's messages: four texts, each with its length in bytes as u32."""
    parts = []
    for text in (origin.exchange, origin.routing_key, origin.publisher, origin.view.name):
        encoded = text.encode("utf-8", "surrogateescape")
        parts.append(_ORIGIN_FIELD.pack(len(encoded)))
        parts.append(encoded)
    return b"".join(parts)


def stored_origin(origin: Origin) -> bytes:
    """Return the encoding, which the origin keeps: a publisher uses one origin for all its messages."""
    stored = origin.stored
    if not stored:
        stored = origin.stored = encode_origin(origin)
    return stored


def decode_origin(data: bytes) -> tuple[str, str, str, str]:
    """Undo :func:`encode_origin`: exchange, routing key, publisher, name of the view."""
    texts = []
    offset = 0
    for _ in range(4):
        (length,) = _ORIGIN_FIELD.unpack_from(data, offset)
        offset += _ORIGIN_FIELD.size
        texts.append(data[offset : offset + length].decode("utf-8", "surrogateescape"))
        offset += length
    return texts[0], texts[1], texts[2], texts[3]


def message_size(message: Message, targets: int) -> int:
    """Return the length of a message record in bytes."""
    origin = message.origin.stored or stored_origin(message.origin)
    return HEADER.size + MESSAGE_FIXED.size + TARGET.size * targets + len(origin) + len(message.header) + message.size


def encode_message(
    message: Message,
    origin: bytes,
    targets: Sequence[tuple[int, int]],
    ordinal: int,
    batch: int,
    transaction: int,
    seed: int,
) -> bytes:
    """Return everything of a message record before its body. The body follows as it is, uncopied.

    Raises ``ValueError`` for an id or sequence of 2**63 or more of a single target: all of them are counted up from 1.
    """
    header = message.header
    body = message.body
    if len(targets) == 1:
        tail = _encode_single(message, origin, targets[0], ordinal, batch, transaction)
    else:
        length = MESSAGE_FIXED.size + TARGET.size * len(targets) + len(origin) + len(header) + len(body)
        tail = b"".join(
            [
                BODY_HEADER.pack(length, ordinal, batch, transaction, TYPE_MESSAGE, message.priority, len(targets)),
                MESSAGE_FIXED.pack(message.accepted_at, message.expires_at, len(origin), len(header)),
                *(TARGET.pack(queue_id, sequence) for queue_id, sequence in targets),
                origin,
                header,
            ]
        )
    return PREFIX.pack(MAGIC, crc32(body, crc32(tail, seed))) + tail


MESSAGE_FIXED_AND_TARGET: Final = MESSAGE_FIXED.size + TARGET.size


def _encode_single(
    message: Message, origin: bytes, target: tuple[int, int], ordinal: i64, batch: i64, transaction: i64
) -> bytes:
    """Return the bytes behind the checksum, in the form of :data:`SINGLE`. Compiled, no number becomes an object."""
    queue_id, sequence = target
    header = message.header
    origin_bytes: i64 = len(origin)
    header_bytes: i64 = len(header)
    length: i64 = len(message.body)
    length += MESSAGE_FIXED_AND_TARGET + origin_bytes + header_bytes
    priority: i64 = i64(message.priority)
    writer = BytesWriter()
    write_i64_le(writer, ordinal << 32 | length)
    write_i64_le(writer, batch)
    write_i64_le(writer, transaction)
    write_i32_le(writer, i32(1 << 16 | priority << 8 | TYPE_MESSAGE))
    write_i64_le(writer, message.accepted_at)
    write_i64_le(writer, message.expires_at)
    write_i64_le(writer, header_bytes << 32 | origin_bytes)
    write_i64_le(writer, queue_id)
    write_i64_le(writer, sequence)
    writer.write(origin)
    writer.write(header)
    return writer.getvalue()


def encode_control(record_type: int, payload: bytes, batch: int, transaction: int, seed: int) -> bytes:
    """Return a whole record of any type but message."""
    tail = BODY_HEADER.pack(len(payload), NO_ORDINAL, batch, transaction, record_type, 0, 0) + payload
    return PREFIX.pack(MAGIC, crc32(tail, seed)) + tail


def reseal_message(record: bytes, seed: int) -> bytes:
    """Return a message record as it is kept after compaction: its transaction is known to be committed."""
    _, _, length, ordinal, batch, _, record_type, priority, targets = HEADER.unpack_from(record)
    tail = BODY_HEADER.pack(length, ordinal, batch, 0, record_type, priority, targets) + record[HEADER.size :]
    return PREFIX.pack(MAGIC, crc32(tail, seed)) + tail


def swapped_where_big(values: array[int]) -> array[int]:
    """Turn numbers as this machine has them into little-endian ones, or back, in place. Returns ``values``."""
    if sys.byteorder == "big":
        values.byteswap()
    return values


def pack_numbers(numbers: Iterable[int]) -> bytes:
    """Encode unsigned 64-bit numbers."""
    return swapped_where_big(array("Q", numbers)).tobytes()


def unpack_numbers(data: bytes) -> array[int]:
    """Undo :func:`pack_numbers`."""
    return swapped_where_big(array("Q", data))


def encode_commit(commit: Commit) -> bytes:
    """Return the payload of a commit record."""
    query, batch_id = commit.outcome if commit.outcome is not None else ("", 0)
    encoded = query.encode()
    return _COMMIT.pack(commit.transaction, commit.own, batch_id, len(encoded)) + encoded


def decode_commit(payload: bytes) -> Commit:
    """Undo :func:`encode_commit`. An empty query id means that there is no outcome."""
    transaction, own, batch_id, length = _COMMIT.unpack_from(payload)
    query = payload[_COMMIT.size : _COMMIT.size + length].decode()
    return Commit(transaction, own, (query, batch_id) if query else None)


def encode_seal(records: int, commits: Sequence[bytes]) -> bytes:
    """Return a seal's payload: the batch's other records are counted, its commits repeated.

    A commit kept twice means that one damaged record cannot take a whole transaction with it.
    """
    parts = [_SEAL.pack(records, len(commits))]
    for commit in commits:
        parts += [_LENGTH.pack(len(commit)), commit]
    return b"".join(parts)


def decode_seal(payload: bytes) -> tuple[int, list[Commit]]:
    """Undo :func:`encode_seal`."""
    records, count = _SEAL.unpack_from(payload)
    offset = _SEAL.size
    commits = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(payload, offset)
        offset += _LENGTH.size
        commits.append(decode_commit(payload[offset : offset + length]))
        offset += length
    return records, commits


def seal_size(commits: Sequence[bytes]) -> int:
    """Return the length of the seal record in bytes."""
    return CONTROL_OVERHEAD + _SEAL.size + sum(_LENGTH.size + len(commit) for commit in commits)


def decode_targets(data: bytes, record: Record) -> list[tuple[int, int]]:
    """Return a message record's (queue id, sequence) pairs."""
    start = record.payload + MESSAGE_FIXED.size
    return [TARGET.unpack_from(data, start + TARGET.size * index) for index in range(record.targets)]


class MessageContent(NamedTuple):
    """A message record's content."""

    origin: bytes
    header: bytes
    body: bytes
    accepted_at: int
    expires_at: int


def decode_message(data: bytes, record: Record) -> MessageContent:
    """Return the contents of a message record besides its targets."""
    accepted_at, expires_at, origin_length, header_length = MESSAGE_FIXED.unpack_from(data, record.payload)
    origin = record.payload + MESSAGE_FIXED.size + TARGET.size * record.targets
    header = origin + origin_length
    body = header + header_length
    return MessageContent(data[origin:header], data[header:body], data[body : record.end], accepted_at, expires_at)


def check_message(message: Message, targets: int, size: int) -> None:
    """Raise :class:`StoreError` for values that a record cannot contain."""
    if not 0 < targets <= TARGETS_MAX:
        raise StoreError(f"targets: {targets} queues for one message; give 1 to {TARGETS_MAX}")
    if size > RECORD_BYTES_MAX:
        raise StoreError(f"message: a record of {size} bytes is larger than {RECORD_BYTES_MAX}; send a smaller body")
    if not 0 <= message.priority <= 255:
        raise StoreError(f"priority: {message.priority} does not fit one byte; give 0 to 255")


def pack_shared(shared: dict[int, tuple[int, ...]]) -> bytes:
    """Encode remaining queue ids by ordinal: ordinal, count, queue ids …"""
    numbers: list[int] = []
    for ordinal, queue_ids in shared.items():
        numbers += (ordinal, len(queue_ids), *queue_ids)
    return pack_numbers(numbers)


def unpack_shared(data: bytes) -> dict[int, tuple[int, ...]]:
    """Undo :func:`pack_shared`."""
    numbers = unpack_numbers(data)
    found = {}
    index = 0
    while index < len(numbers):
        count = numbers[index + 1]
        found[numbers[index]] = tuple(numbers[index + 2 : index + 2 + count])
        index += 2 + count
    return found
