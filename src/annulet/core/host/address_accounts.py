"""Accounts of addresses with limits: the usage of each across its queues, one body counted once.

:mod:`annulet.core.configuration.address_limits` defines the limits and policies. Only an address with limits has an
account, and only its messages are counted.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from annulet.core.configuration.address_limits import BLOCK, DROP, FAIL, NO_POLICY, PAGE, AddressLimits
from annulet.core.host.account_row_shares import RowShare, RowShares
from annulet.core.host.retroactive import is_ring_name
from annulet.core.host.send_plan import NOTHING
from annulet.core.model.queue_listeners import AddressListener

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.host.send_plan import Amount
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.model.queue_state import QueueState
    from annulet.core.routing.node_effects import NodeEffects

IDLE_MAX: Final = 10_000
"""Accounts above which empty ones without counts are closed, about 3 MB."""

TOLD_MAX: Final = IDLE_MAX // 2
"""Empty accounts kept then for their counts of drops and refusals, the latest ones: a publisher to ever new names under
a limit of 0 creates one for each. The figures of the virtual host include all."""


class AddressAccount:
    """The present usage of one address with limits, and the counts of its policy.

    Paged are the latest messages, from the first one on that found no room: in order of arrival, the others are as many
    as the limits allow. So it follows from the counted messages, after a restart too. Of ``rows`` only number and bytes
    are known (:mod:`annulet.core.host.account_row_shares`): they count as the first, and as equally large.
    """

    __slots__ = (
        "blocked",
        "bytes",
        "dropped",
        "limits",
        "messages",
        "name",
        "paged",
        "paged_known_bytes",
        "refused",
        "row_bytes",
        "rows",
        "warned",
    )

    def __init__(self, name: str, limits: AddressLimits) -> None:
        self.name = name
        self.limits = limits
        self.messages = 0  # in at least one queue, each once
        self.bytes = 0  # their bodies
        self.blocked = False  # BLOCK: publishers are blocked
        self.dropped = 0  # DROP, of the address or of its page limits: messages discarded so far
        self.refused = 0  # FAIL, of either, and BLOCK's hard limit: messages refused so far
        self.warned = False  # drops were logged since the limits were set
        self.paged: OrderedDict[Message, None] = OrderedDict()  # PAGE: those beyond the limit, oldest first; not rows
        self.paged_known_bytes = 0  # of these
        self.rows = 0  # of the messages, those that were on disk only when it was opened: see RowShares
        self.row_bytes = 0  # and of the bytes

    @property
    def paged_count(self) -> int:
        """Messages beyond the limit of an address that pages."""
        return len(self.paged) + self._rows_beyond()

    @property
    def paged_bytes(self) -> int:
        """Body bytes of these."""
        beyond = self._rows_beyond()
        return self.paged_known_bytes + (self.row_bytes * beyond // self.rows if beyond else 0)

    @property
    def page_full(self) -> bool:
        """Return whether the address pages and its page limits have no room for a message of at least one byte."""
        limits = self.limits
        return (
            limits.limits_pages
            and limits.reached_by(self.messages, self.bytes)
            and limits.page_reached_by(self.paged_count, self.paged_bytes)
        )

    @property
    def rule(self) -> str:
        """The setting by which a message is dropped, for the loss ledger."""
        limits = self.limits
        if limits.policy == PAGE:
            return f"page-full-policy {limits.page_policy}"
        return f"address-full-policy {limits.policy}"

    def refusal(self, size: int, claimed: Amount = NOTHING) -> str:
        """Return why FAIL or BLOCK's hard limit refuses a message of ``size`` body bytes; empty when they do not.

        ``claimed`` was let in before it and is not counted yet.
        """
        limits = self.limits
        octets = self.bytes + claimed.bytes + size
        if limits.refused_by(octets):
            return (
                f"address '{self.name}' is full: with this message {octets} bytes, but "
                f"max-size-bytes-reject-threshold is {limits.reject_threshold}; consume from its queues"
            )
        if self._met_by(size, claimed) != FAIL:
            return ""
        if limits.policy == PAGE:
            messages, octets = self.paged_count + claimed.paged + 1, self.paged_bytes + claimed.paged_bytes + size
            return (
                f"address '{self.name}' is full: with this message {messages} messages and {octets} bytes are paged, "
                f"but page-limit-messages is {_spell(limits.page_max_messages)} and page-limit-bytes is "
                f"{_spell(limits.page_max_bytes)} ({self.rule}); consume from its queues or raise the limit"
            )
        messages = self.messages + claimed.messages + 1
        return (
            f"address '{self.name}' is full: with this message {messages} messages and {octets} bytes, but "
            f"max-size-messages is {_spell(limits.max_messages)} and max-size-bytes is {_spell(limits.max_bytes)} "
            f"({self.rule}); consume from its queues or raise the limit"
        )

    def drops(self, size: int, claimed: Amount = NOTHING) -> bool:
        """Return whether DROP discards a message of ``size`` body bytes; ``claimed`` as for :meth:`refusal`."""
        return self._met_by(size, claimed) == DROP

    def pages(self, size: int, claimed: Amount = NOTHING) -> bool:
        """Return whether a message of ``size`` body bytes would be paged.

        The address counts as full while anything is paged, so it pages until all has moved up: order is kept.
        """
        return self.limits.policy == PAGE and self._exceeded_with(size, claimed)

    def add(self, message: Message) -> None:
        """Count a message entering the address's queues."""
        if self.pages(message.size):
            self.paged[message] = None
            self.paged_known_bytes += message.size
        self.messages += 1
        self.bytes += message.size

    def subtract(self, message: Message) -> None:
        """Stop counting a message that has left all queues; paged ones move up into its room."""
        self.messages -= 1
        self.bytes -= message.size
        if message in self.paged:
            self._move_up(message)
        self._fill_room()

    def add_rows(self, rows: int, octets: int) -> None:
        """Count existing rows, before any message: they count as the first arrivals."""
        self.rows += rows
        self.row_bytes += octets
        self.messages += rows
        self.bytes += octets

    def subtract_rows(self, rows: int, octets: int) -> None:
        """Stop counting some of what :meth:`add_rows` counted."""
        self.rows -= rows
        self.row_bytes -= octets
        self.messages -= rows
        self.bytes -= octets
        self._fill_room()

    def clear(self) -> None:
        """Reset the count of messages, which are about to be added again, without rows."""
        self.messages, self.bytes = self.rows, self.row_bytes
        self.paged_known_bytes = 0
        self.paged.clear()

    def settle_blocked(self) -> bool:
        """Update ``blocked``; return whether it changed. Blocked at the limit, open again below it."""
        blocked = self.limits.policy == BLOCK and self.limits.reached_by(self.messages, self.bytes)
        changed = blocked is not self.blocked
        self.blocked = blocked
        return changed

    def _exceeded_with(self, size: int, claimed: Amount) -> bool:
        return self.limits.exceeded_by(self.messages + claimed.messages + 1, self.bytes + claimed.bytes + size)

    def _met_by(self, size: int, claimed: Amount) -> str:
        """Return the policy that meets one more message: DROP and FAIL keep it out, the others let it in."""
        limits = self.limits
        if not self._exceeded_with(size, claimed):
            return NO_POLICY
        if limits.limits_pages and limits.page_exceeded_by(
            self.paged_count + claimed.paged + 1, self.paged_bytes + claimed.paged_bytes + size
        ):
            return limits.page_policy
        return limits.policy

    def _rows_beyond(self) -> int:
        """Return how many rows are paged: those beyond the limits as if all were equally large."""
        rows, limits = self.rows, self.limits
        if not rows or limits.policy != PAGE or not limits.exceeded_by(rows, self.row_bytes):
            return 0
        fit = rows if limits.max_messages < 0 else min(rows, limits.max_messages)
        if 0 <= limits.max_bytes < self.row_bytes:
            fit = min(fit, rows * limits.max_bytes // self.row_bytes)
        return rows - fit

    def _fill_room(self) -> None:
        """Let paged messages move up. None does while rows, which precede them, exceed the limits."""
        while self.paged:
            first = next(iter(self.paged))
            octets = self.bytes - self.paged_known_bytes + first.size
            if self.limits.exceeded_by(self.messages - len(self.paged) + 1, octets):
                return
            self._move_up(first)

    def _move_up(self, message: Message) -> None:
        del self.paged[message]
        self.paged_known_bytes -= message.size


class Charge:
    """The number of queues that still have a message of an address with limits."""

    __slots__ = ("account", "queues")

    def __init__(self, account: AddressAccount, queues: int) -> None:
        self.account = account
        self.queues = queues


class AddressAccounts(AddressListener):
    """The accounts of a virtual host, and which message is counted where.

    ``dropped`` and ``refused`` are messages since the broker started, of accounts that were closed too.
    """

    __slots__ = ("_charges", "_effects", "_shares", "_swept_at", "by_address", "dropped", "refused")

    def __init__(self, effects: NodeEffects) -> None:
        super().__init__()
        self._effects = effects
        self._charges: dict[Message, Charge] = {}
        self._shares = RowShares()
        self._swept_at = IDLE_MAX  # number of accounts at which idle ones are searched
        self.by_address: dict[str, AddressAccount] = {}
        self.dropped = 0
        self.refused = 0

    @property
    def has_shares(self) -> bool:
        """Whether rows of some queue count in an account of an address."""
        return bool(self._shares)

    def hurry_settlements(self) -> bool:
        """Settle some of the deliveries that are being settled in slices. Returns whether there were any."""
        return any(work.hurry() for work in self.settling)

    def account_for(self, name: str, limits: AddressLimits) -> AddressAccount | None:
        """Return the account of an address, opened with these limits if need be; ``None`` when it needs none."""
        account = self.by_address.get(name)
        if account is None and not limits.unlimited:
            if len(self.by_address) >= self._swept_at:
                self._sweep()
            account = AddressAccount(name, limits)
            self.by_address[name] = account
        return account

    def limit(self, changed: Mapping[str, AddressLimits]) -> None:
        """Give open accounts other limits, by name. Counted messages stay under any limits.

        Limits may be the same as before, where another setting of the address changed: then nothing does here.

        An account without limits is closed: its messages are not counted any more. If other messages would be paged,
        these are determined again. O(messages that are counted) then, however many accounts change.
        """
        closed: set[AddressAccount] = set()
        anew: set[AddressAccount] = set()
        for name, limits in changed.items():
            account = self.by_address[name]
            if limits.same_as(account.limits):
                continue
            if limits.unlimited:
                closed.add(account)
            elif not limits.pages_as(account.limits):
                anew.add(account)
                account.clear()
            account.limits = limits
            account.warned = False
        if closed or anew:
            self._count_anew(closed, anew)
        for name in changed:
            account = self.by_address[name]
            if account in closed:
                self._close(account)
            else:
                self._report(account)

    def note_dropped(self, account: AddressAccount) -> None:
        """Count a message that DROP discarded; the first one under these limits is reported."""
        self.dropped += 1
        account.dropped += 1
        if not account.warned:
            account.warned = True
            self._effects.address_drops(account.name, account.rule)

    def note_refused(self, account: AddressAccount) -> None:
        """Count a message that FAIL or BLOCK's hard limit refused."""
        self.refused += 1
        account.refused += 1

    def charge(self, account: AddressAccount, message: Message, queues: int) -> None:
        """Count a message before it enters ``queues`` queues: one may remove it before the next has it."""
        self._charges[message] = Charge(account, queues)
        self.by_address.setdefault(account.name, account)  # idle, it may have been closed since the check
        account.add(message)
        self._report(account)

    def replaced(self, entry: QueueEntry, message: Message) -> None:
        """In one queue ``message`` replaces that of ``entry``, which leaves next: it is counted in the same account."""
        charge = self._charges.get(entry.message)
        share = self._shares.share_of(entry) if charge is None else None
        if charge is not None:
            self.charge(charge.account, message, 1)
        elif share is not None:
            self.charge(share.account, message, 1)

    def count_rows(self, queue: QueueState, account: AddressAccount, rows: tuple[int, int], left: int) -> None:
        """Count rows of a queue by number and body bytes, without knowing each; see :class:`RowShare`.

        ``left``: messages of the queue, rows and others, that are not charged and will not be for being there.
        """
        self._shares.add(queue, RowShare(account, queue.next_sequence, rows[0], rows[1], left))
        self._report(account)

    def rows_gone(self, queue: QueueState, rows: QueueArea) -> None:
        """Rows leave a queue together, all that ``rows`` has. Rows that leave as entries are :meth:`released`."""
        for account in self._shares.gone(queue, rows):
            self._report(account)

    def rows_lost(self, queue: QueueState, rows: int, octets: int) -> None:
        """Rows of a queue are damaged; ``octets`` were found to be of these, or of others before."""
        for account in self._shares.lost(queue, rows, octets):
            self._report(account)

    def queue_gone(self, queue: QueueState) -> None:
        """Forget a deleted, empty queue."""
        for account in self._shares.forget(queue):
            self._report(account)

    def counted(self, message: Message) -> bool:
        """Return whether a message is counted by an account."""
        return message in self._charges

    def released(self, entry: QueueEntry) -> None:
        """Note that a message left a queue: called for every leaving entry.

        The last one removes it from its account.
        """
        message = entry.message
        charge = self._charges.get(message)
        if charge is None:
            if self._shares:
                for account in self._shares.left(entry):
                    self._report(account)
            return
        self._left(charge, message)

    def missed(self, queue: QueueState, message: Message) -> None:
        """Note that a queue which was counted for a message will not get it: it was deleted before its turn came."""
        charge = self._charges.get(message)
        if charge is not None and not is_ring_name(queue.name):
            self._left(charge, message)

    def _left(self, charge: Charge, message: Message) -> None:
        charge.queues -= 1
        if charge.queues == 0:
            del self._charges[message]
            charge.account.subtract(message)
            self._report(charge.account)

    def _sweep(self) -> None:
        """Close idle accounts: names that are used once and never again would add up. O(accounts), then rarely."""
        idle = [account for account in self.by_address.values() if not (account.messages or account.blocked)]
        told = [account for account in idle if account.dropped or account.refused]
        kept = set(told[-TOLD_MAX:])
        for account in idle:
            if account not in kept:
                del self.by_address[account.name]
        self._swept_at = max(IDLE_MAX, 2 * len(self.by_address))

    def _count_anew(self, closed: set[AddressAccount], anew: set[AddressAccount]) -> None:
        gone: list[Message] = []
        for message, charge in self._charges.items():  # in order of arrival
            if charge.account in anew:
                charge.account.add(message)
            elif charge.account in closed:
                gone.append(message)
        for message in gone:
            del self._charges[message]
        self._shares.close(closed)

    def _close(self, account: AddressAccount) -> None:
        del self.by_address[account.name]
        if account.blocked:
            account.blocked = False
            self._effects.address_blocked(account.name, blocked=False)

    def _report(self, account: AddressAccount) -> None:
        if account.settle_blocked():
            self._effects.address_blocked(account.name, blocked=account.blocked)


def _spell(limit: int) -> str:
    return "unlimited" if limit < 0 else str(limit)
