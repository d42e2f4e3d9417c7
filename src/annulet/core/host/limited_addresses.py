"""Addresses with limits: their accounts are opened when the first message is about to enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.configuration.address_limits import AddressLimits
from annulet.core.host.account_row_shares import address_of
from annulet.core.host.address_accounts import AddressAccount, AddressAccounts
from annulet.core.host.retroactive import is_ring_name
from annulet.core.model.compact_messages import CompactDelivery, entry_in, origin_of
from annulet.core.model.entry import REMOVED
from annulet.core.paging.merged_areas import JoinedPages

if TYPE_CHECKING:
    from annulet.core.configuration.address_settings import AddressSettingsRepository
    from annulet.core.message.message import Message
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.routing_graph import RoutingGraph


class LimitedAddresses:
    """The accounts of the addresses of a graph whose settings have limits.

    ``accounts``: those that are open. ``uncounted``: queues may hold messages of addresses that were given limits after
    they came.
    """

    def __init__(self, graph: RoutingGraph, address_settings: AddressSettingsRepository) -> None:
        self.accounts = AddressAccounts(graph.effects)
        self.uncounted = True
        self._graph = graph
        self._settings = address_settings

    def account_of(self, address: str) -> AddressAccount | None:
        """Return the account of an address with limits, opened when the first message is about to enter; else ``None``.

        Messages already queued when the limits were set count from then on.
        """
        account = self.accounts.by_address.get(address)
        if account is not None:
            return account
        limits = self._settings.resolve(address).limits
        if limits.unlimited:
            return None
        if not self.accounts.by_address:
            for queue in self._graph.queues.values():
                self.tell(queue)
        if self.uncounted:
            self._count_held()
        return self.accounts.account_for(address, limits)

    def tell(self, queue: Queue) -> None:
        """Have the accounts told of what leaves a queue.

        Not of what leaves a ring: it has no consumer, so an address would stay full for ever.
        """
        if not is_ring_name(queue.name):
            queue.accounts = self.accounts

    def limit(self, addresses: list[str]) -> None:
        """Change or close the accounts of addresses after their settings."""
        self.accounts.limit({address: self._settings.resolve(address).limits for address in addresses})

    def _count_held(self) -> None:
        """Open the accounts of all addresses with limits whose messages queues hold. Once per change.

        O(messages in memory, pages): messages on disk are counted there, nothing is read. Address by address it would
        be that much for each name of a send. Deliveries that are folded stay so where their address has no limits.
        """
        self.uncounted = False
        limits: dict[str, AddressLimits] = {}  # of all addresses of messages that are held
        held: dict[str, dict[Message, int]] = {}
        opened: list[tuple[Queue, str, tuple[int, int], int]] = []
        for queue in self._graph.queues.values():
            if is_ring_name(queue.name):
                continue
            pending = queue.order.in_memory()
            held_here: list[Slot] = [*pending, *queue.schedule.entries(), *queue.delivering.slots()]
            here: dict[Message, str] = {}
            left = queue.order.paged_count()
            for slot in held_here:
                address = address_of(origin_of(slot))
                if not self._is_uncounted(address, limits):
                    left += isinstance(slot, CompactDelivery) or self._is_left(slot)
                    continue
                entry = entry_in(slot)
                if entry.state != REMOVED:
                    here[entry.message] = address
            for message, address in here.items():
                counts = held.setdefault(address, {})
                counts[message] = counts.get(message, 0) + 1
            rows = JoinedPages(queue.order.page_parts()).tally(address_of, queue.next_sequence)
            opened += [(queue, name, some, left) for name, some in rows.items() if self._is_uncounted(name, limits)]
        self._open_accounts(limits, held, opened)

    def _is_uncounted(self, address: str, limits: dict[str, AddressLimits]) -> bool:
        """Return whether an address has limits and no account yet. ``limits``: those that are known."""
        if address not in limits:
            limits[address] = self._settings.resolve(address).limits
        return not limits[address].unlimited and address not in self.accounts.by_address

    def _is_left(self, entry: QueueEntry) -> bool:
        """Return whether an entry is there and not charged."""
        return entry.state != REMOVED and not self.accounts.counted(entry.message)

    def _open_accounts(
        self,
        limits: dict[str, AddressLimits],
        held: dict[str, dict[Message, int]],
        opened: list[tuple[Queue, str, tuple[int, int], int]],
    ) -> None:
        """Open accounts, which count rows first, and then messages in the order in which they came."""
        for queue, address, rows, left in opened:
            account = self.accounts.account_for(address, limits[address])
            assert account is not None
            self.accounts.count_rows(queue, account, rows, left)
        for address, counts in held.items():
            account = self.accounts.account_for(address, limits[address])
            assert account is not None
            for message in _by_arrival(list(counts)):
                self.accounts.charge(account, message, counts[message])


def counting(queues: list[Queue]) -> int:
    """Return how many of these count what they hold for an address with limits: all but rings."""
    return sum(not is_ring_name(queue.name) for queue in queues)


def _by_arrival(messages: list[Message]) -> list[Message]:
    """Return messages in the order in which they came, as an account counts them: queues may have another one.

    The log has numbered those that are stored, so after a restart the order is the same. Of others the millisecond is
    known.
    """
    if all(message.record for message in messages):
        return sorted(messages, key=lambda message: message.record)
    return sorted(messages, key=lambda message: message.accepted_at)
