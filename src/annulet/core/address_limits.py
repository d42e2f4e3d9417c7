"""Limits of an address across its queues: how much it holds, one body counted once, and what happens when it is full.

Artemis's address full policies: PAGE lets messages in and keeps those beyond the limit out of memory, DROP takes them
from the sender and discards them, BLOCK lets the message in that crosses the limit and holds the publishers back, FAIL
refuses. Only addresses with limits keep an account, and only their messages are known to it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.effects import Effects
    from annulet.core.message import Message

PAGE: Final = "page"
DROP: Final = "drop"
BLOCK: Final = "block"
FAIL: Final = "fail"
FULL_POLICIES: Final = (PAGE, DROP, BLOCK, FAIL)

IDLE_MAX: Final = 10_000
"""Accounts kept before those that hold nothing and have nothing to tell are closed, about 3 MB."""


class AddressLimits:
    """What one address may hold. Sizes are body bytes; -1 is no limit.

    ``reject_threshold``: with BLOCK, the bytes above which even a publisher that does not stop is refused.
    """

    __slots__ = ("max_bytes", "max_messages", "policy", "reject_threshold")

    def __init__(
        self, *, max_bytes: int = -1, max_messages: int = -1, policy: str = PAGE, reject_threshold: int = -1
    ) -> None:
        self.max_bytes = max_bytes
        self.max_messages = max_messages
        self.policy = policy
        self.reject_threshold = reject_threshold

    @property
    def unlimited(self) -> bool:
        """Say whether nothing is limited, so that no account is needed."""
        return self.max_bytes < 0 and self.max_messages < 0 and not self._rejects

    @property
    def _rejects(self) -> bool:
        return self.policy == BLOCK and self.reject_threshold >= 0

    def exceeded_by(self, messages: int, octets: int) -> bool:
        """Say whether this much is more than the address may hold."""
        return 0 <= self.max_messages < messages or 0 <= self.max_bytes < octets

    def reached_by(self, messages: int, octets: int) -> bool:
        """Say whether this much leaves no room for another message, however small."""
        return 0 <= self.max_messages <= messages or 0 <= self.max_bytes <= octets

    def refused_by(self, octets: int) -> bool:
        """Say whether this many bytes are above BLOCK's hard limit."""
        return self._rejects and octets > self.reject_threshold


class AddressAccount:
    """What one address with limits holds now, and what its policy did so far."""

    __slots__ = ("blocked", "bytes", "dropped", "limits", "messages", "name", "paged", "paged_bytes", "refused")

    def __init__(self, name: str, limits: AddressLimits) -> None:
        self.name = name
        self.limits = limits
        self.messages = 0  # in at least one queue, each once
        self.bytes = 0  # their bodies
        self.blocked = False  # BLOCK: publishers are held back
        self.dropped = 0  # DROP: messages discarded so far
        self.refused = 0  # FAIL and BLOCK's hard limit: messages refused so far
        self.paged: OrderedDict[Message, None] = OrderedDict()  # PAGE: those beyond the limit, oldest first
        self.paged_bytes = 0

    @property
    def paged_count(self) -> int:
        """Messages beyond the limit of an address that pages."""
        return len(self.paged)

    def refusal(self, size: int, more: int = 0, more_bytes: int = 0) -> str:
        """Say why FAIL or BLOCK's hard limit refuses a message of ``size`` body bytes; empty when they do not.

        ``more`` messages of ``more_bytes`` body bytes were let in before it and are not counted yet.
        """
        limits = self.limits
        messages = self.messages + more + 1
        octets = self.bytes + more_bytes + size
        if limits.refused_by(octets):
            return (
                f"address '{self.name}' is full: with this message {octets} bytes, but "
                f"max-size-bytes-reject-threshold is {limits.reject_threshold}; consume from its queues"
            )
        if limits.policy != FAIL or not limits.exceeded_by(messages, octets):
            return ""
        return (
            f"address '{self.name}' is full: with this message {messages} messages and {octets} bytes, but "
            f"max-size-messages is {_spell(limits.max_messages)} and max-size-bytes is {_spell(limits.max_bytes)} "
            "(address-full-policy fail); consume from its queues or raise the limit"
        )

    def drops(self, size: int, more: int = 0, more_bytes: int = 0) -> bool:
        """Say whether DROP discards a message of ``size`` body bytes; ``more`` as for :meth:`refusal`."""
        limits = self.limits
        return limits.policy == DROP and limits.exceeded_by(self.messages + more + 1, self.bytes + more_bytes + size)

    def add(self, message: Message) -> None:
        """Count a message that goes into the address's queues; PAGE pages it when the rest leaves it no room.

        Once an address pages it goes on until all that is paged has moved up: order is kept.
        """
        self.messages += 1
        self.bytes += message.size
        if self.limits.policy == PAGE and (
            self.paged or self.limits.exceeded_by(self.messages - len(self.paged), self.bytes - self.paged_bytes)
        ):
            self.paged[message] = None
            self.paged_bytes += message.size

    def subtract(self, message: Message) -> None:
        """Stop counting a message no queue holds any more; paged ones move up into the room it leaves."""
        self.messages -= 1
        self.bytes -= message.size
        if message in self.paged:
            self._move_up(message)
        while self.paged:
            first = next(iter(self.paged))
            if self.limits.policy == PAGE and self.limits.exceeded_by(
                self.messages - len(self.paged) + 1, self.bytes - self.paged_bytes + first.size
            ):
                return
            self._move_up(first)

    def settle_blocked(self) -> bool:
        """Bring ``blocked`` up to date; say whether it changed. Blocked at the limit, open again below it."""
        blocked = self.limits.policy == BLOCK and self.limits.reached_by(self.messages, self.bytes)
        changed = blocked is not self.blocked
        self.blocked = blocked
        return changed

    def _move_up(self, message: Message) -> None:
        del self.paged[message]
        self.paged_bytes -= message.size


