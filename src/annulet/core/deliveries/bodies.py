"""Bodies that are on disk only, as the core sees it: below orders and policies, which know nothing of them.

Every entry either needs its message's body in memory or is *away*: its queue does not need it now. A body leaves memory
when no entry needs it any more, so a message of several queues stays while it is near the front of one of them;
accounts count it in each of these. Header, size, rank, key and times stay with the entry. The queue loads the body
before it delivers the message, some hundred at once; other readers get bytes that are not kept.

Which bodies leave, and how they are read, is the business of :mod:`annulet.residency`, whose classes implement
:class:`annulet.core.model.queue_bodies.QueueBodies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import ContentUnavailable, PreconditionFailed
from annulet.core.deliveries.delivery_table import BLOCK_BITS
from annulet.core.model.entry import DELIVERING

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_bodies import QueueBodies
    from annulet.core.model.queue_state import QueueState

FOUND: Final = 0
REFUSED: Final = 1
DAMAGED: Final = 2
"""Result of a request for a body: it is there, the disk refuses to read it now, its record is damaged."""

LOOK_MESSAGES: Final = 64
"""Bodies that are read at once for non-destructive readers: a browser, a forwarder."""

CLAIMED_BYTES: Final = 1 << 20
"""Body bytes that go into delivery before the account is checked, 1 MiB as one load: a consumer's prefetch may be many
times the budget."""


def claim(entry: QueueEntry, bodies: QueueBodies) -> None:
    """Note that an entry went into delivery, which may have been a possible row: the budget may page it.

    Only the first of neighbours is noted, and the class of ``bodies``, which may be interpreted, is not called for
    others. Messages that are settled soon cost nothing more, and no note keeps them in memory.
    """
    message = entry.message
    if bodies.rows and message.record:
        bodies.grown += 1
        bodies.unmeasured += message.size
        if entry.sequence >> BLOCK_BITS != bodies.claimed_block or bodies.unmeasured >= CLAIMED_BYTES:
            bodies.claimed(entry)


def send_away(entry: QueueEntry, bodies: QueueBodies) -> None:
    """Let an entry do without its body, which leaves memory when it was the last to want it."""
    message = entry.message
    entry.away = True
    message.near -= 1
    message.away += 1
    bodies.count += 1
    bodies.bytes += message.size
    if entry.state == DELIVERING:
        bodies.in_delivery_bytes += message.size
        bodies.in_delivery += 1
    message.source = bodies.source
    if message.near <= 0:
        message.leave()


def leaves_delivery(entry: QueueEntry) -> None:
    """Note an entry that is away and left delivery; it stays away."""
    bodies = entry.queue.bodies
    assert bodies is not None
    bodies.in_delivery_bytes -= entry.message.size
    bodies.in_delivery -= 1


def bring_back(entry: QueueEntry, bodies: QueueBodies) -> None:
    """Let an entry that was away need its body again, which is in memory."""
    message = entry.message
    entry.away = False
    message.near += 1
    message.away -= 1
    bodies.count -= 1
    bodies.bytes -= message.size


def let_go(entry: QueueEntry) -> None:
    """Release the message of an entry that was removed or became a row."""
    message = entry.message
    if entry.away:
        entry.away = False
        message.away -= 1
        bodies = entry.queue.bodies
        assert bodies is not None
        bodies.count -= 1
        bodies.bytes -= message.size
        if entry.state == DELIVERING:  # it gets another message
            bodies.in_delivery_bytes -= message.size
            bodies.in_delivery -= 1
        return
    unpin([message])


def became_row(entry: QueueEntry) -> None:
    """Release the message of an entry that became a row: notes of it as a candidate skip it, as it is away."""
    message = entry.message
    if message.near > 1 or message.away:  # otherwise the message leaves with it
        let_go(entry)
    entry.away = True


def exchange(entry: QueueEntry, message: Message) -> None:
    """Give an entry another message, whose body is in memory."""
    let_go(entry)
    entry.message = message
    message.near += 1


def exchange_away(entry: QueueEntry, message: Message) -> None:
    """Give an entry that is away another message of the same record or place: the body stays on disk."""
    former = entry.message
    assert message.size == former.size
    former.away -= 1
    message.source = former.source
    message.spill = former.spill
    message.away = 1
    message.leave()
    entry.message = message


def pin(queue: QueueState, messages: list[Message]) -> None:
    """Have the bodies of messages of a queue in memory until they are unpinned, whatever becomes of their entries.

    Raises :class:`~annulet.core.base.errors.PreconditionFailed` when they do not fit, and
    :class:`~annulet.core.base.errors.ContentUnavailable` when the disk does not give one: then none is pinned.
    """
    bodies = queue.bodies
    if bodies is not None:
        refusal = bodies.reading_refusal([message for message in messages if message.absent])
        if refusal:
            raise PreconditionFailed(f"queue '{queue.name}': the requested one has to be in memory, but {refusal}")
    for number, message in enumerate(messages):
        if message.absent:
            if bodies is not None:
                bodies.look(messages[number : number + LOOK_MESSAGES])
            try:
                message.arrive(message.body)
            except ContentUnavailable:
                unpin(messages[:number])
                raise
        message.near += 1


def unpin(messages: list[Message]) -> None:
    """Let pinned messages go."""
    for message in messages:
        message.near -= 1
        if message.near <= 0 and message.away and message.source is not None:
            message.source.orphaned(message)
