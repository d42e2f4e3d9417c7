"""The share of an account in the messages that a queue had only on disk when the account was opened.

It knows how many and how large they are from the columns of the rows, and none by itself: to know each it would have to
read all of them into memory, and a disk that refuses would cost them. So they stay rows, or become rows again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.routing.routes import address_of_key

if TYPE_CHECKING:
    from annulet.core.host.address_accounts import AddressAccount
    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.model.queue_state import QueueState


def address_of(origin: Origin) -> str:
    """Return the address a message was sent to, as limits go by it; empty where only the log knows it."""
    return origin.exchange or address_of_key(origin.routing_key)


class RowShare:
    """The share of one account in the rows of one queue.

    ``upto``: the queue's messages below this sequence that no account knows each by itself were there when it was
    opened. ``left``: how many of these have not left the queue, of other addresses too; when there are none, what an
    estimate had too much goes.
    """

    __slots__ = ("account", "bytes", "left", "messages", "upto")

    def __init__(self, account: AddressAccount, upto: int, messages: int, octets: int, left: int) -> None:
        self.account = account
        self.upto = upto
        self.messages = messages
        self.bytes = octets  # of bodies
        self.left = left

    def take(self, messages: int, octets: int) -> None:
        """Count out messages that have left the queue, but no more than there are; the last message takes all bytes
        with it."""
        messages = min(messages, self.messages) if self.left > 0 else self.messages
        octets = min(octets, self.bytes) if messages < self.messages else self.bytes
        self.messages -= messages
        self.bytes -= octets
        self.account.subtract_rows(messages, octets)


class RowShares:
    """The shares of all queues of a virtual host."""

    __slots__ = ("_by_queue",)

    def __init__(self) -> None:
        self._by_queue: dict[QueueState, list[RowShare]] = {}

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._by_queue)

    def add(self, queue: QueueState, share: RowShare) -> None:
        """Count rows of a queue; its account gets them here."""
        self._by_queue.setdefault(queue, []).append(share)
        share.account.add_rows(share.messages, share.bytes)

    def share_of(self, entry: QueueEntry) -> RowShare | None:
        """Return the share in which an entry counts that no account knows by itself."""
        address = address_of(entry.message.origin)
        for share in self._by_queue.get(entry.queue, ()):
            if entry.sequence < share.upto and share.account.name == address:
                return share
        return None

    def left(self, entry: QueueEntry) -> list[AddressAccount]:
        """An entry left its queue that no account knows by itself. Returns the accounts that may have changed."""
        shares = self._by_queue.get(entry.queue)
        if shares is None:
            return []
        address, size = address_of(entry.message.origin), entry.message.size
        found = [share for share in shares if entry.sequence < share.upto]
        unknown = not address  # it was not read: of some address, so of one that has any left
        for share in found:
            share.left -= 1
            if share.account.name == address or (unknown and share.messages):
                unknown = False
                share.take(1, size)
            elif not share.left:
                share.take(0, 0)
        return self._changed(entry.queue, found)

    def gone(self, queue: QueueState, rows: QueueArea) -> list[AddressAccount]:
        """Rows of a queue are leaving together. Returns the accounts that may have changed."""
        shares = self._by_queue.get(queue, [])
        for share in shares:
            found = rows.tally(address_of, share.upto)
            share.left -= sum([count for count, _ in found.values()])
            share.take(*found.get(share.account.name, (0, 0)))
        return self._changed(queue, shares)

    def lost(self, queue: QueueState, rows: int, octets: int) -> list[AddressAccount]:
        """Rows were found to be damaged, it is not known of which address; so many ``octets`` were theirs or such
        rows'.

        Returns the accounts that may have changed.
        """
        shares = self._by_queue.get(queue, [])
        for share in shares:
            there = max(1, share.left)
            share.left -= rows
            share.take(rows * share.messages // there, octets * share.messages // there)
        return self._changed(queue, shares)

    def close(self, accounts: set[AddressAccount]) -> None:
        """Forget what these accounts counted."""
        for queue in list(self._by_queue):
            self._keep(queue, [share for share in self._by_queue[queue] if share.account not in accounts])

    def forget(self, queue: QueueState) -> list[AddressAccount]:
        """A queue is gone. Returns the accounts that may have changed."""
        shares = self._by_queue.get(queue, [])
        for share in shares:
            share.take(share.messages, share.bytes)
        return self._changed(queue, shares)

    def _changed(self, queue: QueueState, shares: list[RowShare]) -> list[AddressAccount]:
        if not all(share.messages for share in shares):
            self._keep(queue, [share for share in self._by_queue[queue] if share.messages])
        return [share.account for share in shares]

    def _keep(self, queue: QueueState, shares: list[RowShare]) -> None:
        if shares:
            self._by_queue[queue] = shares
        else:
            del self._by_queue[queue]
