"""basic.cancel from the broker, behind the answers that a client waits for.

A client that deletes the queue it consumes waits for delete-ok. py-amqp hands every method that comes meanwhile to the
application: a basic.cancel before delete-ok raises ConsumerCancelled in the middle of the deletion. RabbitMQ's channel
process learns of the queue's end after it has answered, so its clients never see that order.
"""

from __future__ import annotations

from typing import Protocol


class NotifiedChannel(Protocol):
    """The recipient of a notice."""

    def send_cancel(self, tag: str) -> None:
        """Send basic.cancel for a consumer."""


class CancelNotices:
    """Those of one connection: its channels share a socket, so a client that waits on one reads those of all."""

    def __init__(self) -> None:
        self._answers_due = 0
        self._held: list[tuple[NotifiedChannel, str]] = []

    def cancelled(self, channel: NotifiedChannel, tag: str) -> None:
        """Tell the client that a consumer has ended, now or when no answer is due."""
        if self._answers_due:
            self._held.append((channel, tag))
        else:
            channel.send_cancel(tag)

    def hold(self) -> None:
        """An answer is due."""
        self._answers_due += 1

    def release(self) -> None:
        """It was given, or there will be none."""
        self._answers_due -= 1
        if self._held and not self._answers_due:
            held, self._held = self._held, []
            for channel, tag in held:
                channel.send_cancel(tag)
