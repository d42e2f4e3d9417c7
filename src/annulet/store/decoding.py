"""Message records straight into messages: what a deep queue does most when it is drained.

Only what nearly all records are is decoded here: of one queue, whole, and what the queue's row says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from librt.strings import read_i64_le
from mypy_extensions import i64

from annulet.core.message import Message, Origin
from annulet.store.records import HEADER, MAGIC, MESSAGE_FIXED, ORDINAL_MASK, PREFIX, TARGET, TYPE_MESSAGE

PREFIX_BYTES: Final = PREFIX.size
HEADER_BYTES: Final = HEADER.size  # of any record, the prefix included
FIXED_BYTES: Final = HEADER.size + MESSAGE_FIXED.size + TARGET.size  # before the origin, where there is one target

_LOW: Final = 0xFFFFFFFF
_SINGLE_MESSAGE: Final = 1 << 16 | TYPE_MESSAGE  # number of targets, priority left out, type


def decode_run(
    data: bytes,
    places: Sequence[int],
    seed: int,
    queue_id: int,
    records: Sequence[int],
    sequences: Sequence[int],
    origins: Sequence[Origin],
    found: list[Message | None],
) -> list[int]:
    """Append the messages of records at ``places``, at the first of which ``data`` begins; ``None`` for any other.

    ``records``, ``sequences`` and ``origins`` are what the queue's rows say of them. Returns which of them were
    something else, damaged or not, as indexes into ``found``. Numbers stand where ``records.SINGLE`` has them.
    """
    size: i64 = len(data)
    first: i64 = places[0]
    others: list[int] = []
    for place, record, sequence, origin in zip(places, records, sequences, origins, strict=True):
        at: i64 = place
        start: i64 = at - first
        fixed: i64 = start + FIXED_BYTES
        if fixed <= size:
            magic: i64 = read_i64_le(data, start)  # and the checksum
            length: i64 = read_i64_le(data, start + 8)  # and the ordinal
            kind: i64 = read_i64_le(data, start + 32)  # and priority, number of targets, half of the time
            origin_bytes: i64 = read_i64_le(data, start + 52)  # and those of the header
            header: i64 = fixed + (origin_bytes & _LOW)
            body: i64 = header + (origin_bytes >> 32 & _LOW)
            end: i64 = start + HEADER_BYTES + (length & _LOW)
            if (
                magic & _LOW == MAGIC
                and length >> 32 & _LOW == record & ORDINAL_MASK
                and kind & 0xFFFF00FF == _SINGLE_MESSAGE
                and read_i64_le(data, start + 60) == queue_id
                and read_i64_le(data, start + 68) == sequence
                and body <= end <= size
            ):
                payload = data[body:end]
                if crc32(payload, crc32(data[start + PREFIX_BYTES : body], seed)) == magic >> 32 & _LOW:
                    priority: i64 = kind >> 8 & 0xFF
                    accepted_at: i64 = read_i64_le(data, start + 36)
                    expires_at: i64 = read_i64_le(data, start + 44)
                    message = Message(
                        data[header:body],
                        payload,
                        origin,
                        durable=True,
                        priority=priority,
                        accepted_at=accepted_at,
                        expires_at=expires_at,
                    )
                    message.record = record
                    found.append(message)
                    continue
        others.append(len(found))
        found.append(None)
    return others
