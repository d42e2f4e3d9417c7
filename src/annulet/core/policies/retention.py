"""Retention with state of its own: which message a new one supersedes, and which returned ones may stay.

The ring has none: the order of a queue knows its oldest entry. :mod:`annulet.core.policies.retention_rules` has the
list of those there are. A queue has one at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry


class Retention:
    """The state of one queue's retention. The queue tells it about each arrival, return and removal of an entry.

    A queue with one keeps its entries in memory, and its deliveries as objects, because the state may refer to each.
    ``rule``: the rule in the canonical names of the settings, as loss records show it: ``keep-per-key=1``.
    """

    __slots__ = ("rule",)

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def __len__(self) -> int:
        """Return how many groups of messages it distinguishes; statistics show it as ``key_count``."""
        raise NotImplementedError

    def accept(self, entry: QueueEntry, *, recovering: bool = False) -> QueueEntry | None:
        """Note a message that becomes current; return the entry that it supersedes and that is still alive, if any.

        The queue removes that entry, unless a consumer has it. While ``recovering``, messages may come out of turn.
        """
        raise NotImplementedError

    def superseded(self, entry: QueueEntry) -> bool:
        """Return whether an entry that was in delivery must not come back."""
        raise NotImplementedError

    def withdraw(self, entry: QueueEntry) -> None:
        """Note that an entry is replaced by another form of itself, which is accepted next."""
        raise NotImplementedError

    def forget(self, entry: QueueEntry) -> None:
        """Note that an entry left the queue for good."""
        raise NotImplementedError

    def detached(self) -> Retention:
        """Take all state out, as an object of its own: for a caller that removes its entries later."""
        raise NotImplementedError
