"""Removing all messages of a queue that is deeper than memory: at once, without examining any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.management.operation import FINISHED, SAMPLE_MAX, SLICE_MESSAGES, Operation, Preview

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.management.actions import Remove
    from annulet.core.management.selection import Selection
    from annulet.core.model.entry import QueueEntry


TOO_MUCH: Final = "the queue has more bytes than are kept"


class WholePreview(Preview):
    """Reports the figures of the queue, and shows the first few messages."""

    def __init__(self, action: Remove, selection: Selection, *, sample_max: int) -> None:
        super().__init__(action, selection, sample_max=sample_max, leading=sample_max)

    def step(self, now: int, budget_messages: int = SLICE_MESSAGES) -> bool:
        """Read the sample; the figures are the queue's own."""
        if not super().step(now, budget_messages):
            return False
        result, queue = self.result, self.action.queue
        result.count = result.matched = queue.shown_count() + queue.shown_scheduled()
        result.bytes = queue.shown_bytes() + queue.shown_scheduled_bytes()
        return True


class WholeRemoval(Operation):
    """Empties a queue in one step; it reports the number of removed messages, and no ids."""

    def __init__(self, host: VirtualHost, action: Remove, selection: Selection, *, user: str, now: int) -> None:
        super().__init__(host, action, selection, user=user, now=now, leading=0)
        self._removal = action
        self._there = action.queue.shown_count() + action.queue.shown_scheduled()

    @property
    def total(self) -> int:
        """Number of messages at the start, or, if later, at their removal."""
        return self._there

    def preview(self, *, sample_max: int = SAMPLE_MAX, keeps: Callable[[QueueEntry], bool] | None = None) -> Preview:
        """Return a preview of the same action, for the present messages, of which none is kept."""
        del keeps
        return WholePreview(self._removal, self.selection, sample_max=sample_max)

    def _do(self, looks: int, octets: int, now: int) -> None:
        del looks, octets
        self.done = self.action.queue.empty(self._removal.reason, now)
        self._there = self.seen = self.matched = self.done
        if self.action.keeper is not None:
            self.action.keeper.not_kept(self.done, TOO_MUCH)
        self._end(FINISHED, now)