class Charge:
    """How many queues still hold a message of an address with limits."""

    __slots__ = ("account", "queues")

    def __init__(self, account: AddressAccount, queues: int) -> None:
        self.account = account
        self.queues = queues


class AddressAccounts:
    """The accounts of a virtual host, and which message is counted where."""

    __slots__ = ("_charges", "_effects", "_swept_at", "by_address")

    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        self._charges: dict[Message, Charge] = {}
        self._swept_at = IDLE_MAX  # so many accounts there may be before idle ones are looked for
        self.by_address: dict[str, AddressAccount] = {}

    def account_for(self, name: str, limits: AddressLimits) -> AddressAccount | None:
        """Return the account of an address, opened if need be, with these limits; ``None`` when it needs none.

        An account whose limits went is closed: what it holds is not counted any more.
        """
        account = self.by_address.get(name)
        if limits.unlimited:
            if account is not None:
                self._close(account)
            return None
        if account is None:
            if len(self.by_address) >= self._swept_at:
                self._sweep()
            account = AddressAccount(name, limits)
            self.by_address[name] = account
        elif account.limits is not limits:
            account.limits = limits
            self._report(account)
        return account

    def charge(self, account: AddressAccount, message: Message, queues: int) -> None:
        """Count a message before it enters ``queues`` queues: one may be done with it before the next has it."""
        self._charges[message] = Charge(account, queues)
        self.by_address.setdefault(account.name, account)  # idle, it may have been closed since it was asked
        account.add(message)
        self._report(account)

    def replaced(self, former: Message, message: Message) -> None:
        """In one queue ``message`` stands for ``former``, which leaves it next: it counts where that counted."""
        charge = self._charges.get(former)
        if charge is not None:
            self.charge(charge.account, message, 1)

    def counted(self, message: Message) -> bool:
        """Say whether a message is counted by an account."""
        return message in self._charges

    def released(self, message: Message) -> None:
        """A queue is done with a message: called for every entry that leaves. The last one takes it off its account."""
        charge = self._charges.get(message)
        if charge is None:
            return
        charge.queues -= 1
        if charge.queues == 0:
            del self._charges[message]
            charge.account.subtract(message)
            self._report(charge.account)

    def _sweep(self) -> None:
        """Close idle accounts: names that are used once and never again would add up. O(accounts), then rarely."""
        for account in list(self.by_address.values()):
            if not (account.messages or account.blocked or account.dropped or account.refused):
                del self.by_address[account.name]
        self._swept_at = max(IDLE_MAX, 2 * len(self.by_address))

    def _close(self, account: AddressAccount) -> None:
        del self.by_address[account.name]
        for message in [held for held, charge in self._charges.items() if charge.account is account]:
            del self._charges[message]
        if account.blocked:
            account.blocked = False
            self._effects.address_blocked(account.name, blocked=False)

    def _report(self, account: AddressAccount) -> None:
        if account.settle_blocked():
            self._effects.address_blocked(account.name, blocked=account.blocked)


def _spell(limit: int) -> str:
    return "unlimited" if limit < 0 else str(limit)
