"""The plan of a send, made before any of it is done, so that it happens as a whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.host.address_accounts import AddressAccount
    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue

ROUTED: Final = "routed"
"""It goes to its queues; without any it is unroutable."""

DUPLICATE: Final = "duplicate"
"""Its address has accepted a message with its duplicate id: it goes nowhere, and the sender need not know."""

DROPPED: Final = "dropped"
"""Its address is full and its policy is DROP."""


class Leg:
    """One message on its way from one address to queues: a send has one, and one more for each copy of a divert."""

    __slots__ = ("account", "address", "duplicate_id", "fate", "message", "queues")

    def __init__(self, message: Message, address: str, queues: list[Queue], duplicate_id: str) -> None:
        self.message = message
        self.address = address
        self.queues = queues
        self.duplicate_id = duplicate_id
        self.account: AddressAccount | None = None  # where it counts; None for an address without limits
        self.fate = ROUTED

    def __repr__(self) -> str:
        return f"<Leg {self.address!r} {self.fate} to {len(self.queues)} queues>"


class Amount:
    """Messages and their body bytes that were let in but are not there yet, and how much of it an address will page."""

    __slots__ = ("bytes", "messages", "paged", "paged_bytes")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.paged = 0
        self.paged_bytes = 0

    def add(self, size: int, *, paged: bool = False) -> None:
        """Count one more message."""
        self.messages += 1
        self.bytes += size
        if paged:
            self.paged += 1
            self.paged_bytes += size


class Claims:
    """The share of the limits that the earlier legs of a send, or of a transaction, will take."""

    __slots__ = ("_accounts", "_identifiers", "_queues")

    def __init__(self) -> None:
        self._queues: dict[Queue, Amount] = {}
        self._accounts: dict[AddressAccount, Amount] = {}
        self._identifiers: set[tuple[str, str]] = set()

    def of_queue(self, queue: Queue) -> Amount:
        """Return the count and bytes admitted to a queue."""
        return self._queues.get(queue, NOTHING)

    def of_account(self, account: AddressAccount) -> Amount:
        """Return the count and bytes admitted to an address."""
        return self._accounts.get(account, NOTHING)

    def has_identifier(self, address: str, duplicate_id: str) -> bool:
        """Return whether an earlier leg carries this duplicate id to this address."""
        return (address, duplicate_id) in self._identifiers

    def add(self, leg: Leg) -> None:
        """Claim what a leg will take."""
        size = leg.message.size
        for queue in leg.queues:
            if queue.may_refuse:
                self._queues.setdefault(queue, Amount()).add(size)
        account = leg.account
        if account is not None:
            amount = self._accounts.setdefault(account, Amount())
            amount.add(size, paged=account.pages(size, amount))
        if leg.duplicate_id and leg.queues:  # an address remembers what a queue took
            self._identifiers.add((leg.address, leg.duplicate_id))


NOTHING: Final = Amount()
