"""Consumers and their credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.settings import UNLIMITED

if TYPE_CHECKING:
    from annulet.core.queue import Queue
    from annulet.core.session import Session


class CreditWindow:
    """How much may be in delivery at once, in messages and in body bytes (Artemis's consumer window).

    A message larger than the byte window is let through when nothing else is out, so that it cannot block for ever.
    """

    __slots__ = ("bytes", "bytes_max", "messages", "messages_max")

    def __init__(self, messages_max: int = UNLIMITED, bytes_max: int = UNLIMITED) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.messages = 0  # in delivery
        self.bytes = 0  # their body bytes

    def allows(self, size: int) -> bool:
        """Say whether one more message of ``size`` body bytes may go out."""
        if 0 <= self.messages_max <= self.messages:
            return False
        return self.bytes_max < 0 or self.bytes == 0 or self.bytes + size <= self.bytes_max

    def take(self, size: int) -> None:
        """Count a message as out."""
        self.messages += 1
        self.bytes += size

    def give_back(self, size: int) -> None:
        """Count a message as settled or returned."""
        self.messages -= 1
        self.bytes -= size


class Consumer:
    """One subscription of a session to a queue.

    ``window`` limits this consumer; the session's own window, shared by its consumers, limits all of them together
    (AMQP 0-9-1 ``basic.qos`` with ``global`` as RabbitMQ defines it). Higher ``priority`` is served first.
    """

    __slots__ = ("auto_acknowledge", "cancelled", "exclusive", "priority", "queue", "session", "tag", "window")

    def __init__(
        self,
        session: Session,
        queue: Queue,
        tag: str,
        *,
        window: CreditWindow | None = None,
        auto_acknowledge: bool = False,
        exclusive: bool = False,
        priority: int = 0,
    ) -> None:
        self.session = session
        self.queue = queue
        self.tag = tag
        self.window = CreditWindow() if window is None else window
        self.auto_acknowledge = auto_acknowledge
        self.exclusive = exclusive
        self.priority = priority
        self.cancelled = False

    def allows(self, size: int) -> bool:
        """Say whether a message of ``size`` body bytes may be handed over now."""
        session = self.session
        if not session.writable:
            return False
        if self.auto_acknowledge:  # nothing stays in delivery, so no window applies (AMQP 0-9-1 §1.8.3.3 no-ack)
            return True
        return self.window.allows(size) and session.window.allows(size)

    def take(self, size: int) -> None:
        """Count a delivery in both windows."""
        self.window.take(size)
        self.session.window.take(size)

    def give_back(self, size: int) -> None:
        """Count a settled or returned delivery in both windows."""
        self.window.give_back(size)
        self.session.window.give_back(size)
