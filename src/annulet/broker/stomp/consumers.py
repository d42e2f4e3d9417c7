"""Subscriptions of one connection: its consumers' deliveries, and their names in MESSAGE frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.consumer import Consumer, CreditWindow

if TYPE_CHECKING:
    from annulet.broker.stomp.session import StompSession
    from annulet.core.base.settings import ConsumerSettings
    from annulet.core.queue.queue import Queue

AUTO: Final = "auto"
CLIENT: Final = "client"
CLIENT_INDIVIDUAL: Final = "client-individual"


class StompConsumer(Consumer):
    """A subscription. ``tag``: its name on this connection: ``id:...``, or ``destination:...`` of a 1.0 client."""

    __slots__ = ("destination", "head", "identifier", "mode", "outstanding")

    def __init__(  # noqa: PLR0913 - one keyword per fact
        self,
        session: StompSession,
        queue: Queue,
        tag: str,
        *,
        identifier: str,
        destination: str,
        mode: str,
        window: CreditWindow,
        exclusive: bool,
        settings: ConsumerSettings,
    ) -> None:
        super().__init__(
            session,
            queue,
            tag,
            window=window,
            auto_acknowledge=mode == AUTO,
            exclusive=exclusive,
            priority=settings.priority,
            settings=settings,
        )
        self.identifier = identifier  # SUBSCRIBE's id, empty when there was none
        self.destination = destination  # as the client wrote it
        self.mode = mode
        self.head = b""  # the header line ``subscription``, as it goes on the wire
        self.outstanding: dict[int, None] = {}  # delivery tags that are neither settled nor in a transaction, ascending


def tag_for(identifier: str, destination: str) -> str:
    """Return what names a subscription on its connection."""
    return f"id:{identifier}" if identifier else f"destination:{destination}"
