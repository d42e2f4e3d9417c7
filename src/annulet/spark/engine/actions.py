"""The effect of each command on its queue, by calls of the core: the counterpart of a protocol's channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import UNLIMITED
from annulet.core.configuration.address_settings import (
    AddressSettingsRepository,
    ResolvedQueue,
    change_queue,
    resolve_queue,
)
from annulet.core.configuration.arguments.consumers import parse_consumer_arguments
from annulet.core.host.duplicate_ids import ID_CACHE_SIZE, DuplicateCache
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.management import expire_messages, select
from annulet.core.management.operation import STOPPED
from annulet.core.message.filters import compile_filter
from annulet.core.message.selector_names import lookup_for
from annulet.core.model.consumer import Consumer, CreditWindow, LinkCredit
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.spark.engine.commands import LINK, Command, CommandRefused
from annulet.spark.engine.content import message_of
from annulet.spark.engine.effects import (
    DELIVERY,
    DUPLICATE,
    FILTERED,
    LOSS,
    REFUSED,
    EngineEffects,
    EngineForwarder,
)

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.spark.engine.replica import Replica

UNAVAILABLE: Final = {"expires": "a queue of the engine goes when a 'delete' command says so; leave it out"}
"""Settings, by field, that need a component watching all queues."""


class Selected(msgspec.Struct, forbid_unknown_fields=True):
    """``arguments`` of ``expire``: a selection as the broker's operations take it (docs/management-operations.md)."""

    ids: list[int] | None = None
    selector: str = ""
    everything: bool = False
    limit: int = UNLIMITED
    scheduled: bool = False


Values = dict[str, Any]
Action = Callable[["Replica", Command, bytes], Values]


def configure(replica: Replica, command: Command, body: bytes) -> Values:
    """Declare the queue, or change some settings of an existing one."""
    del body
    given = command.arguments or {}
    if replica.queue is None:
        resolved = resolve_queue(replica.name, replica.name, given, AddressSettingsRepository())
        _check(resolved)
        replica.filter = compile_filter(resolved.settings.selector, "queue setting 'selector'")
        replica.queue = Queue(
            replica.name,
            resolved.settings,
            EngineEffects(replica.output),
            replica.ledger(),
            forwarder=EngineForwarder(replica.output),
        )
        replica.queue.note_use(replica.now)
    else:
        assert replica.resolved is not None
        resolved = change_queue(replica.resolved, given)
        _check(resolved)
        most, takers = resolved.settings.max_consumers, replica.queue.takers
        if 0 <= most < takers:
            raise CommandRefused(f"max-consumers cannot be {most}: the queue has {takers} consumers; cancel some first")
        wanted = compile_filter(resolved.settings.selector, "queue setting 'selector'")
        if resolved.settings != replica.queue.settings:
            replica.queue.update(resolved.settings, replica.now)
        replica.filter = wanted
    replica.resolved = resolved
    replica.queue.note_origins(resolved.origins)
    return {}


def _check(resolved: ResolvedQueue) -> None:
    for field, remedy in UNAVAILABLE.items():
        value = getattr(resolved.settings, field)
        if value >= 0:
            raise CommandRefused(f"field 'arguments': {field} is {value}, and {remedy}")


def publish(replica: Replica, command: Command, body: bytes) -> Values:
    """Send a message to the queue. Filter, duplicate and refusal are outcomes; else its number in the queue."""
    queue = replica.existing()
    message = message_of(command, body, replica.now)
    if command.duplicate_id and replica.duplicates is not None and command.duplicate_id in replica.duplicates:
        return {"state": DUPLICATE, "reason": f"duplicate_id {command.duplicate_id!r} came before"}
    if replica.filter is not None and not replica.filter.matches(lookup_for(message)):
        return {"state": FILTERED, "reason": f"the queue's selector {queue.settings.selector!r} does not match"}
    refusal = queue.refusal(message) if queue.may_refuse else ""
    if refusal:
        return {"state": REFUSED, "reason": refusal}
    entry = queue.enqueue(message, replica.now)
    if command.duplicate_id:
        if replica.duplicates is None:
            replica.duplicates = DuplicateCache(ID_CACHE_SIZE)
        replica.duplicates.add(command.duplicate_id)
    return {"message": entry.sequence}


