"""Queues and addresses that hold their publishers back (``overflow=block``, address full policy BLOCK), with these
publishers.

A virtual host has one table. It is asked about after each publish, so as long as nothing is blocked the answer is one
attribute: :attr:`BlockedTargets.any`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.model.queue_state import QueueState
    from annulet.core.routing.routes import Route


class HeldPublisher(Protocol):
    """A channel, or what another protocol publishes through."""

    def released(self, target: BlockedTarget) -> None:
        """A target that holds it has room again. Must not call back into the core."""


class BlockedTarget:
    """One blocked queue or address, with its publishers since."""

    __slots__ = ("name", "publishers")

    def __init__(self, name: str) -> None:
        self.name = name  # for people: "queue 'orders'"
        self.publishers: dict[HeldPublisher, None] = {}


class BlockedTargets:
    """The blocked queues and addresses of one virtual host."""

    __slots__ = ("addresses", "any", "queues")

    def __init__(self) -> None:
        self.queues: dict[QueueState, BlockedTarget] = {}
        self.addresses: dict[str, BlockedTarget] = {}
        self.any = False

    def queue_changed(self, queue: QueueState) -> None:
        """A queue filled up or drained; ``queue.blocked`` says which."""
        if queue.blocked:
            self.queues.setdefault(queue, BlockedTarget(f"queue '{queue.name}'"))
            self.any = True
        else:
            self._release(self.queues.pop(queue, None))

    def address_changed(self, name: str, *, blocked: bool) -> None:
        """An address filled up, or has room again."""
        if blocked:
            self.addresses.setdefault(name, BlockedTarget(f"address '{name}'"))
            self.any = True
        else:
            self._release(self.addresses.pop(name, None))

    def marks(self) -> dict[QueueState, int]:
        """Return what tells after a publish which of the blocked queues it went into."""
        return {queue: queue.counters.messages_added for queue in self.queues}

    def entered(self, marks: dict[QueueState, int]) -> list[BlockedTarget]:
        """Return the blocked queues that got messages since :meth:`marks`, those it blocked among them."""
        return [
            target for queue, target in self.queues.items() if marks.get(queue, -1) != queue.counters.messages_added
        ]

    def on_way(self, route: Route) -> list[BlockedTarget]:
        """Return the blocked ones among the fixed queues of a route, and its address if that is blocked."""
        found = [self.queues[queue] for queue in route.queues if queue.blocked and queue in self.queues]
        return found + self.at([route.address])

    def at(self, addresses: Iterable[str]) -> list[BlockedTarget]:
        """Return those of some addresses that are blocked, each once."""
        return list({name: self.addresses[name] for name in addresses if name in self.addresses}.values())

    def _release(self, target: BlockedTarget | None) -> None:
        self.any = bool(self.queues or self.addresses)
        if target is not None:
            for publisher in list(target.publishers):
                publisher.released(target)
