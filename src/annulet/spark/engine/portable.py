"""State by queue, to be put into other shards or read by another version.

Images and commands of a queue are taken over unchanged: the queue continues in any shard. Another version of the
package has other fields, so for it a queue is converted to commands that restore the same state as a restart of the
broker. Settings, messages with their places, attempts and times stay; consumers and sessions end, and messages in
delivery return as redelivered.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from annulet.core.configuration.arguments.queues import describe
from annulet.core.model.entry import DELIVERING, QueueEntry, sequence_of
from annulet.core.queue.queue import Queue
from annulet.spark.engine.content import header_of
from annulet.spark.engine.journal import (
    IMAGE,
    JOURNAL,
    EngineState,
    Given,
    Head,
    decode_commands,
    decode_image,
    encode_commands,
)
from annulet.spark.engine.replica import Replica
from annulet.spark.engine.shard import Shard

HEAD: Final = "head"
TIME: Final = "time"


class Piece(NamedTuple):
    """A part of the state of one queue, or of all: ``kind`` is an image, a journal, or the time (without a queue)."""

    queue: str | None
    kind: str
    blob: bytes


PIECE_COLUMNS: Final = ("queue", "kind", "blob")
"""The fields of :class:`Piece`, as columns of a file."""


class FrozenState:
    """The state of one shard as it was read from a checkpoint."""

    def __init__(self, head: str, blobs: Iterable[tuple[str, int, bytes]]) -> None:
        self._head = head
        self._blobs: dict[str, dict[int, bytes]] = {IMAGE: {}, JOURNAL: {}}
        for kind, number, blob in blobs:
            self._blobs[kind][number] = blob

    def read_head(self) -> str:
        """Return the head."""
        return self._head

    def read_blobs(self, kind: str) -> Iterator[tuple[int, bytes]]:
        """Return all blobs of a kind with their numbers."""
        yield from self._blobs[kind].items()


def pieces_of(state: FrozenState, *, portable: bool) -> Iterator[Piece]:
    """Yield the state of a shard by queue. Raises :class:`EngineStateError` when another version wrote it."""
    head = Head.parse(state.read_head())
    if head.time:
        yield Piece(None, TIME, str(head.time).encode())
    if portable:
        shard = Shard()
        shard.load(state, head)
        for queue in shard.names():
            yield Piece(queue, JOURNAL, encode_commands(portable_commands(shard.replica(queue))))
        return
    for _, blob in state.read_blobs(IMAGE):
        yield Piece(decode_image(blob)[0], IMAGE, blob)
    for _, blob in state.read_blobs(JOURNAL):
        by_queue: dict[str, list[Given]] = {}
        for given in decode_commands(blob):
            by_queue.setdefault(given.queue, []).append(given)
        for queue, commands in by_queue.items():
            yield Piece(queue, JOURNAL, encode_commands(commands))


def put_pieces(pieces: Iterable[Piece], shards: int, state: EngineState) -> None:
    """Add state of queues to a shard that is new, or that just got other parts."""
    text = state.read_head()
    head = Head(shards, uuid.uuid4().hex) if text is None else Head.parse(text)
    for piece in pieces:
        if piece.kind == TIME:
            head.time = max(head.time, int(piece.blob))
            continue
        state.write_blob(piece.kind, head.next_blob, piece.blob)
        head.next_blob += 1
    head.token = uuid.uuid4().hex
    state.write_head(head.text())


def portable_commands(replica: Replica) -> list[Given]:
    """Return the commands that restore a queue. The last has the sequence of its latest command."""
    documents: list[tuple[dict[str, Any], bytes]] = []
    queue = replica.queue
    if queue is not None:
        documents.append(({"command": "configure", "arguments": describe(queue.settings)}, b""))
        if queue.paused:
            documents.append(({"command": "pause"}, b""))
        entries = [*queue.order.entries(), *queue.schedule.entries(), *queue.unsettled()]
        documents += [_restoring(queue, entry) for entry in sorted(entries, key=sequence_of)]
        documents.append(({"command": "restored", "message": queue.next_sequence}, b""))
    else:
        documents.append(({"command": "advance"}, b""))
    first = replica.latest - len(documents) + 1
    return [
        Given(
            replica.name,
            sequence,
            replica.now,
            msgspec.json.encode({"queue": replica.name, "sequence": sequence, **fields}).decode(),
            body,
        )
        for sequence, (fields, body) in enumerate(documents, first)
    ]


def _restoring(queue: Queue, entry: QueueEntry) -> tuple[dict[str, Any], bytes]:
    message = entry.message
    header = header_of(message.header)
    fields: dict[str, Any] = {
        "command": "restore",
        "message": entry.sequence,
        "message_id": header.message_id,
        "group": header.group,
        "priority": message.priority if header.priority_given else -1,
        "duplicate_id": header.duplicate_id,
        "properties": header.properties,
        "publisher": message.origin.publisher,
        "connection": message.origin.connection or "",
        "accepted_at": message.accepted_at,
        "expires_at": message.expires_at,
        "deliver_at": message.deliver_at,
        "due_at": queue.schedule.at(entry),
        "delivery_count": entry.delivery_count,
        "redelivered": entry.redelivered or entry.state == DELIVERING,
    }
    return fields, message.body
