"""Consumers and their credit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from annulet.core.base.settings import UNLIMITED, ConsumerSettings
from annulet.core.message.selector_names import message_selector

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import UnseenMessages
    from annulet.core.model.queue_state import QueueState


DEFAULT_SETTINGS: Final = ConsumerSettings()


@mypyc_attr(allow_interpreted_subclasses=True)
class CreditWindow:
    """How much may be in delivery at once, in messages and in body bytes (Artemis's consumer window).

    A message larger than the byte window is delivered if no other is unsettled, so that it cannot block permanently.
    ``binds_settled``: it also limits messages that are settled when delivered, which are unlimited otherwise.
    """

    __slots__ = ("binds_settled", "bytes", "bytes_max", "messages", "messages_max")

    def __init__(self, messages_max: int = UNLIMITED, bytes_max: int = UNLIMITED) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.binds_settled = False
        self.messages = 0  # in delivery
        self.bytes = 0  # their body bytes

    def allows(self, size: int) -> bool:
        """Return whether one more message of ``size`` body bytes may go out."""
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

    def give_back_many(self, count: int, size: int) -> None:
        """Count several messages as returned; ``size``: body bytes of all of them."""
        self.messages -= count
        self.bytes -= size


class LinkCredit(CreditWindow):
    """Credit that each delivery uses up, and that only the client can renew (AMQP 1.0 §2.6.7).

    Settled deliveries use it up as well: the session deducts it when it has sent the message.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)
        self.binds_settled = True

    def grant(self, credit: int) -> None:
        """Set the remaining deliveries."""
        self.messages_max = credit

    def take(self, size: int) -> None:  # noqa: ARG002 - counted in messages
        """Use up one."""
        self.messages_max = max(0, self.messages_max - 1)

    def give_back(self, size: int) -> None:
        """A settlement gives nothing back."""

    def give_back_many(self, count: int, size: int) -> None:
        """Nor does a return."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryOwner:
    """The owner of deliveries as queues see it: a session of a client (:mod:`annulet.core.sessions.session`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.window = CreditWindow()  # shared by all its consumers
        self.writable = True  # the connection has room for more output
        self.connection_identity: object | None = None  # whose publishes a no-local consumer does not get
        self.returning = False  # it has ended, and all it held is on its way back in slices

    def deliver_unsettled(self, consumer: Consumer, entry: QueueEntry) -> None:
        """Send a message, and keep it until it is settled. Must not call back into the core."""
        raise NotImplementedError

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Send a message that needs no acknowledgement.

        False when the client cannot take this message at all: the owner holds it then, and returns it to the queue
        once the core has done its work.
        """
        raise NotImplementedError

    def nothing_more(self, consumer: Consumer) -> None:
        """Nothing is there for a consumer that asked for it with ``Queue.drain``. Must not call back into the core."""

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue below a consumer is gone: forget it."""
        raise NotImplementedError

    def wake(self, now: int) -> None:
        """Serve its consumers after credit or output room came back."""
        raise NotImplementedError


class Consumer:
    """One subscription of a session to a queue.

    ``window`` limits this consumer; the session's own window, shared by its consumers, limits all of them together
    (AMQP 0-9-1 ``basic.qos`` with ``global`` as RabbitMQ defines it). Higher ``priority`` is served first. ``settings``
    gives selector, browsing and the like; its ``priority`` is ignored.
    """

    __slots__ = (
        "attached_at",
        "auto_acknowledge",
        "back",
        "back_bytes",
        "cancelled",
        "ended_for",
        "exclusive",
        "held",
        "priority",
        "queue",
        "refused",
        "required",
        "selector",
        "session",
        "settings",
        "tag",
        "unseen",
        "window",
    )

    def __init__(
        self,
        session: DeliveryOwner,
        queue: QueueState,
        tag: str,
        *,
        window: CreditWindow | None = None,
        auto_acknowledge: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        settings: ConsumerSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.session = session
        self.queue = queue
        self.tag = tag
        self.window = CreditWindow() if window is None else window
        self.auto_acknowledge = auto_acknowledge
        self.exclusive = exclusive
        self.priority = priority
        self.settings = settings
        self.selector = message_selector(settings.selector, "selector")
        self.cancelled = False
        self.attached_at = 0  # milliseconds since 1970
        self.ended_for = ""  # why the queue ended it, if not at the end of a browse or by deletion of the queue
        self.held = 0  # deliveries of this queue that are neither settled nor back
        self.back = 0  # of them, those returned in the current slice and not deducted yet
        self.back_bytes = 0  # their body bytes
        self.required = 0  # bits of the matchers that must admit its messages
        self.refused = 0  # the bit of messages it refused for itself
        self.unseen: UnseenMessages | None = None  # a browser's or non-destructive consumer's list of unseen messages

    @property
    def copies(self) -> bool:
        """Return whether it reads without taking: a browser, or any consumer of a non-destructive queue."""
        return self.unseen is not None

    @property
    def ready(self) -> bool:
        """Return whether it could be handed a message if the message were small enough."""
        session = self.session
        if not session.writable:
            return False
        if self.auto_acknowledge and not self.window.binds_settled:
            return True
        return not (
            0 <= self.window.messages_max <= self.window.messages
            or 0 <= session.window.messages_max <= session.window.messages
        )

    def allows(self, size: int) -> bool:
        """Return whether a message of ``size`` body bytes may be handed over now."""
        session = self.session
        if not session.writable:
            return False
        if self.auto_acknowledge and not self.window.binds_settled:
            return True  # nothing stays in delivery, so no window applies (AMQP 0-9-1 §1.8.3.3 no-ack)
        return self.window.allows(size) and session.window.allows(size)

    def take(self, size: int) -> None:
        """Count a delivery in both windows."""
        self.held += 1
        self.window.take(size)
        self.session.window.take(size)

    def give_back(self, size: int) -> None:
        """Count a settled or returned delivery in both windows."""
        self.held -= 1
        self.window.give_back(size)
        self.session.window.give_back(size)

    def give_back_slice(self) -> None:
        """Count the returned deliveries of a slice, noted in ``back``, in both windows."""
        count, size = self.back, self.back_bytes
        self.back = self.back_bytes = 0
        self.held -= count
        self.window.give_back_many(count, size)
        self.session.window.give_back_many(count, size)
