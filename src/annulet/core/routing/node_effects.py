"""The effects of a virtual host's nodes, beside those of its queues: definitions, limits of addresses, operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from annulet.core.model.effects import Effects

if TYPE_CHECKING:
    from annulet.core.model.audit_trail import AuditEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.address import Address

DUPLICATES_MAX: Final = 20_000
"""Duplicate ids an address remembers when nothing else is set (Artemis ``id-cache-size``)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeEffects(Effects):
    """Does nothing: the base for recorders and for a core without durability."""

    def queue_created(self, queue: Queue) -> None:
        """The core created a durable queue itself (auto-create, retroactive address): store it, set its id."""

    def queue_deleted(self, queue: Queue) -> None:
        """A queue was deleted, by command, auto-delete or expiry, and none of its dead letters is on its way."""

    def name_taken(self, queue: Queue) -> None:
        """A queue is about to get the name of this deleted one, for which :meth:`queue_deleted` comes later."""

    def arguments_without_effect(self, queue: Queue, names: tuple[str, ...]) -> None:
        """A queue was declared with arguments that change nothing here."""

    def binding_created(self, binding: Binding) -> None:
        """The core bound its own durable queue to a durable address: store it."""

    def address_created(self, address: Address) -> None:
        """The core created a durable address itself: store it."""

    def address_blocked(self, name: str, *, blocked: bool) -> None:
        """An address with the full policy BLOCK filled up, or has room again: block or unblock its publishers."""

    def address_drops(self, name: str, rule: str) -> None:
        """An address dropped a message because it is full, the first one under its limits; ``rule`` is the setting."""

    def exchange_deleted(self, name: str) -> None:
        """An exchange was deleted, by command or auto-delete."""

    def duplicate_noted(self, address: str, duplicate_id: str, cache_size: int = DUPLICATES_MAX) -> None:
        """An address accepted a message with this duplicate id and remembers its last ``cache_size`` ids.

        Called in the same turn as the ``store`` of the message, inside its transaction if there is one.
        """

    def duplicates_forgotten(self, address: str) -> None:
        """An address remembers no duplicate ids any more."""

    def audited(self, entry: AuditEntry) -> None:
        """An operator changed something: a management operation was carried out."""
