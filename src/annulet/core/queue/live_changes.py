"""Changes of existing objects: a live queue's settings, a waiting message's priority."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments import CHANGEABLE
from annulet.core.deliveries.bodies import exchange, exchange_away
from annulet.core.message.message import Message, PropertyValue
from annulet.core.model.entry import DELIVERING, PENDING, DeliveryCopy, QueueEntry
from annulet.core.policies.eviction import eviction_index_for
from annulet.core.policies.expiry import gives_time, times_of
from annulet.core.policies.queue_limits import limits_for

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.queue.entries import QueueEntries


def check_changeable(name: str, current: QueueSettings, wanted: QueueSettings) -> None:
    """Raise :class:`InvalidArgument` naming the setting when one would change that belongs to what the queue is."""
    for field in fields(current):
        old, new = getattr(current, field.name), getattr(wanted, field.name)
        if old != new and field.name not in CHANGEABLE:
            setting = field.name.replace("_", "-")
            raise InvalidArgument(
                f"queue {name!r}: {setting} is {old!r} and cannot be changed to {new!r}; declare a new queue and move "
                "the messages"
            )


def require_whole(queue: QueueEntries, settings: QueueSettings) -> None:
    """Have all of a deep queue in memory if other settings ask for that, before anything changes.

    A first time to live, an order of eviction that is not by age and ``overflow=page`` know each message; everything
    else holds for rows as it is. Raises :class:`PreconditionFailed` when that is more than memory takes, or when the
    disk does not give it now.
    """
    if not queue.order.paged_count():
        return
    limits = limits_for(settings)
    if limits is not None and limits.pages:
        what = "overflow=page"
    elif eviction_index_for(settings) is not None:
        what = f"evict={settings.evict}"
    elif gives_time(settings) and times_of(settings) != times_of(queue.settings) and not queue.order.rows_are_timed():
        what = "a time to live"
    else:
        return
    queue.read_in(what)


def revise_priority(queue: QueueEntries, entry: QueueEntry, priority: int, now: int) -> QueueEntry | None:
    """Put a pending entry at the tail of another level; see :meth:`annulet.core.queue.queue.Queue.reprioritise`.

    The message is shared with other queues and its record says the old priority, so it is copied and stored anew.
    """
    former = entry.message
    if entry.state != PENDING or entry.queue is not queue or former.priority == priority:
        return None
    message = Message(
        former.header,
        former.body,
        former.origin,
        durable=former.durable,
        priority=priority,
        accepted_at=former.accepted_at,
        expires_at=former.expires_at,
        deliver_at=former.deliver_at,
    )
    replacement = QueueEntry(queue, message, queue.take_sequence())
    replacement.redelivered = entry.redelivered
    replacement.delivery_count = entry.delivery_count
    # selectors may use the priority, so they are evaluated again; a consumer that refused it still does
    replacement.blocked = entry.blocked & ~entry.evaluated
    if queue.accounts is not None:
        queue.accounts.replaced(entry, message)
    queue.withdraw(entry)
    if queue.retention is not None:
        queue.retention.accept(replacement)
    queue.ranker.assign_again(replacement, entry, now)
    queue.insert(replacement, arrival=True)
    queue.index_expiry(replacement)
    if queue.copies is not None:
        queue.copies.revised(entry, replacement)
    if queue.events is not None:
        queue.events.reprioritised(entry, replacement, now)
    if former.record:
        queue.effects.store(message, [replacement])
        if replacement.delivery_count or message.deliver_at:  # the record alone would count anew, and wait again
            queue.effects.entry_changed(queue, replacement)
        queue.settle_record(entry)
    else:
        queue.effects.unstored(replacement)
    return replacement


def revise_delivering(entry: QueueEntry, headers: dict[str, PropertyValue], *, stored: bool = True) -> None:
    """Put application properties over those of a message in delivery, for this queue only.

    ``stored=False``: the entry is about to leave, so the change need not outlive the broker, and a body that is on disk
    stays there. Else it is read: raises :class:`~annulet.core.base.errors.ContentUnavailable`, and nothing is changed.
    Copies that readers hold are left alone: they must not change their input.
    """
    queue = entry.queue
    if entry.state != DELIVERING or isinstance(entry, DeliveryCopy) or (stored and queue.deleted):
        return
    former = entry.message
    away = entry.away and not stored
    message = Message(
        former.origin.view.annotated(former, headers),
        b"" if away else former.body,
        former.origin,
        durable=former.durable,
        priority=former.priority,
        accepted_at=former.accepted_at,
        expires_at=former.expires_at,
        deliver_at=former.deliver_at,
    )
    message.size = former.size
    if queue.accounts is not None:
        queue.accounts.replaced(entry, message)
        queue.accounts.released(entry)
    if former.record and stored:
        queue.effects.store(message, [entry])
        queue.settle_record(entry)  # of the former one, which it still has
        exchange(entry, message)
        readers = queue.reader_lists()
        if readers is not None:
            readers.stored_anew(entry)
        if entry.delivery_count or message.deliver_at:
            queue.effects.entry_changed(queue, entry)
    else:
        message.record = former.record
        if away:
            exchange_away(entry, message)
        else:
            exchange(entry, message)
