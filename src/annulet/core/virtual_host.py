"""A virtual host: exchanges, queues and bindings, and the way of a message from an exchange into queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.arguments import Arguments, parse_queue_arguments
from annulet.core.equivalence import require_same, require_same_settings
from annulet.core.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from annulet.core.ledger import LossLedger
from annulet.core.publishing import Publishing
from annulet.core.queue import Queue
from annulet.core.routing_graph import ROUTES_MAX

if TYPE_CHECKING:
    from annulet.core.effects import Effects

__all__ = ["ROUTES_MAX", "VirtualHost"]


class VirtualHost(Publishing):
    """Everything clients can name, and nothing of another virtual host."""

    def __init__(self, name: str, effects: Effects, *, ledger: LossLedger | None = None) -> None:
        super().__init__(name, effects)
        self.ledger = LossLedger() if ledger is None else ledger

    # ------------------------------------------------------------------ queues

    def queue_for(self, name: str, owner: object | None = None) -> Queue:
        """Return a queue that ``owner``'s connection may use. Raises :class:`NotFound`, :class:`ResourceLocked`."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}': "
                "it belongs to another connection"
            )
        return queue

    def declare_queue(
        self,
        name: str,
        *,
        now: int,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
        arguments: Arguments | None = None,
        queue_id: int = 0,
        server_named: bool = False,
    ) -> Queue:
        """Create a queue, or check that the existing one is the same.

        ``owner``: the connection an exclusive queue belongs to. ``server_named``: the broker chose the name, which may
        then start with ``amq.``. Raises :class:`ResourceLocked`, :class:`PreconditionFailed`, :class:`InvalidArgument`,
        :class:`AccessRefused`.
        """
        settings = parse_queue_arguments({} if arguments is None else arguments)
        if name in self.queues:
            queue = self.queue_for(name, owner)
            what = f"queue '{name}' in vhost '{self.name}'"
            require_same("durable", what, durable, queue.durable)
            require_same("auto_delete", what, auto_delete, queue.auto_delete)
            require_same("exclusive", what, owner is not None, queue.owner is not None)
            require_same_settings(what, settings, queue.settings)
            queue.last_used_at = now
            return queue
        if not server_named:
            self._refuse_reserved("queue", name)
        queue = Queue(
            name,
            settings,
            self.effects,
            self.ledger,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            queue_id=queue_id,
        )
        queue.last_used_at = now
        self.queues[name] = queue
        self._bindings_to_queue[queue] = {}
        self._graph_changed()
        return queue

    def delete_queue(self, queue: Queue, now: int, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue with its bindings, messages and consumers. Returns how many messages were pending.

        Raises :class:`PreconditionFailed` when ``if_unused`` and it has consumers, or ``if_empty`` and messages pend.
        """
        if queue.deleted:
            return 0
        what = f"queue '{queue.name}' in vhost '{self.name}'"
        if if_unused and queue.users:
            raise PreconditionFailed(
                f"{what} in use: it has {queue.consumers.count} consumers and {len(queue.leases)} leases; end them or "
                "delete without if-unused"
            )
        queue.expire(now)
        if if_empty and queue.order.count:
            raise PreconditionFailed(
                f"{what} not empty: it holds {queue.order.count} messages; purge it or delete without if-empty"
            )
        for binding in self.bindings_of_queue(queue):
            self._unbind(binding)
        del self.queues[queue.name]
        del self._bindings_to_queue[queue]
        self._graph_changed()
        pending = queue.delete(now)
        self.effects.queue_deleted(queue)
        return pending

    def check_consumer(self, queue: Queue, *, exclusive: bool) -> None:
        """Check that one more consumer may be attached. Raises :class:`AccessRefused` (AMQP 0-9-1 §1.8.3.3)."""
        if any(consumer.exclusive for consumer in queue.consumers):
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' in exclusive use by another consumer; "
                "cancel that one first"
            )
        if exclusive and queue.users:
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' has {queue.consumers.count} consumers and "
                f"{len(queue.leases)} leases; exclusive use needs a queue without any"
            )

    def consumer_removed(self, queue: Queue, now: int) -> bool:
        """Delete an auto-delete queue that lost its last consumer; call after each consumer that ends.

        A session that closes returns its deliveries first. Returns whether the queue was deleted.
        """
        if queue.deleted or not queue.auto_delete or not queue.had_consumer or queue.users:
            return False
        self.delete_queue(queue, now)
        return True

    def connection_closed(self, owner: object, now: int) -> list[Queue]:
        """Delete the exclusive queues of a connection that ended, and return them."""
        owned = [queue for queue in self.queues.values() if queue.owner is owner]
        for queue in owned:
            self.delete_queue(queue, now)
        return owned

    def tick(self, now: int) -> int:
        """Expire what is due: messages, and queues unused for their ``expires``. Returns when more is due; 0 for never.

        Messages and queues that arrive later may be due earlier, so call it at least every second. Being late costs
        memory and counters only: an expired message is never delivered.
        """
        following = 0
        for queue in list(self.queues.values()):
            queue.expire(now)
            at = queue.next_expiry_at()
            if queue.settings.expires >= 0 and not queue.users:
                unused_at = queue.last_used_at + queue.settings.expires
                if unused_at <= now:
                    self.delete_queue(queue, now)
                    continue
                at = unused_at if at == 0 else min(at, unused_at)
            if at and (following == 0 or at < following):
                following = at
        return following
