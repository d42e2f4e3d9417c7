"""Message records straight into messages: what a deep queue does most when it is drained.

Only what nearly all records are is decoded here: of one queue, whole, and what the queue's row says.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from annulet.core.message import Message, Origin
from annulet.store.records import HEADER, MAGIC, ORDINAL_MASK, PREFIX, TYPE_MESSAGE

SINGLE_RECORD: Final = Struct("<IIIIQQBBHqqIIQQ")  # prefix, record header, fixed part, the only target
PREFIX_BYTES: Final = PREFIX.size
HEADER_BYTES: Final = HEADER.size  # of any record, the prefix included
FIXED_BYTES: Final = SINGLE_RECORD.size


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
    something else, damaged or not, as indexes into ``found``.
    """
    view = memoryview(data)
    size, first = len(data), places[0]
    others: list[int] = []
    for place, record, sequence, origin in zip(places, records, sequences, origins, strict=True):
        start = place - first
        fixed = start + FIXED_BYTES
        if fixed <= size:
            (
                magic, crc, length, ordinal, _, _, kind, priority, targets, accepted_at, expires_at,
                origin_bytes, header_bytes, target, number,
            ) = SINGLE_RECORD.unpack_from(data, start)  # fmt: skip
            end = start + HEADER_BYTES + length
            if (
                magic == MAGIC
                and kind == TYPE_MESSAGE
                and targets == 1
                and end <= size
                and ordinal == record & ORDINAL_MASK
                and target == queue_id
                and number == sequence
                and crc32(view[start + PREFIX_BYTES : end], seed) == crc
            ):
                header = fixed + origin_bytes
                body = header + header_bytes
                message = Message(
                    data[header:body],
                    data[body:end],
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