def consume(replica: Replica, command: Command, body: bytes) -> Values:
    """Attach a consumer with its credit."""
    del body
    queue = replica.existing()
    settings = parse_consumer_arguments(command.arguments or {})
    session = replica.opened(command.session)
    if command.consumer in session.consumers:
        raise CommandRefused(
            f"field 'consumer' is {command.consumer!r}: session {command.session!r} has one of that name; cancel it "
            "first, or change its credit"
        )
    most = queue.settings.max_consumers
    if 0 <= most <= queue.takers:
        raise CommandRefused(f"the queue has {queue.takers} consumers and max-consumers is {most}; cancel one first")
    window = CreditWindow(command.credit, command.credit_bytes)
    if command.credit_mode == LINK:
        window = LinkCredit()
        window.grant(max(0, command.credit))
    consumer = Consumer(
        session,
        queue,
        command.consumer,
        window=window,
        auto_acknowledge=command.automatic,
        priority=settings.priority,
        settings=settings,
    )
    session.attach(consumer, replica.now)
    return {}


def _consumer(replica: Replica, command: Command) -> Consumer:
    consumer = replica.session(command.session).consumers.get(command.consumer)
    if consumer is None:
        raise CommandRefused(
            f"field 'consumer' is {command.consumer!r}: session {command.session!r} has none such; consume first"
        )
    return consumer


def credit(replica: Replica, command: Command, body: bytes) -> Values:
    """Give a consumer another credit, and serve it."""
    del body
    consumer = _consumer(replica, command)
    window = consumer.window
    if isinstance(window, LinkCredit):
        window.grant(max(0, command.credit))
    else:
        window.messages_max, window.bytes_max = command.credit, command.credit_bytes
    consumer.queue.wake(replica.now)
    return {}


def cancel(replica: Replica, command: Command, body: bytes) -> Values:
    """End a consumer; its deliveries stay with the session."""
    del body
    _consumer(replica, command)
    replica.session(command.session).detach(command.consumer, replica.now)
    return {}


def get(replica: Replica, command: Command, body: bytes) -> Values:
    """Take up to ``credit`` messages, by default one; of a non-destructive queue one, as it would be the same again."""
    del body
    queue = replica.existing()
    session = replica.opened(command.session)
    wanted = command.credit if command.credit >= 0 else 1
    if queue.settings.non_destructive:
        wanted = min(wanted, 1)
    count = 0
    while count < wanted:
        taken = session.get(queue, replica.now, auto_acknowledge=command.automatic)
        if taken is None:
            break
        count += 1
        replica.output.add_message(DELIVERY, taken[0], session=session.name, tag=taken[1])
    return {"messages": count}


def _taken(replica: Replica, command: Command) -> list[QueueEntry]:
    return replica.session(command.session).take(command.tag, multiple=command.multiple)


def acknowledge(replica: Replica, command: Command, body: bytes) -> Values:
    """Acknowledge deliveries."""
    del body
    entries = _taken(replica, command)
    replica.session(command.session).acknowledge_entries(entries, replica.now)
    return {"messages": len(entries)}


def reject(replica: Replica, command: Command, body: bytes) -> Values:
    """Refuse deliveries for good."""
    del body
    entries = _taken(replica, command)
    replica.session(command.session).reject_entries(entries, replica.now, requeue=False)
    return {"messages": len(entries)}


def requeue(replica: Replica, command: Command, body: bytes) -> Values:
    """Give deliveries back; each counts as an attempt."""
    del body
    entries = _taken(replica, command)
    replica.session(command.session).reject_entries(entries, replica.now, requeue=True)
    return {"messages": len(entries)}


def release(replica: Replica, command: Command, body: bytes) -> Values:
    """Give deliveries back as if they had not been made (AMQP 1.0 ``released``)."""
    del body
    entries = _taken(replica, command)
    queues = {entry.queue: None for entry in entries}  # more than one after a queue was deleted and configured again
    for queue in queues:
        queue.return_entries([entry for entry in entries if entry.queue is queue], replica.now, counted=False)
        queue.wake(replica.now)
    return {"messages": len(entries)}


