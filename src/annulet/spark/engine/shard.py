"""The queues of one shard: commands of a batch in, effects out."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from annulet.spark.engine.commands import CommandRefused, parse_command
from annulet.spark.engine.effects import OUTCOME, REFUSED, REPEATED, Effect
from annulet.spark.engine.errors import EngineStateError
from annulet.spark.engine.image import read_image, write_image
from annulet.spark.engine.journal import (
    BATCHES_FOLLOWED,
    EngineState,
    Given,
    Head,
    Journal,
    StateReader,
    Step,
    Stored,
)
from annulet.spark.engine.replica import Replica
from annulet.spark.remembered_shards import RememberedShards

SHARDS_CACHED: Final = 64
"""Shards a worker process remembers between batches; those used longest ago are made from the state again."""

ADVANCE: Final = '{"command":"advance","sequence":%d,"at":%d}'


class Shard:
    """Replicas of queues, created at their first command, and the journal they are created from."""

    def __init__(self) -> None:
        self._replicas: dict[str, Replica] = {}
        self._stored: dict[str, Stored] = {}  # of queues without a command so far
        self._fresh: list[Given] = []
        self.time = 0
        self.journal = Journal()

    def load(self, state: StateReader, head: Head) -> None:
        """Read the state."""
        self.time = head.time
        self._stored = self.journal.load(state)

    def take(self, rows: Iterable[tuple[str | None, int | None, str, bytes | None]]) -> list[Effect]:
        """Execute commands in ascending order of sequence, independent of their order of arrival.

        ``rows``: queue (``None`` for all), sequence, the command as JSON, body. An invalid command is an outcome.
        """
        effects: list[Effect] = []
        given = [(sequence, queue or None, document, body or b"") for queue, sequence, document, body in rows]
        for sequence, queue, document, body in sorted(
            given,  # of several with one sequence the same is first in every run, and an advance suppresses none
            key=lambda row: (row[0] is not None, row[0], row[1] is None, row[1] or "", row[2], row[3]),
        ):
            if sequence is None:
                effects.append(_refused(queue, 0, "field 'sequence' is None: every command needs one above the former"))
            elif queue is None:
                effects += self._advance_all(sequence, document)
            else:
                effects += self._take_one(queue, sequence, document, body)
        return effects

    def commit(self, head: Head, state: EngineState) -> list[int]:
        """Write the changes of the commands. Returns the blobs that have the commands."""
        fresh, self._fresh = self._fresh, []
        for queue in self.journal.due(fresh):
            replica = self._replicas[queue]
            self.journal.put_image(queue, replica.latest, write_image(replica), head, state)
        head.time = self.time
        return self.journal.append(fresh, head, state) if fresh else []

    def follow(self, steps: Iterable[Step], state: EngineState) -> None:
        """Repeat the work of other workers in these batches; their effects were emitted then."""
        for step in steps:
            for given in self.journal.follow(step.blobs, state):
                carry_out(self.replica(given.queue), given)
            self.time = step.time

    def replica(self, queue: str) -> Replica:
        """Return a queue's replica, restored from the state if necessary."""
        replica = self._replicas.get(queue)
        if replica is None:
            stored = self._stored.pop(queue, None)
            image = None if stored is None else stored.unpacked()
            replica = self._replicas[queue] = Replica(queue) if image is None else read_image(image)
            for given in [] if stored is None else stored.commands:
                carry_out(replica, given)
        return replica

    def names(self) -> list[str]:
        """Return the names of all queues that ever had commands."""
        return sorted({*self._replicas, *self._stored})

    def _take_one(self, queue: str, sequence: int, document: str, body: bytes) -> list[Effect]:
        replica = self.replica(queue)
        if sequence <= replica.latest:
            reason = (
                f"field 'sequence' is {sequence}, not above {replica.latest}, the latest of queue {queue!r}: it was "
                "carried out before, or came too late; a new command needs a new sequence"
            )
            return [_refused(queue, sequence, reason, REPEATED, replica.now)]
        given = Given(queue, sequence, self.time, document, body)
        self._fresh.append(given)
        return carry_out(replica, given)

    def _advance_all(self, sequence: int, document: str) -> list[Effect]:
        try:
            command = parse_command(document)
        except CommandRefused as error:
            return [_refused(None, sequence, str(error))]
        self.time = max(self.time, command.at)
        effects: list[Effect] = []
        for queue in self.names():
            replica = self.replica(queue)
            if sequence > replica.latest and 0 < replica.next_due_at <= self.time:
                effects += self._take_one(queue, sequence, ADVANCE % (sequence, self.time), b"")
        return effects


def carry_out(replica: Replica, given: Given) -> list[Effect]:
    """Carry out a command, for the first time or again after a restart: the effects are equal."""
    try:
        command = parse_command(given.document)
    except CommandRefused as error:
        replica.latest = given.sequence
        return [_refused(given.queue, given.sequence, str(error), at=replica.now)]
    command.at = max(command.at, given.floor)
    return replica.apply(command, given.body)


def _refused(queue: str | None, sequence: int, reason: str, state: str = REFUSED, at: int = 0) -> Effect:
    return Effect(OUTCOME, queue, sequence, at=at, state=state, reason=reason)


REMEMBERED: Final[RememberedShards[Shard]] = RememberedShards(SHARDS_CACHED)
"""The shards of this process. One that another process worked on since is updated, or, if that was too many batches ago
or its batch was not committed, discarded.
"""


def open_shard(shards: int, state: EngineState) -> tuple[Shard, Head]:
    """Return a shard in the state of its last batch, from this process's memory if that is current.

    Raises :class:`EngineStateError` when the checkpoint was made with another version or number of shards.
    """
    text = state.read_head()
    if text is None:
        return Shard(), Head(shards, uuid.uuid4().hex)
    head = Head.parse(text)
    if head.shards != shards:
        raise EngineStateError(
            f"shards={shards}, but the checkpoint was made with shards={head.shards}, and the queues are split by it; "
            f"give shards={head.shards}, or start a new checkpoint with the initial state of the old one "
            "(docs/spark-engine.md, Rescaling)"
        )
    token, shard = REMEMBERED.take(head.name)
    tokens = [step.token for step in head.steps]
    if shard is not None and token in tokens:
        shard.follow(head.steps[tokens.index(token) + 1 :], state)
    else:
        shard = Shard()
        shard.load(state, head)
    return shard, head


def close_shard(shard: Shard, head: Head, state: EngineState) -> None:
    """Write the changes of a batch, and keep the shard in this process."""
    blobs = shard.commit(head, state)
    head.token = uuid.uuid4().hex
    head.steps = [*head.steps, Step(head.token, head.time, blobs)][-BATCHES_FOLLOWED - 1 :]
    state.write_head(head.text())
    REMEMBERED.keep(head.name, head.token, shard)
