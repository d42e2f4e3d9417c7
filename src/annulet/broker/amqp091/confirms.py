"""Publisher confirms of one channel (RabbitMQ's confirm.select): in publish order, and durable publishes from disk."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.broker.durability.commit import CommitPipeline
    from annulet.wire.amqp091.connection.output import FrameWriter


class PublisherConfirms:
    """The answers that a channel owes for its publishes. It numbers publishes also while confirms are off.

    ``published``: publishes since confirm.select, the tag of the latest; ``confirmed_to``: publishes up to here were
    answered or wait for the disk.
    """

    def __init__(self, number: int, connection: AmqpConnection) -> None:
        self.number = number  # of the channel
        self.enabled = False  # confirm.select was given
        self.published = 0
        self.confirmed_to = 0
        self.ended = False  # the channel is closed: nothing is sent
        self._connection = connection
        self._output: FrameWriter = connection.engine.output
        self._pipeline: CommitPipeline = connection.broker.commit
        self._window = 0  # the newest one that publishes wait for; 0: none waits for the disk
        self._waiting_to = 0  # tag of the last of them
        self._waiting: deque[tuple[int, int]] = deque()  # the same of older windows: (last publish tag, window)

    def enable(self) -> None:
        """Switch confirms on; publishes are numbered from here. Nothing changes where they are on."""
        if not self.enabled:
            self.enabled = True
            self.published = 0
            self.confirmed_to = 0

    def wait_for_disk(self) -> None:
        """Confirm the latest publish when the open window is durable."""
        window = self._pipeline.window
        if window != self._window:
            if self._window:
                self._waiting.append((self._waiting_to, self._window))
            self._pipeline.wait(self)
            self._window = window
        self._waiting_to = self.confirmed_to = self.published

    def confirm_upto(self, last: int) -> None:
        """Confirm what needs no disk, unless earlier publishes still wait for it: confirms keep publish order."""
        if last <= self.confirmed_to or not self.enabled:
            return
        if self._window:
            self._waiting_to = last
        else:
            self._confirm(last, last - self.confirmed_to > 1)
        self.confirmed_to = last

    def refuse_latest(self) -> None:
        """Answer the latest publish with basic.nack, and those before it first."""
        self.confirm_upto(self.published - 1)
        self._output.send_refusal(self.number, self.published, False)
        self.confirmed_to = self.published
        self._connection.mark_dirty()

    def window_committed(self, window: int) -> None:
        """Confirm the publishes that this window made durable."""
        last = self._take_waiting(window)
        if last and not self.ended:
            self._confirm(last, True)

    def window_failed(self, window: int) -> None:
        """The disk failed: refuse the publishes that waited for it."""
        last = self._take_waiting(window)
        if last and not self.ended:
            self._output.send_refusal(self.number, last, True)
            self._connection.mark_dirty()

    def _take_waiting(self, window: int) -> int:
        last = 0
        while self._waiting and self._waiting[0][1] <= window:
            last = self._waiting.popleft()[0]
        if 0 < self._window <= window:
            last = self._waiting_to
            self._window = 0
        return last

    def _confirm(self, tag: int, multiple: bool) -> None:
        self._output.send_confirm(self.number, tag, multiple)
        self._connection.mark_dirty()