def rollback(replica: Replica, command: Command, body: bytes) -> Values:
    """Return all unsettled messages of a session; each counts as an attempt."""
    del body
    session = replica.session(command.session)
    count = len(session.unacknowledged)
    if count:
        session.recover(replica.now)
    return {"messages": count}


def close(replica: Replica, command: Command, body: bytes) -> Values:
    """End a session's consumers, and return its unsettled messages."""
    del body
    session = replica.session(command.session)
    count = len(session.unacknowledged)
    del replica.sessions[command.session]
    session.close(replica.now)
    return {"messages": count}


def pause(replica: Replica, command: Command, body: bytes) -> Values:
    """Stop dispatch."""
    del command, body
    replica.existing().pause(replica.now)
    return {}


def resume(replica: Replica, command: Command, body: bytes) -> Values:
    """Go on with dispatch."""
    del command, body
    replica.existing().resume(replica.now)
    return {}


def purge(replica: Replica, command: Command, body: bytes) -> Values:
    """Remove all pending and scheduled messages."""
    del command, body
    return {"messages": replica.existing().purge(replica.now)}


def expire(replica: Replica, command: Command, body: bytes) -> Values:
    """Expire what ``arguments`` select, as the broker's operation does; due messages have expired before any
    command."""
    del body
    queue = replica.existing()
    values: Values = {}
    if command.arguments:
        try:
            chosen = msgspec.convert(command.arguments, Selected)
        except msgspec.ValidationError as error:
            allowed = ", ".join(Selected.__struct_fields__)
            raise CommandRefused(f"field 'arguments': {error}; a selection has {allowed}") from error
        host = VirtualHost("engine", NodeEffects())  # only names the observer of the operation: there is none
        operation = expire_messages(host, queue, select(**msgspec.structs.asdict(chosen)), user="", now=replica.now)
        while not operation.step(replica.now):
            pass
        if operation.state == STOPPED:
            values = {"state": REFUSED, "reason": operation.reason}
    expired = RemovalReason.EXPIRED.value
    return {**values, "messages": sum(row.effect == LOSS and row.reason == expired for row in replica.output.rows)}


def delete(replica: Replica, command: Command, body: bytes) -> Values:
    """Delete the queue with its messages; sessions may still settle their deliveries of it."""
    del command, body
    queue = replica.existing()
    count = queue.delete(replica.now)
    replica.queue = replica.resolved = replica.filter = replica.duplicates = None
    replica.sessions = {name: session for name, session in replica.sessions.items() if session.unacknowledged}
    return {"messages": count}


def advance(replica: Replica, command: Command, body: bytes) -> Values:
    """Let time go on: done before any command."""
    del replica, command, body
    return {}


def restore(replica: Replica, command: Command, body: bytes) -> Values:
    """Put a message back at the place it had (:mod:`annulet.spark.engine.portable`)."""
    queue = replica.existing()
    queue.restore(
        message_of(command, body, replica.now),
        command.message,
        redelivered=command.redelivered,
        delivery_count=command.delivery_count,
        deliver_at=command.due_at,
    )
    return {}


def restored(replica: Replica, command: Command, body: bytes) -> Values:
    """End the restoring of messages."""
    del body
    replica.existing().finish_restore(command.message)
    return {}


ACTIONS: Final[dict[str, Action]] = {
    "configure": configure,
    "publish": publish,
    "consume": consume,
    "credit": credit,
    "cancel": cancel,
    "get": get,
    "acknowledge": acknowledge,
    "reject": reject,
    "requeue": requeue,
    "release": release,
    "rollback": rollback,
    "close": close,
    "pause": pause,
    "resume": resume,
    "purge": purge,
    "expire": expire,
    "delete": delete,
    "advance": advance,
    "restore": restore,
    "restored": restored,
}
"""By command. Each returns columns of its outcome."""
