"""The queues of one shard: rows of a batch in, changes out, and the state written as segments."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from annulet.spark.operators.book import Book, Changes, Item
from annulet.spark.operators.rules import ARRIVAL, WALL, OperatorError, Rules
from annulet.spark.operators.segments import FORMAT, Head, SegmentLog, ShardState
from annulet.spark.remembered_shards import RememberedShards

SHARDS_CACHED: Final = 64
"""Shards a worker process remembers between batches, each once; those used longest ago are read from their segments
again."""


@dataclass(slots=True)
class Rows:
    """Rows of a batch, column by column. Columns that no rule uses are empty."""

    sequences: Sequence[int]
    queues: Sequence[str | None]
    keys: Sequence[str | None] = ()
    identifiers: Sequence[str | None] = ()
    levels: Sequence[int] = ()
    sizes: Sequence[int] = ()
    accepted: Sequence[int] = ()
    expires: Sequence[int] = ()
    extras: Sequence[tuple[object, ...]] = ()


class Shard:
    """Books of some queues, and the log they are restored from."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._books: dict[str | None, Book] = {}
        self.log = SegmentLog()

    @property
    def next_expiry(self) -> int:
        """When the next message expires, in milliseconds since 1970; 0 for never."""
        return min((book.next_expiry for book in self._books.values() if book.next_expiry), default=0)

    def load(self, state: ShardState) -> None:
        """Restore the books."""
        for item in self.log.load(state):
            self._book(item.queue).restore(item)

    def take(self, rows: Rows, now: int) -> Changes:
        """Let rows arrive in ascending order of sequence. ``now``: of the wall, milliseconds since 1970."""
        changes = Changes()
        by_wall = self._rules.clock == WALL
        if by_wall:
            self.expire(now, changes)
        count = len(rows.sequences)
        nothing: list[None] = [None] * count
        zeros = [0] * count
        order = sorted(range(count), key=rows.sequences.__getitem__)
        keys, identifiers = rows.keys or nothing, rows.identifiers or nothing
        levels, sizes, expires = rows.levels or zeros, rows.sizes or zeros, rows.expires or zeros
        accepted, extras = rows.accepted or zeros, rows.extras or [()] * count
        wall = by_wall or self._rules.clock != ARRIVAL
        books = self._books
        for row in order:
            queue = rows.queues[row]
            book = books.get(queue)
            if book is None:
                book = self._book(queue)
            item = Item(
                0, queue, rows.sequences[row], keys[row], levels[row], sizes[row], expires[row], extras[row], row
            )
            book.arrive(item, identifiers[row], now if wall else accepted[row], changes)
        return changes

    def expire(self, now: int, changes: Changes) -> None:
        """Remove what expires at ``now`` or before, in all queues."""
        for book in self._books.values():
            book.expire(now, changes)

    def tidy(self) -> None:
        """Drop the books of queues without state."""
        for queue in [queue for queue, book in self._books.items() if book.empty]:
            del self._books[queue]

    def _book(self, queue: str | None) -> Book:
        book = self._books.get(queue)
        if book is None:
            book = self._books[queue] = Book(self._rules)
        return book


REMEMBERED: Final[RememberedShards[Shard]] = RememberedShards(SHARDS_CACHED)
"""The shards of this process. One that another process worked on since is discarded."""


def open_shard(rules: Rules, shards: int, state: ShardState, columns: str = "") -> tuple[Shard, Head]:
    """Return a shard in the state of its last batch, from this process's memory if that is current.

    ``columns`` describes the columns used by rules. Raises :class:`OperatorError` when the checkpoint was made with
    other rules or columns or another number of shards.
    """
    text = state.read_head()
    if text is None:
        return Shard(rules), Head(rules.fingerprint, shards, columns, uuid.uuid4().hex)
    head = Head.parse(text)
    if head.format != FORMAT:
        raise OperatorError(
            f"the checkpoint has state of format {head.format}, this version reads {FORMAT}; start a new one"
        )
    if head.shards != shards:
        raise OperatorError(
            f"shards={shards}, but the checkpoint was made with shards={head.shards}, and the state is split by it; "
            f"give shards={head.shards}, or start a new checkpoint"
        )
    if head.rules != rules.fingerprint:
        raise OperatorError(
            f"the rules are ({rules.fingerprint}), but the checkpoint was made with ({head.rules}); give the same "
            "rules, or start a new checkpoint"
        )
    if head.columns != columns:
        raise OperatorError(
            f"the rules look at the columns ({columns}), but the checkpoint was made with ({head.columns}); give the "
            "same, or start a new checkpoint"
        )
    token, shard = REMEMBERED.take(head.name)
    if shard is None or token != head.token:
        shard = Shard(rules)
        shard.load(state)
    return shard, head


def close_shard(shard: Shard, head: Head, changes: Changes, state: ShardState) -> None:
    """Write the changes of a batch, and keep the shard in this process."""
    shard.log.commit(changes.fresh, changes.dropped, head, state)
    head.token = uuid.uuid4().hex
    state.write_head(head.text())
    shard.tidy()
    REMEMBERED.keep(head.name, head.token, shard)
